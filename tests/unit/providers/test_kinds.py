"""Every provider is one package that answers all questions, and nothing outside names it."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from gridwright.catalog import load_catalog
from gridwright.errors import ExitStatus, GridwrightError
from gridwright.filesystems.site import ComputeNodes, Site
from gridwright.model.grid import grid_model
from gridwright.model.pricing_provider import pricing_provider
from gridwright.providers import provider_of
from gridwright.providers.builtin import BUILT_IN
from gridwright.providers.machines import HostMachine
from gridwright.providers.provider import Caller, Provider
from gridwright.schedulers.machines import NodeHardware
from gridwright.spec import GridSpec, init_text, parse_spec
from gridwright.spec.fields import Update
from gridwright.spec.findings import KNOWN
from gridwright.spec.provider import PROVIDERS, ProviderKind
from tests.support.source_names import IMPORTS, MODULES, NAMES, ByModule, nodes, strings

KINDS = dict(PROVIDERS.kinds())
COMMON_WORDS = frozenset({"local", "site"})
"""Names that are words of other things, too (file systems, schedulers, where packages come from), and may be
compared with those."""
CATALOGUE = ("catalog/", "cli/plan/catalog_show.py")
"""What is sold where is the catalogue's own column, which happens to have the names of two providers."""
OWN_VERBS = {
    "lab": ("cli/build/lab.py",),
    "aws": ("cli/build/node.py",),
}
"""Verbs of the command line that only one provider has, and that call its package."""
MACHINE = NodeHardware(name="here", cores_per_socket=4, threads_per_core=2, memory_bytes=16 * 2**30)


@pytest.mark.parametrize(
    ("more", "what", "remedy"),
    [
        ("", "is the machine that Gridwright runs on", "provider: lab"),
        (
            "nodes: {compute: {hosts: 'c[1-2]', cores: 4, memory: 8 GiB}}\nscheduler: {type: ssh}\n",
            "of machines that",
            "provider: site",
        ),
    ],
)
def test_status_of_machines_that_are_there_says_so_and_what_tells_of_them(
    more: str, what: str, remedy: str
) -> None:
    filesystems = "filesystems: {a: {type: local, path: /a}}\nlibraries: {data: {filesystem: a}}\n"
    spec = parse_spec(f"provider: local\n{more}{filesystems}")
    with pytest.raises(GridwrightError) as told:
        provider_of(spec).status(spec)
    (problem,) = told.value.problems
    assert what in problem.what
    assert "status is for grids that up makes" in problem.what
    assert "gridwright doctor says how it is" in str(problem.remedy)
    assert remedy in str(problem.remedy)


def own_package(name: str) -> str:
    """`providers/lab/`, the directory that holds a provider."""
    module = type(KINDS[name]).__module__
    return module.removeprefix("gridwright.").rpartition(".")[0].replace(".", "/") + "/"


def outside(name: str) -> Iterator[str]:
    """Modules of Gridwright that are not of a provider's package, without the list of providers."""
    for module in MODULES:
        if not module.startswith(own_package(name)) and module != "providers/builtin.py":
            yield module


def names_of(kind: ProviderKind) -> set[str]:
    """Classes of a provider: its own, its section, and what else is defined in these two modules."""
    modules = {inspect.getmodule(type(kind))}
    if kind.section is not None:
        modules.add(inspect.getmodule(kind.section.model))
    return {
        name
        for module in modules
        for name, each in vars(module).items()
        if inspect.isclass(each) and each.__module__ == getattr(module, "__name__", "")
    }


def tells_a_provider(node: ast.expr) -> bool:
    """Whether an expression is the name of a provider: `x.provider`, `data["provider"]`, `kind.name`."""
    match node:
        case ast.Attribute(attr="provider") | ast.Name(id="provider"):
            return True
        case ast.Attribute(attr="name", value=ast.Attribute(attr="provider_kind") | ast.Name(id="provider")):
            return True
        case ast.Subscript(slice=ast.Constant(value="provider")):
            return True
        case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value="provider"), *_]):
            return True
    return False


def compared(tree: ast.Module) -> Iterator[tuple[int, str, bool]]:
    """Line and string of everything that is compared with a string, and whether a provider's name is."""
    for node in nodes(tree):
        match node:
            case ast.Compare(left=left, comparators=others):
                sides = [left, *others]
                is_name = any(map(tells_a_provider, sides))
                yield from ((node.lineno, text, is_name) for side in sides for text in strings(side))
            case ast.Match(subject=subject, cases=cases):
                for each in (each for case in cases for each in ast.walk(case.pattern)):
                    if isinstance(each, ast.MatchValue):
                        is_name = tells_a_provider(subject)
                        yield from ((each.lineno, text, is_name) for text in strings(each.value))
            case ast.Subscript(value=ast.Dict(keys=keys), slice=key) if tells_a_provider(key):
                yield from ((node.lineno, text, True) for each in keys if each for text in strings(each))


COMPARED = ByModule(lambda name: [*compared(MODULES[name])])


@pytest.mark.parametrize(
    "code",
    [
        'spec.provider == "toy"',
        '"toy" != data["provider"]',
        'data.get("provider", "local") in ("lab", "toy")',
        'spec.provider_kind.name not in {"toy"}',
        'match spec.provider:\n    case "lab" | "toy":\n        pass',
        '{"toy": 1, "aws": 2}[spec.provider]',
    ],
)
def test_what_compares_a_provider_is_seen(code: str) -> None:
    assert ("toy", True) in [(text, is_name) for _, text, is_name in compared(ast.parse(code))]


def test_there_are_providers_to_hold_this_for() -> None:
    assert list(KINDS)[: len(BUILT_IN)] == list(BUILT_IN)
    assert set(BUILT_IN) == {"local", "lab", "aws", "oci", "azure", "google", "site"}
    assert set(BUILT_IN) >= COMMON_WORDS
    assert len(MODULES) > 300
    assert sum(map(len, COMPARED.values())) > 100
    assert PROVIDERS.broken() == []


@pytest.mark.parametrize("name", KINDS)
def test_nothing_outside_compares_with_the_name_of_a_provider(name: str) -> None:
    found = [
        f"{module}:{line}"
        for module in outside(name)
        for line, text, is_name in COMPARED[module]
        if text == name and (is_name or name not in COMMON_WORDS) and not module.startswith(CATALOGUE)
    ]
    assert found == []


@pytest.mark.parametrize("name", KINDS)
def test_nothing_outside_names_a_class_of_a_provider(name: str) -> None:
    names = names_of(KINDS[name])
    assert names
    assert [f"{module}: {each}" for module in outside(name) for each in NAMES[module] & names] == []


@pytest.mark.parametrize("name", KINDS)
def test_nothing_outside_imports_a_provider(name: str) -> None:
    package = "gridwright." + own_package(name).rstrip("/").replace("/", ".")
    found = {
        module
        for module in outside(name)
        if any(each == package or each.startswith(package + ".") for each in IMPORTS[module])
    }
    assert found == set(OWN_VERBS.get(name, ()))


@pytest.mark.parametrize("name", KINDS)
def test_a_provider_is_one_package_with_one_object(name: str) -> None:
    kind = KINDS[name]
    assert isinstance(kind, Provider)
    assert kind.name == name
    assert type(kind).__module__ == f"gridwright.providers.{name}.provider"
    module, _, attribute = BUILT_IN[name].partition(":")
    assert find_spec(module) is not None
    assert attribute == name.upper()


@pytest.fixture(scope="module", params=KINDS)
def spec(request: pytest.FixtureRequest) -> GridSpec:
    """The grid that `init` writes for a provider."""
    return parse_spec(init_text(str(request.param)), base=Path("/srv"))


def test_it_answers_what_the_spec_asks(spec: GridSpec) -> None:
    kind = spec.provider_kind
    assert kind.name == spec.provider
    assert {each.name for each in kind.findings(spec)} <= set(KNOWN)
    state = kind.state_directory(spec)
    assert state is None or state.is_absolute()
    if kind.section is not None:
        assert kind.section.description.endswith(".")
        assert [each for each in kind.section.field.metadata if isinstance(each, Update)] == [
            kind.section.update
        ]
        assert spec.model_copy(update={spec.provider: None}).section(kind.section.model) is None


NONSENSE: list[dict[str, Any]] = [
    {},
    {"nodes": 1, "filesystems": [], "scheduler": "x", "region": 3},
    {"nodes": {"compute": None}, "filesystems": {"a": 1}, "scheduler": {"type": []}},
    {"aws": 1, "lab": 1},
    {"aws": {"zone": 1, "network": [], "subnets": {"public": 1}}, "nodes": {1: {}}, "region": "us-east-1"},
]


@pytest.mark.parametrize("data", NONSENSE, ids=str)
@pytest.mark.parametrize("name", KINDS)
def test_its_cross_checks_pass_over_what_has_the_wrong_type(name: str, data: dict[str, Any]) -> None:
    for path, problem in KINDS[name].problems({"provider": name, **data}):
        assert all(isinstance(part, str | int) for part in path)
        assert str(problem)


@pytest.mark.parametrize("name", KINDS)
def test_the_spec_that_init_writes_can_be_predicted(name: str) -> None:
    """What is not on sale, in size or kind, is refused with all that is wrong."""
    grid_model(parse_spec(init_text(name)), load_catalog())


def test_it_answers_what_the_model_asks(spec: GridSpec) -> None:
    catalog = load_catalog()
    pricing = pricing_provider(spec)
    beside = pricing.costs_beside(spec, catalog)
    assert all(each.what for each in beside)
    assert len(pricing.costs_of(spec, catalog, 3, has_lustre=False)) == len(beside)
    site = Site(spec, catalog, ComputeNodes(1, 1, None))
    pricing.report_not_offered(site)
    assert site.problems == []
    assert all(name in catalog.volumes for name in spec.provider_kind.market.planned_volumes)
    assert bool(spec.provider_kind.market.planned_volumes) == spec.is_cloud


def test_the_contract_is_small() -> None:
    """What only some providers can do is a capability, whose protocol stands beside the contract."""
    for contract in (Provider, ProviderKind):
        asked = [name for name, value in vars(contract).items() if inspect.isfunction(value)]
        assert 0 < len(asked) <= 14
    flags = [name for name, value in vars(ProviderKind).items() if isinstance(value, bool)]
    assert len(flags) <= 9


def test_it_is_rendered_the_same_each_time(spec: GridSpec) -> None:
    host = HostMachine(MACHINE)
    first, second = (provider_of(spec).render(spec, host, None) for _ in range(2))
    assert first.files == second.files
    assert {"README.md", "site.yml", "inventory.yml"} <= set(first.files)
    assert first.hosts.names()


def test_verbs_say_what_they_cannot_do(spec: GridSpec) -> None:
    """Those that make nothing: what makes grids is proven by tests of its own."""
    provider = provider_of(spec)
    if type(provider).up is not Provider.up:
        assert type(provider).status is not Provider.status
        assert type(provider).removal is not Provider.removal
        return
    verbs: list[Callable[[], object]] = [lambda: provider.up(spec, Caller()), lambda: provider.removal(spec)]
    if type(provider).status is Provider.status:
        verbs.append(lambda: provider.status(spec))
    for verb in verbs:
        with pytest.raises(GridwrightError) as caught:
            verb()
        assert caught.value.status is ExitStatus.INPUT
        assert caught.value.problems[0].remedy
    assert provider.on_this_machine is None
