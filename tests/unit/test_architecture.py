"""The import rule of docs/architecture.md, and the sizes that keep the house readable."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "gridwright"

MAY_IMPORT: dict[str, frozenset[str]] = {
    "units": frozenset(),
    "errors": frozenset(),
    "machine": frozenset(),
    "messages": frozenset(),
    "commands": frozenset({"errors"}),
    "yamltext": frozenset(),
    "spec": frozenset({"yamltext"}),
    "catalog": frozenset({"yamltext"}),
    "services": frozenset(),
    "filesystems": frozenset({"yamltext", "spec", "catalog", "services"}),
    "model": frozenset({"spec", "catalog", "filesystems", "runs", "_native"}),
    "plan": frozenset({"spec", "catalog", "filesystems", "model"}),
    "node_programs": frozenset(),
    "setup": frozenset({"spec", "services", "filesystems", "schedulers", "node_programs"}),
    "doctor": frozenset({"spec", "catalog", "filesystems", "setup", "grid"}),
    "schedulers": frozenset({"yamltext", "spec", "services"}),
    "grid": frozenset({"yamltext", "spec", "schedulers", "providers"}),
    "runs": frozenset({"spec"}),
    "iotest": frozenset({"spec", "filesystems", "grid", "runs", "_native"}),
    "workload": frozenset({"yamltext", "spec", "filesystems", "grid", "schedulers", "runs"}),
    "prove": frozenset({"spec", "doctor", "iotest", "workload", "runs", "report"}),
    "report": frozenset({"filesystems", "runs", "model", "plan"}),
    "providers": frozenset(
        {
            *("yamltext", "spec", "catalog", "filesystems", "model", "setup", "node_programs"),
            *("schedulers", "services", "report"),
        }
    ),
}
"""Every room also imports units, errors, machine, commands and messages; cli imports all."""
FOR_ALL = frozenset({"units", "errors", "machine", "commands", "messages", "__init__"})

LONGEST_FUNCTION = 60
LONGEST_FILE = 400
FORBIDDEN_NAMES = frozenset({"utils", "util", "helpers", "helper", "common", "manager", "misc"})


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


@functools.cache
def tree(module: Path) -> ast.Module:
    return ast.parse(module.read_text())


def room(module: Path) -> str:
    return module.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(module: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of every import of the package, wherever in the module it stands."""
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno}: a relative import hides its room"
            for alias in node.names:
                # `from gridwright import x` names a room, a module or a name of the package.
                yield node.lineno, f"{node.module}.{alias.name}"


@functools.cache
def room_edges() -> list[tuple[str, str, str]]:
    """Place, room, and the other room it imports."""
    return list(_room_edges())


def _room_edges() -> Iterator[tuple[str, str, str]]:
    for module in modules():
        for line, name in imported(module):
            parts = name.split(".")
            if parts[0] != "gridwright":
                continue
            named = parts[1] if len(parts) > 1 else "__init__"
            is_room = (SOURCE / named).is_dir() or (SOURCE / f"{named}.py").is_file() or named == "_native"
            other = named if is_room else "__init__"
            if other != room(module):
                yield f"{module.relative_to(SOURCE)}:{line}", room(module), other


def test_there_is_something_to_check() -> None:
    assert len(modules()) > 30
    assert len(room_edges()) > 60


def test_every_room_is_in_the_table() -> None:
    found = {room(module) for module in modules()} - {"cli", "__init__"}
    assert found <= set(MAY_IMPORT), f"rooms that the table does not know: {found - set(MAY_IMPORT)}"


def test_the_table_allows_nothing_that_nobody_needs() -> None:
    used = {(here, other) for _, here, other in room_edges()}
    allowed = {(here, other) for here, others in MAY_IMPORT.items() for other in others}
    assert allowed - used == set()


def test_rooms_import_only_what_the_table_allows() -> None:
    wrong = [
        f"{place}: {here} must not import {other}"
        for place, here, other in room_edges()
        if here != "cli" and other not in MAY_IMPORT[here] | FOR_ALL
    ]
    assert wrong == []


def test_what_every_room_imports_imports_no_room() -> None:
    assert [edge for edge in room_edges() if edge[1] in {"units", "errors", "machine"}] == []


def test_the_table_has_no_cycle() -> None:
    left = dict(MAY_IMPORT)
    while left:
        free = [name for name, imports in left.items() if not imports & left.keys()]
        assert free, f"these import each other: {sorted(left)}"
        for name in free:
            del left[name]


def test_one_module_imports_the_native_part() -> None:
    importers = {place.split(":")[0] for place, _, other in room_edges() if other == "_native"}
    assert importers == {"iotest/engine.py", "model/simulate.py", "model/solver.py"}


def long_functions() -> Iterator[str]:
    for module in modules():
        for node in ast.walk(tree(module)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > LONGEST_FUNCTION:
                    yield f"{module.relative_to(SOURCE)}:{node.lineno}: {node.name} has {lines} lines"


def test_no_function_is_long() -> None:
    assert list(long_functions()) == []


def test_no_file_is_long() -> None:
    lengths = {str(m.relative_to(SOURCE)): len(m.read_text().splitlines()) for m in modules()}
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_FILE} == {}


def test_no_file_is_a_drawer_for_everything() -> None:
    assert [m for m in modules() if m.stem in FORBIDDEN_NAMES or m.parent.name in FORBIDDEN_NAMES] == []


def test_every_module_says_what_it_is_for() -> None:
    assert [module for module in modules() if not ast.get_docstring(tree(module))] == []


def module_names() -> dict[str, Path]:
    """Every module by its dotted name; a package by its `__init__`."""
    parts = {module: module.relative_to(SOURCE.parent).with_suffix("").parts for module in modules()}
    return {".".join(each[:-1] if each[-1] == "__init__" else each): path for path, each in parts.items()}


def import_graph() -> dict[str, set[str]]:
    """What each module imports when it runs, at its beginning or later; types alone make no circle."""
    names = module_names()
    graph: dict[str, set[str]] = {}
    for name, path in names.items():
        tree = ast.parse(path.read_text())
        for branch in [each for each in ast.walk(tree) if isinstance(each, ast.If)]:
            if isinstance(branch.test, ast.Name) and branch.test.id == "TYPE_CHECKING":
                branch.body = []
        found: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    full = f"{node.module}.{alias.name}"
                    found.add(full if full in names else node.module)
        graph[name] = (found & names.keys()) - {name}
    return graph


def test_no_files_import_each_other() -> None:
    left = import_graph()
    while left:
        free = [name for name, imports in left.items() if not imports & left.keys()]
        assert free, f"a circle is among these: {in_a_circle(left)}"
        for name in free:
            del left[name]


def in_a_circle(graph: dict[str, set[str]]) -> list[str]:
    """One circle of a graph in which every module imports another one of it."""
    path = [sorted(graph)[0]]
    while (following := sorted(graph[path[-1]] & graph.keys())[0]) not in path:
        path.append(following)
    return path[path.index(following) :]


SHIPPED = ("node_programs/scratch/", "providers/aws/claim/", "providers/aws/boot/")
"""Programs of their own that nodes run without Gridwright: each has its own names."""


def test_a_name_of_a_class_stands_for_one_thing() -> None:
    places: dict[tuple[str, str], list[str]] = {}
    for module in modules():
        where = module.relative_to(SOURCE).as_posix()
        program = next((each for each in SHIPPED if where.startswith(each)), "")
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault((program, node.name), []).append(where)
    assert len(places) > 400
    assert {name: found for (_, name), found in places.items() if len(found) > 1} == {}
