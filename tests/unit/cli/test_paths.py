"""Paths of flags and arguments: every verb refuses an empty one, and none is looked at as it is read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command

from gridwright.cli.arguments import read_path
from gridwright.cli.main import app


def parameters(command: Any, name: str = "gridwright") -> Iterator[tuple[str, Any]]:
    for verb, each in getattr(command, "commands", {}).items():
        yield from parameters(each, f"{name} {verb}")
    for parameter in command.params:
        if "Path" in str(parameter.type_descriptor.annotation):
            yield f"{name} {parameter.name}", parameter


PATHS = dict(parameters(get_command(app)))


def test_there_are_paths() -> None:
    assert len(PATHS) > 30
    assert {"gridwright iotest directory", "gridwright submit directory", "gridwright init file"} <= set(
        PATHS
    )


@pytest.mark.parametrize("name", PATHS)
def test_no_verb_takes_an_empty_path_for_the_working_directory(name: str) -> None:
    parameter = PATHS[name]
    several = parameter.multiple or parameter.nargs != 1
    with pytest.raises(typer.BadParameter, match="the path is empty"):
        parameter.process_value(None, ("",) if several else "")


def test_a_path_is_kept_as_it_was_typed() -> None:
    assert read_path("a/../b") == Path("a/../b")
    assert read_path("/dir/\udce9t\udce9") == Path("/dir/\udce9t\udce9")
