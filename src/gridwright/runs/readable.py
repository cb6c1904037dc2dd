"""Texts that records can hold: names of files are bytes, and JSON and Parquet have UTF-8 only."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

T = TypeVar("T")


def readable(value: T) -> T:
    r"""The same value; in its texts, bytes of a name that are no UTF-8 are spelled out, such as `\xe9`."""
    return cast("T", _readable(value))


def _readable(value: Any) -> Any:  # noqa: ANN401 - any message
    if isinstance(value, str):
        return value if value.isascii() else _spelled(value)
    if isinstance(value, dict):
        return {_readable(key): _readable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        items = map(_readable, value)
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if is_dataclass(value) and not isinstance(value, type):
        old = {field.name: getattr(value, field.name) for field in fields(value)}
        new = {name: _readable(each) for name, each in old.items()}
        changed = {name: each for name, each in new.items() if each != old[name]}
        return replace(value, **changed) if changed else value
    if hasattr(value, "model_copy"):
        # A model of pydantic, which nodes do not have.
        old = {name: getattr(value, name) for name in type(value).model_fields}
        return value.model_copy(update={name: _readable(each) for name, each in old.items()})
    return value


def _spelled(text: str) -> str:
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        data = text.encode("utf-8", "backslashreplace")
    return data.decode("utf-8", "backslashreplace")
