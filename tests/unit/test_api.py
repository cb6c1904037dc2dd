"""`gridwright.api`: the one module that packages beside Gridwright import."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import gridwright.api
from gridwright.filesystems.kind import FileSystemKind

SOURCE = Path(gridwright.api.__file__)
PLUGIN = Path(__file__).parents[1] / "plugin/gridwright_toy"
NAMES = sorted(set(dir(gridwright.api)) - {"VERSION"})


def imports_of(file: Path) -> list[tuple[str, str]]:
    nodes = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ImportFrom)]
    return [(node.module or "", alias.name) for node in nodes for alias in node.names]


@pytest.mark.parametrize("name", NAMES)
def test_each_name_is_there(name: str) -> None:
    assert getattr(gridwright.api, name) is not None


def test_type_checkers_see_the_same_names() -> None:
    typed = {name for module, name in imports_of(SOURCE) if module.startswith("gridwright.")}
    assert typed == set(NAMES)


def test_another_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute nothing"):
        _ = gridwright.api.nothing


@pytest.mark.parametrize("file", sorted(PLUGIN.glob("*.py")), ids=lambda each: each.name)
def test_the_plugin_of_the_documents_imports_nothing_else(file: Path) -> None:
    own = {module for module, _ in imports_of(file) if module.partition(".")[0] == "gridwright"}
    assert own <= {"gridwright.api"}


def test_the_core_of_a_kind_of_file_system_stays_small() -> None:
    """What a stranger has to read before a first kind; all else is a capability."""
    methods = [name for name, each in vars(FileSystemKind).items() if callable(each) and name[0] != "_"]
    assert 5 < len(methods) <= 12
