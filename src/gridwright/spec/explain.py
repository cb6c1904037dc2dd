"""What pydantic found wrong, told to the user: position, value given, what is allowed, nearest name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from pydantic import ValidationError

from gridwright.errors import Problem, nearest
from gridwright.spec.crosscheck import ROLES
from gridwright.spec.crosscheck_cloud import KEY
from gridwright.spec.fields import SpecModel
from gridwright.spec.model import PROVIDERS
from gridwright.spec.structure import field_at, model_at
from gridwright.yamltext.document import Document, Entry
from gridwright.yamltext.source import SourceText, sentence, show

Path = tuple[str, ...]


def explain(error: ValidationError, source: SourceText, document: Document, data: Any) -> list[Problem]:  # noqa: ANN401
    """One problem for each error, without those that follow from a value already reported."""
    problems: list[Problem] = []
    details = error.errors(include_url=False)
    # An unknown name makes what is below it unknown too; one report is enough.
    bad_keys = {
        tuple(map(str, each["loc"][:-1])) for each in details if each["loc"] and each["loc"][-1] == KEY
    }
    for each in details:
        path = tuple(map(str, each["loc"]))
        at_key = bool(path) and path[-1] == KEY
        path = path[:-1] if at_key else path
        if not at_key and any(path[: len(key)] == key for key in bad_keys):
            continue
        entries = list(document.entries(path))
        if _follows(each["type"], at_key, path, entries, document) or _of_planned_provider(path, data):
            continue
        what, remedy = _message(dict(each), path, data)
        index = _index(document, entries, path, at_key or each["type"] in ("extra_forbidden", "missing"))
        problems.append(source.problem(index, what, remedy, ".".join(path) or None))
    return problems


def _follows(kind: str, at_key: bool, path: Path, entries: list[Entry], document: Document) -> bool:
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


def _of_planned_provider(path: Path, data: Any) -> bool:  # noqa: ANN401
    """Nodes of a provider that is yet to come have fields that nobody knows yet."""
    return path[:1] == ("nodes",) and data.get("provider", "local") in PROVIDERS.planned()


def empty_values(source: SourceText, document: Document, data: Any) -> Iterator[Problem]:  # noqa: ANN401
    """A problem for each known field that is written without a value."""
    for path, entry in _walk(document):
        if entry.node.value is not None or entry.node.doubtful:
            continue
        owner = model_at(path[:-1], data)
        info = field_at(path, data)
        if info is None and owner is not None:
            continue  # an unknown field, reported as such
        means = f"{info.description} " if info and info.description else ""
        if info is None and model_at(path, data) is not None:
            instead = f"write {path[-1]}: {{}} for the defaults"
        else:
            instead = "write a value" if info and info.is_required() else "write a value, or remove the line"
        what = f"{path[-1]} has no value"
        yield source.problem(entry.key_index, what, f"{means}{sentence(instead)}", ".".join(path))


def _walk(document: Document) -> Iterator[tuple[Path, Entry]]:
    stack: list[tuple[Path, Any]] = [((), document.root)]
    while stack:
        path, node = stack.pop()
        if node is not None and isinstance(node.value, dict):
            for key, entry in node.value.items():
                yield (*path, key), entry
                stack.append(((*path, key), entry.node))


def _index(document: Document, entries: list[Entry], path: Path, at_key: bool) -> int:
    """Where to point: the key or the value at the path, or the nearest section above that exists."""
    if not entries:
        return document.root.index if document.root else 0
    exists = len(entries) == len(path)
    return entries[-1].key_index if at_key or not exists else entries[-1].node.index


def _message(error: dict[str, Any], path: Path, data: Any) -> tuple[str, str | None]:  # noqa: ANN401
    """What is wrong and the remedy, by pydantic's type of error."""
    cause = error.get("ctx", {}).get("error")
    if cause is not None and hasattr(cause, "remedy"):
        given = error["input"]
        # Most texts name the value; those about a part of it are told which value it is a part of.
        named = given is None or str(given) in cause.text or show(given) in cause.text
        return cause.text if named else f"{show(given)}: {cause.text}", cause.remedy
    writer = _WRITERS.get(error["type"])
    if writer is not None:
        return writer(error, path, data)
    what = f"{show(error['input'])} is not allowed for {path[-1] if path else 'the spec'}: {error['msg']}"
    return what, _description(path, data)


def _description(path: Path, data: Any) -> str | None:  # noqa: ANN401
    info = field_at(path, data)
    return info.description if info else None


def _missing(_: dict[str, Any], path: Path, data: Any) -> tuple[str, str | None]:  # noqa: ANN401
    return f"{path[-1]} is missing", _description(path, data)


def _unknown(_: dict[str, Any], path: Path, data: Any) -> tuple[str, str | None]:  # noqa: ANN401
    owner: type[SpecModel] | None = model_at(path[:-1], data)
    fields = list(owner.model_fields) if owner else []
    near = nearest(path[-1], fields)
    place = path[-2] if len(path) > 1 else "a grid spec"
    hint = f"Did you mean {near}? " if near else ""
    known = f"Fields are {', '.join(fields)}" if len(fields) > 1 else f"Its one field is {fields[0]}"
    return f"there is no field {show(path[-1])} in {place}", f"{hint}{known}"


def _not_a_choice(error: dict[str, Any], path: Path, data: Any) -> tuple[str, str | None]:  # noqa: ANN401
    if path[:1] != ("libraries",):
        choices = error["ctx"]["expected"].replace("'", "")
        near = nearest(str(error["input"]), re.split(r", | or ", choices))
        hint = f"Did you mean {near}? " if near else ""
        return f"{show(error['input'])} is no {path[-1]}", f"{hint}Write {choices}"
    near = nearest(path[-1], ROLES)
    hint = f"Did you mean {near}? " if near else ""
    return f"there is no library {show(path[-1])}", f"{hint}Libraries are {', '.join(ROLES)}"


def _wrong_type(wanted: str) -> Callable[[dict[str, Any], Path, Any], tuple[str, str | None]]:
    def write(error: dict[str, Any], path: Path, data: Any) -> tuple[str, str | None]:  # noqa: ANN401
        given = show(error["input"])
        return f"{path[-1]} must be {wanted}, and {given} is given", _description(path, data)

    return write


def _wrong_section(error: dict[str, Any], path: Path, data: Any) -> tuple[str, str | None]:  # noqa: ANN401
    owner = model_at(path, data)
    fields = ", ".join(owner.model_fields) if owner else ""
    what = f"{path[-1]} must be a mapping of fields, and {show(error['input'])} is given"
    return what, f"Write {path[-1]}: {{field: value}}, with fields out of {fields}"


def _bound(relation: str, key: str) -> Callable[[dict[str, Any], Path, Any], tuple[str, str | None]]:
    def write(error: dict[str, Any], path: Path, data: Any) -> tuple[str, str | None]:  # noqa: ANN401
        what = f"{path[-1]} must be {relation} {error['ctx'][key]}, and {show(error['input'])} is given"
        return what, _description(path, data)

    return write


def _too_short(_: dict[str, Any], path: Path, data: Any) -> tuple[str, str | None]:  # noqa: ANN401
    return f"{path[-1]} is empty, and at least one entry is needed", _description(path, data)


_WRITERS: dict[str, Callable[[dict[str, Any], Path, Any], tuple[str, str | None]]] = {
    "missing": _missing,
    "extra_forbidden": _unknown,
    "literal_error": _not_a_choice,
    "string_type": _wrong_type("text"),
    "int_type": _wrong_type("a whole number"),
    "int_from_float": _wrong_type("a whole number"),
    "float_type": _wrong_type("a number"),
    "bool_type": _wrong_type("true or false"),
    "list_type": _wrong_type("a list"),
    "model_type": _wrong_section,
    "mapping_type": _wrong_type("a mapping of names to values"),
    "dict_type": _wrong_type("a mapping of names to values"),
    "greater_than_equal": _bound("at least", "ge"),
    "greater_than": _bound("above", "gt"),
    "less_than_equal": _bound("at most", "le"),
    "too_short": _too_short,
}
