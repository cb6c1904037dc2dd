"""Every kind of file system is one package, and nothing outside it names its classes or its type."""

from __future__ import annotations

import ast
import contextlib
import inspect
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from gridwright.catalog import load_catalog
from gridwright.errors import GridwrightError, environment_error
from gridwright.filesystems import all_kinds, kind_of
from gridwright.filesystems.builtin import BUILT_IN
from gridwright.filesystems.health import Health
from gridwright.filesystems.kind import (
    Changelogs,
    ClientSettings,
    CloudFindings,
    Degradation,
    FileSystemKind,
    LabServices,
    Layouts,
    LazyLoad,
    NodeDisks,
    Offers,
    ServerHealth,
    StorageNodes,
)
from gridwright.filesystems.layout import DesiredLayout
from gridwright.filesystems.offers import OnSale, volume_market
from gridwright.filesystems.provided import LustreServers, ManagedLustre
from gridwright.filesystems.resources import Contribution, DeadPart
from gridwright.filesystems.site import ComputeNodes, Site
from gridwright.filesystems.watching import watcher_of
from gridwright.model.grid import grid_model
from gridwright.providers.aws.provider import AWS
from gridwright.spec import json_schema, parse_spec
from gridwright.spec.filesystem import FILESYSTEMS, FileSystem
from gridwright.spec.findings import KNOWN
from gridwright.spec.model import GridSpec
from tests.support.source_names import IMPORTS, MODULES, NAMES, STRINGS, ByModule, nodes, strings, strings_in

KINDS = dict(all_kinds())

COMMON_WORDS = frozenset({"local", "scale", "managed"})
"""Types that are words of other things, too: of providers and schedulers, of the workload's size, of records
and plans. Of these it is held that nothing compares them with a type, and that nothing writes them as one."""

NAMES_OF_OTHERS = {
    "lustre": {
        "cli/data/serve.py": "the kernel's name of it, in /proc/mounts: a copytool speaks its HSM alone",
        "doctor/checks/machine.py": "the kernel's name of it, in /proc/mounts: whoever mounted it",
        "filesystems/mounts.py": "the kernel's name of it, among all that Linux reads over a network",
        "filesystems/lustre_client/client.py": "the kernel's name of it, for mount(8)",
        "filesystems/lustre_client/parameters.py": "the kernel's name of it, in /proc/mounts",
        "filesystems/oci_lustre/model.py": "what Oracle calls a file system that has no other name",
        "providers/boot/roles/lustre_server/files/lustre_health.py": "a name below /proc, on servers",
        "node_programs/lustre_targets.py": "the kernel's name of it, for mount(8); no spec is there",
    },
    "nfs": {
        "filesystems/scale/pool_rules.py": "a section of that kind's own, for the protocol",
        "filesystems/scale/rules.py": "a section of that kind's own, for the protocol",
        "filesystems/scale/administration/desired.py": "that section, written down for its servers",
        "filesystems/nfs_client/__init__.py": "the kernel's name of it, for mount(8)",
        "doctor/facts/gather.py": "the kernel's name of it, in /proc/self/mountinfo",
        "filesystems/mounts.py": "the kernel's name of it, among all that Linux reads over a network",
    },
}
"""Where a string that equals a type means another thing: type, then module, then what it means."""


def package_of(kind: FileSystemKind[Any]) -> str:
    """`filesystems.lustre`, the package that holds a kind."""
    name = type(kind).__module__.rpartition(".")[0]
    return name.removeprefix("gridwright.")


def outside(kind: FileSystemKind[Any]) -> Iterator[tuple[str, ast.Module]]:
    """Modules of Gridwright that are not of a kind's package, without the list of kinds."""
    own = package_of(kind).replace(".", "/") + "/"
    for name, tree in MODULES.items():
        if not name.startswith(own) and name != "filesystems/builtin.py":
            yield name, tree


def names_of(kind: FileSystemKind[Any]) -> set[str]:
    """Classes of a kind: its model, the kind itself, and what else is public in these two modules."""
    found = set()
    for module in (inspect.getmodule(type(kind)), inspect.getmodule(kind.spec_model)):
        found |= {
            name
            for name, each in vars(module).items()
            if inspect.isclass(each) and each.__module__ == getattr(module, "__name__", "")
        }
    return found


def asks_for_a_type(node: ast.expr) -> bool:
    """Whether an expression is the type of something: `x.type`, `x["type"]`, `x.get("type")`, `kind`."""
    match node:
        case ast.Attribute(attr="type") | ast.Name(id="type" | "kind"):
            return True
        case ast.Subscript(slice=ast.Constant(value="type")):
            return True
        case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value="type"), *_]):
            return True
    return False


def types_named(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and string of what is compared with a type, or written as one."""
    for node in nodes(tree):
        match node:
            case ast.Compare(left=left, comparators=others):
                sides = [left, *others]
                if any(map(asks_for_a_type, sides)):
                    yield from ((node.lineno, text) for side in sides for text in strings(side))
            case ast.Match(subject=subject, cases=cases) if asks_for_a_type(subject):
                for case in cases:
                    for each in ast.walk(case.pattern):
                        if isinstance(each, ast.MatchValue):
                            yield from ((each.value.lineno, text) for text in strings(each.value))
            case ast.Dict(keys=keys, values=values):
                for key, value in zip(keys, values, strict=True):
                    if isinstance(key, ast.Constant) and key.value == "type":
                        yield from ((node.lineno, text) for text in strings(value))


TYPES = ByModule(lambda name: [*types_named(MODULES[name])])


@pytest.mark.parametrize(
    "code",
    [
        'filesystem.type == "toyfs"',
        '"toyfs" != each["type"]',
        'each.get("type") in ("local", "toyfs")',
        'kind not in {"toyfs"}',
        'match each.type:\n    case "local" | "toyfs":\n        pass',
        'section = {"type": "toyfs", "path": "/t"}',
    ],
)
def test_what_names_a_type_is_seen(code: str) -> None:
    assert "toyfs" in [text for _, text in types_named(ast.parse(code))]
    assert "toyfs" in strings_in(ast.parse(code))


def test_what_names_no_type_is_passed_over() -> None:
    code = 'def f():\n    """toyfs"""\n    return provider == "toyfs"'
    assert list(types_named(ast.parse(code))) == []
    assert strings_in(ast.parse(code)) == {"toyfs"}
    assert "toyfs" not in strings_in(ast.parse('"toyfs"'))


def test_there_are_kinds_to_hold_this_for() -> None:
    assert list(KINDS)[: len(BUILT_IN)] == list(BUILT_IN)
    assert len(BUILT_IN) >= 6
    assert len(MODULES) > 300
    assert set(BUILT_IN) >= COMMON_WORDS
    assert FILESYSTEMS.broken() == []


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_is_one_package(name: str) -> None:
    kind = KINDS[name]
    package = package_of(kind)
    assert package.count(".") == 1, "a package of its own, right in the room"
    assert type(kind).__module__ == f"gridwright.{package}.kind"
    assert kind.spec_model.__module__ in {f"gridwright.{package}.model", f"gridwright.{package}.kind"}
    assert len({package_of(each) for each in KINDS.values()}) == len(KINDS)


@pytest.mark.parametrize("name", KINDS)
def test_nothing_outside_imports_a_kind(name: str) -> None:
    package = f"gridwright.{package_of(KINDS[name])}"
    found = [
        f"{module}: {each}"
        for module, _ in outside(KINDS[name])
        for each in IMPORTS[module]
        if each == package or each.startswith(package + ".")
    ]
    assert found == []


@pytest.mark.parametrize("name", KINDS)
def test_nothing_outside_names_a_class_of_a_kind(name: str) -> None:
    names = names_of(KINDS[name])
    assert len(names) >= 2
    found = []
    for module, _ in outside(KINDS[name]):
        found += [f"{module}: {each}" for each in NAMES[module] if each in names]
    assert found == []


@pytest.mark.parametrize("name", KINDS)
def test_nothing_outside_compares_or_writes_the_type_of_a_kind(name: str) -> None:
    found = [
        f"{module}:{line}"
        for module, _ in outside(KINDS[name])
        for line, text in TYPES[module]
        if text == name and module not in NAMES_OF_OTHERS.get(name, ())
    ]
    assert found == []


@pytest.mark.parametrize("name", [each for each in KINDS if each not in COMMON_WORDS])
def test_nothing_outside_holds_the_type_of_a_kind_in_any_way(name: str) -> None:
    """No string equals it: no comparison, no key of a mapping, no member of a list."""
    found = {module for module, _ in outside(KINDS[name]) if name in STRINGS[module]}
    others = set(NAMES_OF_OTHERS.get(name, {}))
    assert found - others == set()
    assert others - found == set(), "an exception that nothing needs"


def test_kinds_are_imported_when_they_are_asked_for() -> None:
    """To read a spec, the kinds that it names, and nothing that only their rates or health need."""
    code = (
        "import sys; from gridwright.spec import parse_spec\n"
        "parse_spec('filesystems: {disk: {type: local, path: /data}}')\n"
        "print(*(name for name in sys.modules if name.startswith('gridwright.filesystems.')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    loaded = {name for name in done.stdout.split() if "." in name.removeprefix("gridwright.filesystems.")}
    assert loaded == {"gridwright.filesystems.local.kind"}


# Every kind of file system answers every question, on the least that a spec can say of it.

SERVERS = {"instance": "c5n.9xlarge", "count": 2, "disks": {"type": "gp3", "count": 4, "size": "1 TiB"}}
LEAST: dict[str, dict[str, Any]] = {
    "local": {},
    "lustre": {"oss": SERVERS, "mds": SERVERS},
    "fsx-lustre": {"capacity": "1200 GiB"},
    "oci-lustre": {"capacity": "31.2 TB"},
    "oci-file-storage": {},
    "scale": {
        "nsd": {**SERVERS, "instance": "BM.Optimized3.36", "disks": {"type": "balanced", "size": "1 TiB"}}
    },
    "nfs": {"server": "nfs1", "export": "/srv/grid"},
    "moosefs": {},
    "managed": {"limits": {"read": "4 GB/s", "write": "2 GB/s"}},
}
"""Fields of each kind beside type and path: those that it cannot do without, and servers where it has any."""
ORACLES = {"provider": "oci", "region": "us-ashburn-1", "instance": "VM.Standard.E5.Flex(8)"}
WHERE = dict.fromkeys(("oci-lustre", "oci-file-storage", "scale"), ORACLES)
"""Where a kind is sold that AWS does not have."""
AMAZONS = {"provider": "aws", "region": "us-east-1", "instance": "m5n.8xlarge"}


def spec_of(name: str) -> GridSpec:
    where = WHERE.get(name, AMAZONS)
    return GridSpec.model_validate(
        {
            "provider": where["provider"],
            "region": where["region"],
            "nodes": {"compute": {"instance": where["instance"], "count": 2}},
            "filesystems": {"one": {"type": name, "path": "/grid", **LEAST.get(name, {})}},
            "scheduler": {"type": "slurm"},
        }
    )


def asked(name: str) -> tuple[FileSystemKind[Any], FileSystem, GridSpec]:
    spec = spec_of(name)
    filesystem = spec.filesystems["one"]
    return kind_of(filesystem), filesystem, spec


def unreachable(command: Sequence[str], *, timeout_s: float = 30.0) -> Any:
    raise environment_error(f"{command[0]}: the node does not answer", remedy="none")


def test_there_are_kinds_to_ask() -> None:
    assert set(LEAST) == set(BUILT_IN) <= set(KINDS)


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_is_found_by_its_name_and_has_a_title(name: str) -> None:
    kind, filesystem, _ = asked(name)
    assert kind is KINDS[name]
    assert isinstance(filesystem, kind.spec_model)
    assert filesystem.type == name
    assert kind.title
    assert kind.describe(filesystem)


@pytest.mark.parametrize("name", KINDS)
def test_the_spec_is_told_of_problems_and_findings(name: str) -> None:
    kind, filesystem, spec = asked(name)
    fields = {"type": name, "path": "/grid", **LEAST.get(name, {})}
    assert list(kind.problems(fields)) == []
    # What has the wrong type is told by the model alone.
    for wrong in ({"type": name}, dict.fromkeys(kind.spec_model.model_fields, object())):
        assert all(isinstance(path, tuple) for path, _ in kind.problems(wrong))
    found = [*kind.findings("one", filesystem, spec)]
    if isinstance(kind, CloudFindings):
        found += kind.cloud_findings("one", filesystem, spec)
    assert {each.name for each in found} <= set(KNOWN)


@pytest.mark.parametrize("name", KINDS)
def test_predictions_and_plans_are_told_what_it_brings(name: str) -> None:
    kind, filesystem, spec = asked(name)
    catalog = load_catalog(None)
    where = WHERE.get(name, AMAZONS)
    instance = catalog.instance(where["instance"], where["provider"])
    site = Site(spec, catalog, ComputeNodes(2, instance.cores, instance.memory_bytes, instance))
    found = kind.contribute("one", filesystem, site)
    assert isinstance(found, Contribution)
    assert bool(found.unknown) == (len(found.routes) < 2)
    assert site.problems == []
    if isinstance(kind, NodeDisks):
        assert kind.on_node_disks({"type": "instance-store"})["type"] == name
        assert filesystem.is_node_local
        assert kind.scratch_array(filesystem) is None, "no disks are described"


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if isinstance(kind, Offers)])
def test_what_it_offers_a_planner_is_a_section_of_its_own(name: str) -> None:
    catalog = load_catalog(None)
    servers = [(catalog.instance(each, "aws"), 2.0) for each in ("m5n.8xlarge", "r5n.8xlarge")]
    volumes = volume_market(catalog, AWS.market.planned_volumes, "us-east-1")
    where = WHERE.get(name, AMAZONS)
    on_sale = OnSale(
        catalog,
        where["region"],
        servers,
        volumes,
        provider=where["provider"],
        shared_volumes=volume_market(catalog, AWS.shared_volumes.types, "us-east-1"),
    )
    kind = KINDS[name]
    assert isinstance(kind, Offers)
    for offer in kind.offers(on_sale):
        choice = offer.smallest(1e9, 2**40)
        assert offer.most
        assert choice is not None
        assert choice.durable == offer.durable
        spec = KINDS[name].spec_model.model_validate({**choice.plain, "path": "/grid"})
        assert spec.type == name
        assert choice.bytes_per_s >= 1e9 * (1 - 1e-9)
        assert choice.capacity_bytes >= 2**40


@pytest.mark.parametrize("name", KINDS)
def test_nodes_are_told_what_to_mount(name: str) -> None:
    kind, filesystem, _ = asked(name)
    entry = kind.mount_entry(filesystem, "known@tcp:/one")
    if entry is not None:
        assert entry.type in kind.kernel_types
        assert entry.mount_point == "/grid"
    if not isinstance(kind, ClientSettings):
        return
    for filesystems in ([], [filesystem]):
        variables = kind.playbook_variables(filesystems)
        assert json.loads(json.dumps(variables)) == variables
    assert kind.playbook_variables([]).keys() == kind.playbook_variables([filesystem]).keys()
    for row_kind in kind.tuning_kinds():
        assert row_kind.command("key")
        assert row_kind.value("", "key") is None


@pytest.mark.parametrize("name", KINDS)
def test_health_is_asked_without_a_traceback(name: str) -> None:
    kind, filesystem, _ = asked(name)
    try:
        found = kind.health(filesystem, unreachable, "/grid")
    except GridwrightError as error:
        assert error.problems
    else:
        assert found is None or isinstance(found, Health)
    if isinstance(kind, ServerHealth):
        for server in (None, "host"):
            with pytest.raises(GridwrightError):
                kind.server_health(unreachable, server)
        assert kind.server_of_mount("") is None


@pytest.mark.parametrize("name", KINDS)
def test_counters_and_layouts_are_asked_without_a_traceback(name: str) -> None:
    kind, filesystem, _ = asked(name)
    watchers = [watcher for each in kind.kernel_types if (watcher := watcher_of(each)) is not None]
    # What cannot be asked says so when it is read, not when a monitor begins.
    for counts in (watcher.mount_counters(unreachable, "/grid") for watcher in watchers):
        if counts is not None:
            with contextlib.suppress(GridwrightError):
                assert isinstance(counts(), Mapping)
    assert isinstance(kind, Layouts) == filesystem.takes_layouts
    if isinstance(kind, Layouts):
        with pytest.raises(GridwrightError):
            kind.layout(filesystem, unreachable, "/grid/data")
        with contextlib.suppress(GridwrightError):
            wish = DesiredLayout(library="data")
            assert kind.library_findings(filesystem, unreachable, "/grid/data", wish) == []
    assert isinstance(kind, Changelogs) == filesystem.has_changelogs
    assert isinstance(kind, LazyLoad) == filesystem.has_copytool


@pytest.mark.parametrize("name", KINDS)
def test_providers_are_told_what_to_make_and_to_let_through(name: str) -> None:
    kind, filesystem, _ = asked(name)
    requests = kind.requests(filesystem)
    assert (LustreServers in requests) == (filesystem.is_built and "nsd" not in filesystem.server_groups)
    assert LustreServers not in requests or filesystem.server_groups
    assert ManagedLustre not in requests or not filesystem.is_built
    for each in kind.servers_elsewhere(filesystem):
        assert each.ports.name.isalnum()
        assert 0 < each.ports.first <= each.ports.last < 2**16
        assert each.why


@pytest.mark.parametrize("name", KINDS)
def test_a_lab_is_told_what_it_has_to_run(name: str) -> None:
    kind, filesystem, _ = asked(name)
    if not isinstance(kind, LabServices):
        return
    count = kind.lab_nodes(filesystem)
    names = [f"storage{number}" for number in range(1, count + 1)]
    storage = StorageNodes(
        servers=names,
        clients=["compute1"],
        all_nodes=[*names, "compute1"],
        directory="/srv",
        keep_free="64MiB",
    )
    services = kind.lab_services("one", filesystem, storage) if count else ()
    assert len({each.name for each in services}) == len(services)
    assert all({*each.nodes} <= {*names, "compute1"} and each.patience_s > 0 for each in services)
    assert (kind.lab_memory_bytes(filesystem, 2) > 0) == bool(services) == bool(count)
    assert count or filesystem.is_node_local, "somebody has to serve it"


def test_a_spec_can_silence_what_a_kind_of_a_sites_own_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    described = "filesystems: {disk: {type: local, path: /data}}\nsilence: {toyfs-slow: it is a toy}\n"
    with pytest.raises(GridwrightError, match=r"there is no finding .toyfs-slow"):
        parse_spec(described)
    monkeypatch.setattr(KINDS["local"], "finding_names", {"toyfs-slow": "a toy is slow"})
    assert parse_spec(described).silence == {"toyfs-slow": "it is a toy"}
    assert "toyfs-slow" in json_schema()["properties"]["silence"]["propertyNames"]["enum"]


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if isinstance(kind, Degradation)])
def test_a_kind_says_what_is_left_without_each_of_its_parts(name: str) -> None:
    kind, filesystem, spec = asked(name)
    contribution = grid_model(spec, load_catalog()).contributions["one"]
    assert isinstance(kind, Degradation)
    groups = kind.parts(filesystem, contribution)
    assert len({group.role for group in groups}) == len(groups)
    for group in groups:
        assert len(group.names) == group.count > 0
        one = kind.without(filesystem, contribution, [DeadPart(group.role, 1)])
        every = [DeadPart(group.role, number) for number in range(1, group.count + 1)]
        whole = kind.without(filesystem, contribution, every)
        assert 0 <= whole.rate_part <= one.rate_part <= 1
        assert 0 <= one.files_part <= whole.files_part <= 1
        assert (one.fate == "kept") == (one.files_part == 0)
        assert one.words
