"""Texts that records can hold: names of files are bytes, and JSON and Parquet have UTF-8 only."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

T = TypeVar("T")


def readable(value: T) -> T:
    r"""The same value; in its texts, bytes of a name that are no UTF-8 are spelled out, such as `\xe9`."""
    return cast("T", _readable(value))


def is_readable(*texts: str) -> bool:
    """Whether records can hold the texts as they are."""
    return all(text.isascii() or _spelled(text) == text for text in texts)


def _readable(value: Any) -> Any:  # noqa: ANN401 - any message
    if isinstance(value, str):
        return value if value.isascii() else _spelled(value)
    if isinstance(value, dict):
        return {_readable(key): _readable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_readable, value))
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{each.name: _readable(getattr(value, each.name)) for each in fields(value)})
    return value


def _spelled(text: str) -> str:
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        data = text.encode("utf-8", "backslashreplace")
    return data.decode("utf-8", "backslashreplace")
