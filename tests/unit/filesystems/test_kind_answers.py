"""Every kind of file system answers every question, on the least that a spec can say of it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from gridwright.catalog import load_catalog
from gridwright.errors import GridwrightError, environment_error
from gridwright.filesystems import all_kinds, kind_of
from gridwright.filesystems.builtin import BUILT_IN
from gridwright.filesystems.capabilities import (
    Changelogs,
    ClientSettings,
    CloudFindings,
    Degradation,
    LabServices,
    Layouts,
    LazyLoad,
    NodeDisks,
    Offers,
    ServerHealth,
)
from gridwright.filesystems.desired_layout import DesiredLayout
from gridwright.filesystems.health import Health
from gridwright.filesystems.in_lab import StorageNodes
from gridwright.filesystems.kind import FileSystemKind
from gridwright.filesystems.loss import DeadPart
from gridwright.filesystems.offers import OnSale
from gridwright.filesystems.provided import LustreServers, ManagedLustre
from gridwright.filesystems.resources import Contribution
from gridwright.filesystems.site import ComputeNodes, Site
from gridwright.filesystems.volume_sets import volume_market
from gridwright.filesystems.watching import watcher_of
from gridwright.model.grid import grid_model
from gridwright.providers.aws.provider import AWS
from gridwright.spec import json_schema, parse_spec
from gridwright.spec.filesystem import FileSystem
from gridwright.spec.findings import KNOWN
from gridwright.spec.model import GridSpec

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
KINDS = dict(all_kinds())
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
