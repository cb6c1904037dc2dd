"""Reads a file that somebody wrote into its model, or reports everything that is wrong with the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from gridwright.errors import GridwrightError, Problem, input_error
from gridwright.handed_files import read_named
from gridwright.yamltext.document import Document, compose
from gridwright.yamltext.explain import empty_values, explain
from gridwright.yamltext.format import FileFormat
from gridwright.yamltext.source import SourceText, show
from gridwright.yamltext.structure import Section

MAX_PROBLEMS = 50
"""Problems that are listed; the rest are counted."""

M = TypeVar("M", bound=Section)


def read_file(file: Path, of: FileFormat, instead: Callable[[Path], str]) -> bytes:
    """The content of a file, up to one byte more than its format allows.

    `instead` says what to do where there is no such file. Raises GridwrightError (INPUT) for a file that
    cannot be read.
    """
    try:
        if file.is_dir():
            what = f"a directory, and a {of.name} is a file"
            raise input_error(what, where=str(file), remedy=instead(file))
        # One byte more than allowed, instead of asking for the size: a pipe has none.
        return read_named(file, of.max_bytes)
    except FileNotFoundError:
        raise input_error("no such file", where=str(file), remedy=instead(file)) from None
    except PermissionError:
        raise input_error(
            "no permission to read it", where=str(file), remedy=f"Run chmod u+r {file}"
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise input_error(f"cannot be read: {reason}", where=show(str(file)).strip('"')) from None


def parse(
    model: type[M],
    of: FileFormat,
    text: str | bytes,
    source_name: str,
    context: Mapping[str, Any] | None = None,
) -> tuple[M, str]:
    """The model of a text, and the text itself.

    `text` may be the bytes of a file in UTF-8; `source_name` stands in positions; `context` is what
    validators of the model ask for. Raises GridwrightError (INPUT) that carries every problem.
    """
    source = SourceText(source_name, _decoded(text, source_name, of))
    document = compose(source, of)
    data = _fields(document, source, of)
    problems = list(document.problems)
    made: M | None = None
    try:
        made = model.model_validate(data, context=dict(context or {}))
    except ValidationError as error:
        problems += explain(error, model, of, source, document, data)
    problems += empty_values(model, source, document, data)
    if problems or made is None:
        raise _failure(problems)
    return made, source.text


def _fields(document: Document, source: SourceText, of: FileFormat) -> dict[str, Any]:
    """The plain data of the document. Raises GridwrightError where it has no fields."""
    if document.root is None and document.problems:
        raise _failure(document.problems)
    if document.root is None or document.root.value is None:
        if of.instead_of_nothing is None:
            return {}
        raise input_error(f"the {of.name} is empty", where=source.name, remedy=of.instead_of_nothing)
    data = document.root.plain()
    if isinstance(data, dict):
        return data
    what = f"a {of.name} is a mapping of fields, and {show(data)} is given"
    raise _failure([*document.problems, source.problem(document.root.index, what, of.beginning)])


def _decoded(text: str | bytes, source_name: str, of: FileFormat) -> str:
    """The text, without a byte order mark. Raises GridwrightError for what is no text of a sane size."""
    if len(text) > of.max_bytes:
        what = f"larger than {of.max_bytes // 1024} KiB, and a {of.name} has a few kB"
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
