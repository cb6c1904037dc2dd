"""Names, strings and imports of every module of Gridwright, read from its syntax tree."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import gridwright

SOURCE = Path(gridwright.__file__).parent
T = TypeVar("T")


class ByModule(Mapping[str, T]):
    """What is read of each module when it is first asked for: collecting the tests reads no module."""

    def __init__(self, read: Callable[[str], T]) -> None:
        self._read = functools.cache(read)

    def __getitem__(self, name: str) -> T:
        return self._read(name)

    def __iter__(self) -> Iterator[str]:
        return iter(_paths())

    def __len__(self) -> int:
        return len(_paths())


@functools.cache
def _paths() -> tuple[str, ...]:
    return tuple(path.relative_to(SOURCE).as_posix() for path in sorted(SOURCE.rglob("*.py")))


@functools.cache
def nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    """Every node of a tree, walked once for all who ask."""
    return tuple(ast.walk(tree))


def strings(node: ast.expr) -> list[str]:
    """The string, or those of a tuple, list or set that is written out."""
    each = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]
    return [one.value for one in each if isinstance(one, ast.Constant) and isinstance(one.value, str)]


def named_in(tree: ast.Module) -> set[str]:
    """Every name and every string of a module: classes are also named in quotes."""
    found: set[str] = set()
    for node in nodes(tree):
        match node:
            case (
                ast.Name(id=str(name))
                | ast.Attribute(attr=str(name))
                | ast.alias(name=str(name))
                | ast.ClassDef(name=str(name))
                | ast.Constant(value=str(name))
            ):
                found.add(name)
    return found


def strings_in(tree: ast.Module) -> set[str]:
    """Strings of a module but docstrings, which tell and decide nothing."""
    told = {id(each.value) for each in nodes(tree) if isinstance(each, ast.Expr)}
    return {
        each.value
        for each in nodes(tree)
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and id(each) not in told
    }


def imported_in(tree: ast.Module) -> set[str]:
    """Dotted names that a module imports, or names to be imported later, as `module:attribute`."""
    found = {each.partition(":")[0] for each in strings_in(tree) if each.startswith("gridwright.")}
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{each.name}" for each in node.names}
    return found


MODULES = ByModule(lambda name: ast.parse((SOURCE / name).read_text("utf-8")))
NAMES = ByModule(lambda name: named_in(MODULES[name]))
STRINGS = ByModule(lambda name: strings_in(MODULES[name]))
IMPORTS = ByModule(lambda name: imported_in(MODULES[name]))
