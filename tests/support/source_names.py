"""Names, strings and imports of every module of Gridwright, read from its syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import gridwright

SOURCE = Path(gridwright.__file__).parent


def strings(node: ast.expr) -> list[str]:
    """The string, or those of a tuple, list or set that is written out."""
    each = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]
    return [one.value for one in each if isinstance(one, ast.Constant) and isinstance(one.value, str)]


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield path.relative_to(SOURCE).as_posix(), ast.parse(path.read_text("utf-8"))


MODULES = dict(modules())


def named_in(tree: ast.Module) -> set[str]:
    """Every name and every string of a module: classes are also named in quotes."""
    found: set[str] = set()
    for node in ast.walk(tree):
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
    told = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
    return {
        each.value
        for each in ast.walk(tree)
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and id(each) not in told
    }


def imported_in(tree: ast.Module) -> set[str]:
    """Dotted names that a module imports, or names to be imported later, as `module:attribute`."""
    found = {each.partition(":")[0] for each in strings_in(tree) if each.startswith("gridwright.")}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{each.name}" for each in node.names}
    return found


NAMES = {name: named_in(tree) for name, tree in MODULES.items()}
STRINGS = {name: strings_in(tree) for name, tree in MODULES.items()}
IMPORTS = {name: imported_in(tree) for name, tree in MODULES.items()}
