"""Reads a file that somebody wrote into its model, or explains all that is wrong with it.

Of each value that pydantic refuses: its position, what was given, what is allowed, the nearest name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from gridwright.errors import GridwrightError, Problem, input_error, nearest
from gridwright.handed_files import read_named
from gridwright.refusals import refusal
from gridwright.secret_text import is_elsewhere, names_secret
from gridwright.yamltext.document import Document, Entry, compose
from gridwright.yamltext.source import FileFormat, SourceText, sentence, show
from gridwright.yamltext.structure import KEY, FieldPath, Section, field_at, model_at

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
    except PermissionError as error:
        why = refusal(file, error, "name another file")
        raise input_error(
            f"no permission to read it: {why.reason}", where=str(file), remedy=why.remedy
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
    problems += _empty_values(model, source, document, data)
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


@dataclass(frozen=True, slots=True)
class _Wrong:
    """One error of pydantic, where it stands in the file: `data` is the whole file, `root` its model."""

    error: dict[str, Any]
    path: FieldPath
    at_key: bool
    root: type[Section]
    of: FileFormat
    data: Any

    @property
    def given(self) -> str:
        """The value given, unless it is a secret."""
        return "a text" if self.is_secret else show(self.error["input"])

    @property
    def is_secret(self) -> bool:
        """Whether the field is called as a secret is, and has a text that does not say where it is."""
        given, names = self.error["input"], [part for part in self.path if isinstance(part, str)]
        called = bool(names) and not self.at_key and names_secret(names[-1])
        return called and isinstance(given, str) and not is_elsewhere(given)

    @property
    def name(self) -> str:
        """What messages call the value."""
        return _called(self.path) if self.path else f"a {self.of.name}"

    @property
    def description(self) -> str | None:
        """What the field says about itself, or for what users name, the nearest field above."""
        for end in range(len(self.path), 0, -1):
            if info := field_at(self.root, self.path[:end], self.data):
                return info.description
        return None


Message = tuple[str, str | None]
"""What is wrong, and what to do."""


def explain(
    error: ValidationError,
    root: type[Section],
    of: FileFormat,
    source: SourceText,
    document: Document,
    data: Any,  # noqa: ANN401
) -> list[Problem]:
    """One problem for each error, without those that follow from a value already reported."""
    problems: list[Problem] = []
    details = error.errors(include_url=False)
    # An unknown name makes what is below it unknown too; one report is enough.
    bad_keys = {each["loc"][:-1] for each in details if each["loc"] and each["loc"][-1] == KEY}
    for detail in details:
        path: FieldPath = detail["loc"]
        at_key = bool(path) and path[-1] == KEY
        path = path[:-1] if at_key else path
        if not at_key and any(path[: len(key)] == key for key in bad_keys):
            continue
        entries = list(document.entries(path))
        if _follows(detail["type"], at_key, path, entries, document):
            continue
        what, remedy = _message(_Wrong(dict(detail), path, at_key, root, of, data))
        index = _index(document, entries, path, at_key or detail["type"] in ("extra_forbidden", "missing"))
        problems.append(source.problem(index, what, remedy, _dotted(path)))
    return problems


def _empty_values(
    root: type[Section],
    source: SourceText,
    document: Document,
    data: Any,  # noqa: ANN401
) -> Iterator[Problem]:
    """A problem for each known field that is written without a value."""
    for path, entry in _walk(document):
        if entry.node.value is not None or entry.node.doubtful:
            continue
        info = field_at(root, path, data)
        if info is None and model_at(root, path[:-1], data) is not None:
            continue  # an unknown field, reported as such
        means = f"{info.description} " if info and info.description else ""
        if info is None and model_at(root, path, data) is not None:
            instead = f"write {path[-1]}: {{}} for the defaults"
        else:
            instead = "write a value" if info and info.is_required() else "write a value, or remove the line"
        what = f"{path[-1]} has no value"
        yield source.problem(entry.key_index, what, f"{means}{sentence(instead)}", _dotted(path))


def position(document: Document, path: FieldPath) -> int:
    """Where the value at a path begins, or the nearest section above it that is written out."""
    return _index(document, list(document.entries(path)), path, at_key=False)


def _follows(kind: str, at_key: bool, path: FieldPath, entries: list[Entry], document: Document) -> bool:
    """Whether the error only follows from a problem that is reported elsewhere."""
    if any(entry.node.doubtful for entry in entries):
        return True
    exists = len(entries) == len(path)
    if kind in ("missing", "too_short"):
        section = entries[-1].node if entries else document.root
        return section is not None and section.incomplete
    if kind == "value_error" and not at_key and exists and entries and entries[-1].node.incomplete:
        return True
    is_empty = exists and bool(path) and entries[-1].node.value is None
    return is_empty and not at_key and kind != "extra_forbidden"


def _walk(document: Document) -> Iterator[tuple[tuple[str, ...], Entry]]:
    stack: list[tuple[tuple[str, ...], Any]] = [((), document.root)]
    while stack:
        path, node = stack.pop()
        if node is not None and isinstance(node.value, dict):
            for key, entry in node.value.items():
                yield (*path, key), entry
                stack.append(((*path, key), entry.node))


def _index(document: Document, entries: list[Entry], path: FieldPath, at_key: bool) -> int:
    """Where to point: the key or the value at the path, or the nearest section above that exists."""
    if not entries:
        return document.root.index if document.root else 0
    exists = len(entries) == len(path)
    return entries[-1].key_index if at_key or not exists else entries[-1].node.index


def _dotted(path: FieldPath) -> str | None:
    return ".".join(map(str, path)) or None


def _called(path: FieldPath) -> str:
    """The last field of a path; an entry of a list is called by the field that holds the list."""
    names = [part for part in path if isinstance(part, str)]
    last = names[-1] if names else "the file"
    return last if path[-1] == last else f"an entry of {last}"


def _message(wrong: _Wrong) -> Message:
    """What is wrong and the remedy, by pydantic's type of error."""
    error = wrong.error
    cause = error.get("ctx", {}).get("error")
    if cause is not None and hasattr(cause, "remedy"):
        given = error["input"]
        # Most texts name the value; those about a part of it are told which value it is a part of.
        named = given is None or wrong.is_secret or isinstance(given, dict | list) or str(given) in cause.text
        named = named or wrong.given in cause.text
        return cause.text if named else f"{wrong.given}: {cause.text}", cause.remedy
    writer = _WRITERS.get(error["type"])
    if writer is not None:
        return writer(wrong)
    return f"{wrong.given} is not allowed for {wrong.name}: {error['msg']}", wrong.description


def _missing(wrong: _Wrong) -> Message:
    return f"{wrong.path[-1]} is missing", wrong.description


def _unknown(wrong: _Wrong) -> Message:
    owner = model_at(wrong.root, wrong.path[:-1], wrong.data)
    fields = list(owner.model_fields) if owner else []
    name = str(wrong.path[-1])
    if owner and (known_elsewhere := owner.unknown_field(name)):
        return known_elsewhere
    near = nearest(name, fields)
    place = _called(wrong.path[:-1]) if len(wrong.path) > 1 else f"a {wrong.of.name}"
    hint = f"Did you mean {near}? " if near else ""
    known = f"Fields are {', '.join(fields)}" if len(fields) > 1 else f"Its one field is {fields[0]}"
    return f"there is no field {show(name)} in {place}", f"{hint}{known}"


def _not_a_choice(wrong: _Wrong) -> Message:
    expected = wrong.error["ctx"]["expected"].replace("'", "")
    choices = re.split(r", | or ", expected)
    near = nearest(str(wrong.error["input"]), choices)
    hint = f"Did you mean {near}? " if near else ""
    if not wrong.at_key:
        return f"{wrong.given} is no {wrong.path[-1]}", f"{hint}Write {expected}"
    model = model_at(wrong.root, wrong.path, wrong.data)
    word = model.__name__.lower() if model else "name"
    known = f"{sentence(_called(wrong.path[:-1]))} are {', '.join(choices)}"
    return f"there is no {word} {show(str(wrong.path[-1]))}", f"{hint}{known}"


def _wrong_type(wanted: str) -> Callable[[_Wrong], Message]:
    def write(wrong: _Wrong) -> Message:
        return f"{wrong.name} must be {wanted}, and {wrong.given} is given", wrong.description

    return write


def _no_text(wrong: _Wrong) -> Message:
    what, remedy = _wrong_type("text")(wrong)
    number = isinstance(wrong.error["input"], bool | int | float)
    return what, remedy or ("Put it in quotes" if number else None)


def _no_name(wrong: _Wrong) -> Message:
    return f"{wrong.given} is no {wrong.path[-1]} that can be used", wrong.description


def _wrong_section(wrong: _Wrong) -> Message:
    owner = model_at(wrong.root, wrong.path, wrong.data)
    fields = ", ".join(owner.model_fields) if owner else ""
    what = f"{wrong.name} must be a mapping of fields, and {wrong.given} is given"
    return what, f"Write {wrong.path[-1]}: {{field: value}}, with fields out of {fields}"


def _bound(relation: str, key: str) -> Callable[[_Wrong], Message]:
    def write(wrong: _Wrong) -> Message:
        limit = wrong.error["ctx"][key]
        return f"{wrong.name} must be {relation} {limit:.12g}, and {wrong.given} is given", wrong.description

    return write


def _too_short(wrong: _Wrong) -> Message:
    return f"{wrong.name} is empty, and at least one entry is needed", wrong.description


_WRITERS: dict[str, Callable[[_Wrong], Message]] = {
    "missing": _missing,
    "extra_forbidden": _unknown,
    "literal_error": _not_a_choice,
    "string_type": _no_text,
    "string_pattern_mismatch": _no_name,
    "int_type": _wrong_type("a whole number"),
    "int_from_float": _wrong_type("a whole number"),
    "float_type": _wrong_type("a number"),
    "finite_number": _wrong_type("a finite number"),
    "bool_type": _wrong_type("true or false"),
    "list_type": _wrong_type("a list"),
    "tuple_type": _wrong_type("a list"),
    "model_type": _wrong_section,
    "mapping_type": _wrong_type("a mapping of names to values"),
    "dict_type": _wrong_type("a mapping of names to values"),
    "greater_than_equal": _bound("at least", "ge"),
    "greater_than": _bound("above", "gt"),
    "less_than_equal": _bound("at most", "le"),
    "less_than": _bound("below", "lt"),
    "too_short": _too_short,
}
