"""What holds for every kind of scheduler, and that nothing outside its package knows it."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, get_args, get_origin

import pytest

from gridwright.errors import GridwrightError
from gridwright.schedulers import scheduler_kind
from gridwright.schedulers.builtin import BUILT_IN
from gridwright.schedulers.head_node import LocalHeadNode
from gridwright.schedulers.kind import SchedulerKind
from gridwright.schedulers.machines import GridMachines, NodeHardware
from gridwright.schedulers.scheduler import Scheduler
from gridwright.schedulers.state_directory import state_directory
from gridwright.spec import SCHEDULERS, GridSpec, json_schema, load_spec, parse_spec
from gridwright.spec.scheduler import SchedulerSection
from tests.support.source_names import IMPORTS, MODULES, STRINGS, imported_in, nodes

KINDS = dict(SCHEDULERS.kinds())
QUESTIONS = ("runs_on_one_machine", "has_queue", "knows_nodes", "needs_head_node")


def spec_of(name: str, tmp_path: Path) -> GridSpec:
    return parse_spec(
        f"scheduler: {{type: {name}}}\nfilesystems:\n  disk: {{type: local, path: {tmp_path}}}\n"
    )


def test_there_are_kinds() -> None:
    assert list(KINDS) == SCHEDULERS.names()
    assert set(BUILT_IN) <= set(KINDS)
    assert len(BUILT_IN) >= 3
    assert SCHEDULERS.broken() == []


@pytest.mark.parametrize("name", KINDS)
def test_a_section_is_of_its_kind_alone(name: str, tmp_path: Path) -> None:
    kind = KINDS[name]
    assert isinstance(kind, SchedulerKind)
    annotation = kind.spec_model.model_fields["type"].annotation
    assert get_origin(annotation) is Literal
    assert get_args(annotation) == (name,)
    spec = spec_of(name, tmp_path)
    assert type(spec.scheduler) is kind.spec_model
    assert scheduler_kind(spec.scheduler) is kind
    assert kind.section(spec) is spec.scheduler
    for other in KINDS.values():
        if other is not kind:
            with pytest.raises(TypeError):
                other.section(spec)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_answers_every_question(name: str) -> None:
    model = KINDS[name].spec_model
    assert {type(getattr(model, question)) for question in QUESTIONS} == {bool}
    section = model.model_validate({"type": name})
    assert section.starts_jobs_on_nodes == (model.has_queue and not model.runs_on_one_machine)
    assert not (model.runs_on_one_machine and model.needs_head_node)


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_opens_or_says_that_it_has_no_queue(name: str, tmp_path: Path) -> None:
    spec = spec_of(name, tmp_path)
    assert state_directory(spec).is_absolute()
    if not spec.scheduler.has_queue:
        with pytest.raises(GridwrightError, match="has no queue"):
            scheduler_kind(spec.scheduler).open(spec, LocalHeadNode())
        return
    scheduler = scheduler_kind(spec.scheduler).open(spec, LocalHeadNode())
    for method, _ in inspect.getmembers(Scheduler, inspect.isfunction):
        assert callable(getattr(scheduler, method)), method


def test_the_json_schema_has_each_kind_once_and_one_without_a_type() -> None:
    schema = json_schema()
    sections = schema["properties"]["scheduler"]["oneOf"]
    models = [
        schema["$defs"][each["$ref"].rpartition("/")[2]] if "$ref" in each else each for each in sections
    ]
    assert [each["properties"]["type"]["const"] for each in models] == list(KINDS)
    # Were `type` left out, more than one would hold for a section that does not write it.
    optional = [each for each in models if "type" not in each.get("required", [])]
    assert [each["properties"]["type"]["const"] for each in optional] == [SchedulerSection.default]


@pytest.mark.parametrize("name", KINDS)
def test_a_field_of_another_kind_is_told_of(name: str) -> None:
    own = set(KINDS[name].spec_model.model_fields)
    others = {
        field: {other for other, kind in KINDS.items() if field in kind.spec_model.model_fields}
        for kind in KINDS.values()
        for field in kind.spec_model.model_fields
        if field not in own
    }
    for field, whose in others.items():
        text = f"scheduler: {{type: {name}, {field}: 1}}\nfilesystems:\n  disk: {{type: local, path: /x}}\n"
        with pytest.raises(GridwrightError) as caught:
            parse_spec(text)
        assert f"{field} belongs to scheduler {' or '.join(sorted(whose))}" in str(caught.value)


def modules_outside(name: str) -> list[str]:
    """Modules that do not belong to a kind."""
    inside = (f"schedulers/{name}/", "schedulers/builtin.py")
    return [module for module in MODULES if not module.startswith(inside)]


def names_compared(tree: ast.AST, name: str) -> Iterator[int]:
    """Lines with a comparison between something of a scheduler and the name of a kind."""
    for node in nodes(tree):
        if not isinstance(node, ast.Compare | ast.Match):
            continue
        text = ast.unparse(node if isinstance(node, ast.Compare) else node.subject)
        constants = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant)]
        if "scheduler" in text.lower() and name in constants:
            yield node.lineno


@pytest.mark.parametrize("name", BUILT_IN)
def test_no_name_of_a_kind_is_compared_outside_its_package(name: str) -> None:
    modules = modules_outside(name)
    assert len(modules) > 300
    found = [
        f"{module}:{line}"
        for module in modules
        if name in STRINGS[module]
        for line in names_compared(MODULES[module], name)
    ]
    assert found == []


@pytest.mark.parametrize("name", BUILT_IN)
def test_no_module_of_a_kind_is_imported_outside_its_package(name: str) -> None:
    found = [
        module
        for module in modules_outside(name)
        if imports(IMPORTS[module], f"gridwright.schedulers.{name}")
    ]
    assert found == []


def imports(names: set[str], package: str) -> bool:
    """Whether one of these dotted names is of a package."""
    return any(f"{each}.".startswith(f"{package}.") for each in names)


def test_an_import_would_be_found() -> None:
    for text in (
        "import gridwright.schedulers.slurm.kind",
        "from gridwright.schedulers.slurm import kind",
        "from gridwright.schedulers import slurm",
    ):
        assert imports(imported_in(ast.parse(text)), "gridwright.schedulers.slurm"), text


@pytest.mark.parametrize("name", KINDS)
def test_what_a_kind_brings_for_setting_it_up_fits_together(name: str, tmp_path: Path) -> None:
    spec = spec_of(name, tmp_path)
    kind = scheduler_kind(spec.scheduler)
    nodes = [NodeHardware(name="compute1", cores_per_socket=4, memory_bytes=1 << 33)]
    machines = GridMachines(controller="controller", nodes=nodes)
    setup = kind.setup(spec, lambda: machines)
    assert setup == kind.setup(spec, lambda: machines)
    assert set(setup.file_meanings) == set(setup.files)
    assert bool(setup.steps) == bool(setup.files) == bool(setup.introduction)
    without = kind.playbook_variables(None, sets_up=True)
    assert without.keys() == kind.playbook_variables(setup, sets_up=True).keys()
    for role in kind.playbook_roles():
        assert role.directory.joinpath("tasks", "main.yml").is_file(), role.name
        assert all(name in role.when for name in without), "a grid with another scheduler has no such role"
    services = kind.lab_services(spec, "controller", ["compute1", "compute2"])
    assert len({each.name for each in services}) == len(services)
    assert {node for each in services for node in each.nodes} <= {"controller", "compute1", "compute2"}
    rules = [(rule.target, rule.source, rule.ports.name) for rule in kind.network_rules(spec)]
    assert len(set(rules)) == len(rules)
    assert spec.scheduler.needs_head_node == bool(services)
    if kind.shared_key is not None:
        assert kind.shared_key.name.isalpha()
        assert kind.shared_key.length * 5.9 > 256, "bits of letters and digits"


def test_a_comparison_would_be_found() -> None:
    for text in (
        'spec.scheduler.type == "slurm"',
        '"slurm" != scheduler',
        'scheduler.type in ("slurm", "x")',
    ):
        assert list(names_compared(ast.parse(text), "slurm")) == [1], text
    assert list(names_compared(ast.parse('match scheduler.type:\n case "slurm": pass'), "slurm")) == [1]
    assert list(names_compared(ast.parse('filesystem.type == "local"'), "local")) == []


def test_grids_of_one_name_in_two_directories_have_a_queue_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "grid.yaml").write_text(
            "name: demo\nfilesystems:\n  disk: {type: local, path: ./disk}\n"
        )
    (tmp_path / "by-another-path").symlink_to("a")
    first, second, again = (
        state_directory(load_spec(tmp_path / name / "grid.yaml")) for name in ("a", "b", "by-another-path")
    )
    assert first != second
    assert first == again
    assert first.parent == tmp_path / "state" / "gridwright"
    assert first.name.startswith("demo-")
