"""From a file to a GridSpec, or to everything that is wrong with the file."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import ValidationError

from gridwright.errors import GridwrightError, Problem, input_error, nearest
from gridwright.spec.explain import empty_values, explain
from gridwright.spec.model import GridSpec
from gridwright.yamltext.document import compose
from gridwright.yamltext.source import SourceText, show

MAX_BYTES = 256 * 1024
"""Largest grid spec that is read. A spec has a few kB, and the YAML parser reads about 250 kB in a second."""

MAX_PROBLEMS = 50
"""Problems that are listed; the rest are counted."""


def load_spec(path: str | os.PathLike[str]) -> GridSpec:
    """Read a grid spec from a file.

    Relative paths in it start at the directory of the file. Raises GridwrightError (status INPUT)
    that carries every problem, each with file, line and column.
    """
    file = Path(path)
    try:
        if file.is_dir():
            raise input_error("a directory, and a grid spec is a file", where=str(file), remedy=_nearby(file))
        # Read one byte more than allowed instead of asking for the size: a pipe has none.
        with file.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise input_error("no such file", where=str(file), remedy=_nearby(file)) from None
    except PermissionError:
        raise input_error(
            "no permission to read it", where=str(file), remedy=f"Run chmod u+r {file}"
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise input_error(f"cannot be read: {reason}", where=show(str(file)).strip('"')) from None
    spec = parse_spec(content, str(file), base=file.parent.absolute())
    spec._file = file.absolute()
    return spec


def parse_spec(text: str | bytes, source_name: str = "grid.yaml", base: Path | None = None) -> GridSpec:
    """Read a grid spec from text, or from the bytes of a file in UTF-8.

    `source_name` stands in positions. Relative paths start at `base`, by default the working
    directory. Raises GridwrightError (status INPUT) that carries every problem.
    """
    source = SourceText(source_name, _decoded(text, source_name))
    document = compose(source)
    if document.root is None and document.problems:
        raise _failure(document.problems)
    if document.root is None or document.root.value is None:
        raise input_error(
            "the grid spec is empty", where=source_name, remedy="Run gridwright init to write one"
        )
    data = document.root.plain()
    if not isinstance(data, dict):
        what = f"a grid spec is a mapping of fields, and {show(data)} is given"
        problem = source.problem(
            document.root.index, what, "Begin with name: and the other fields; see gridwright init"
        )
        raise _failure([*document.problems, problem])
    problems = list(document.problems)
    try:
        spec = GridSpec.model_validate(data, context={"base": base or Path.cwd()})
    except ValidationError as error:
        problems += explain(error, source, document, data)
    problems += empty_values(source, document, data)
    if problems:
        raise _failure(problems)
    spec._source_text = source.text
    return spec


def _decoded(text: str | bytes, source_name: str) -> str:
    """The text, without a byte order mark. Raises GridwrightError for what is no text of a sane size."""
    size = len(text)
    if size > MAX_BYTES:
        what = f"larger than {MAX_BYTES // 1024} KiB, and a grid spec has a few kB"
        raise input_error(what, where=source_name, remedy="Is this the right file?")
    if isinstance(text, bytes):
        text = _from_utf8(text, source_name)
    return text.removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")


def _from_utf8(content: bytes, source_name: str) -> str:
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise input_error("the text is in UTF-16", where=source_name, remedy="Save it as UTF-8")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        before = SourceText(source_name, content[: error.start].decode("utf-8") + "?")
        line, column = before.position(len(before.text) - 1)
        raise input_error(
            f"byte 0x{content[error.start]:02x} is not UTF-8 text",
            where=f"{source_name}:{line}:{column}",
            remedy="Is this the right file? Save it as UTF-8",
        ) from None


def _failure(problems: list[Problem]) -> GridwrightError:
    """All problems once, in the order of the file, and a count of those beyond the limit."""
    ordered = sorted(dict.fromkeys(problems), key=_place)
    rest = len(ordered) - MAX_PROBLEMS
    if rest > 0:
        more = Problem(what=f"and {rest} more problems", remedy="Mend these first")
        ordered = [*ordered[:MAX_PROBLEMS], more]
    return GridwrightError(*ordered)


def _place(problem: Problem) -> tuple[int, int]:
    _, line, column = (problem.where or "::").rsplit(":", 2)
    return (int(line), int(column)) if line.isdigit() and column.isdigit() else (0, 0)


def _nearby(file: Path) -> str:
    """What to do instead of reading `file`: the nearest spec that exists, or making one."""
    directory = file if file.is_dir() else file.parent
    try:
        names = sorted(each.name for each in directory.iterdir() if each.suffix in (".yaml", ".yml"))
    except OSError:
        return "The directory cannot be read either; check the path"
    if not names:
        return "Run gridwright init to write one"
    near = nearest(file.name, names) or (names[0] if len(names) == 1 else None)
    if near:
        return f"Did you mean {directory / near}?"
    return f"Grid specs there may be {', '.join(names[:5])}"
