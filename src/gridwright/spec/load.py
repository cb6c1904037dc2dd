"""Reads a file into a GridSpec, or reports everything that is wrong with it, each problem at its place."""

from __future__ import annotations

import os
from pathlib import Path

from gridwright.errors import Problem, nearest
from gridwright.spec.model import GridSpec
from gridwright.yamltext.document import compose
from gridwright.yamltext.load import parse, position, read_file
from gridwright.yamltext.source import FileFormat, SourceText, sentence


def problem_at(spec: GridSpec, path: tuple[str, ...], what: str, remedy: str) -> Problem:
    """A problem with the field at `path`, with line and caret where the spec was read from text.

    A path that is not written out (a default) is put at the nearest section that is.
    """
    field = ".".join(path) or None
    if not spec.source_text:
        return Problem(what=what, field=field, remedy=sentence(remedy))
    source = SourceText(str(spec.file or "grid.yaml"), spec.source_text)
    return source.problem(position(compose(source, GRID_SPEC), path), what, remedy, field)


GRID_SPEC = FileFormat(
    name="grid spec",
    levels="four",
    beginning="Begin with name: and the other fields; see gridwright init",
    instead_of_nothing="Run gridwright init to write one",
)


def load_spec(path: str | os.PathLike[str]) -> GridSpec:
    """Read a grid spec from a file.

    Relative paths in it start at the directory of the file. Raises GridwrightError (status INPUT)
    that carries every problem, each with file, line and column.
    """
    file = Path(path)
    content = read_file(file, GRID_SPEC, _nearby)
    spec = parse_spec(content, str(file), base=file.parent.absolute())
    spec._file = file.absolute()
    return spec


def parse_spec(text: str | bytes, source_name: str = "grid.yaml", base: Path | None = None) -> GridSpec:
    """Read a grid spec from text, or from the bytes of a file in UTF-8.

    `source_name` stands in positions. Relative paths start at `base`, by default the working
    directory. Raises GridwrightError (status INPUT) that carries every problem.
    """
    spec, source_text = parse(GridSpec, GRID_SPEC, text, source_name, {"base": base or Path.cwd()})
    spec._source_text = source_text
    return spec


def _nearby(file: Path) -> str:
    """What to do instead of reading `file`: the nearest spec that exists, or making one."""
    directory = file if file.is_dir() else file.parent
    try:
        names = sorted(entry.name for entry in directory.iterdir() if entry.suffix in (".yaml", ".yml"))
    except OSError:
        return "The directory cannot be read either; check the path"
    if not names:
        return "Run gridwright init to write one"
    near = nearest(file.name, names) or (names[0] if len(names) == 1 else None)
    if near:
        return f"Did you mean {directory / near}?"
    return f"Grid specs there may be {', '.join(names[:5])}"
