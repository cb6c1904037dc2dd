"""Messages between processes: declared as dataclasses, sent as JSON, checked where they come in.

Only the standard library is used: nodes have no more, and may have another Python.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Generic, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")
_Reader = Callable[[Any], Any]


class MessageError(ValueError):
    """What came is not what was agreed; names the field, such as `target.cores`."""

    def __init__(self, what: str, field: str = "") -> None:
        super().__init__(f"{field}: {what}" if field else what)
        self.what = what
        self.field = field

    def below(self, name: str) -> MessageError:
        """The same, told from one level up."""
        return MessageError(self.what, f"{name}.{self.field}" if self.field else name)


def encode(message: object) -> bytes:
    """A message as one line of JSON, without the end of the line."""
    return json.dumps(message, separators=(",", ":"), default=_plain).encode()


def plain(message: object) -> Any:  # noqa: ANN401 - plain data
    """A message as plain data: objects, lists, texts and numbers."""
    if is_dataclass(message):
        return {name: plain(value) for name, value in _plain(message).items()}
    if isinstance(message, Mapping):
        return {name: plain(value) for name, value in message.items()}
    if isinstance(message, list | tuple):
        return [plain(value) for value in message]
    return str(message) if isinstance(message, Path) else message


def decode(text: bytes | str, kind: type[T]) -> T:
    """The message of this kind that a text has. Raises MessageError."""
    return typed(_loaded(text), kind)


def typed(data: object, kind: type[T]) -> T:
    """The message of this kind that plain data are. Raises MessageError."""
    return cast("T", _reader(cast("Hashable", kind))(data))


class Messages(Generic[T]):
    """The kinds of message that go one way, told apart by the value of one key."""

    def __init__(self, key: str, kinds: Mapping[str, type[T]]) -> None:
        self._key = key
        self._kinds = dict(kinds)
        self._names = {kind: name for name, kind in self._kinds.items()}

    def encode(self, message: T) -> bytes:
        """A message as one line of JSON, without the end of the line."""
        return encode({self._key: self._names[type(message)]} | _plain(message))

    def plain(self, message: T) -> dict[str, Any]:
        """A message as plain data."""
        return {self._key: self._names[type(message)], **plain(message)}

    def decode(self, text: bytes | str) -> T:
        """The message that a text has. Raises MessageError."""
        return self.typed(_loaded(text))

    def typed(self, data: object) -> T:
        """The message that plain data are. Raises MessageError."""
        if not isinstance(data, dict):
            raise MessageError("it is no object")
        name = data.get(self._key)
        kind = self._kinds.get(name) if isinstance(name, str) else None
        if kind is None:
            raise MessageError(f"{name!r} is not known; there are {', '.join(self._kinds)}", self._key)
        return typed({key: value for key, value in data.items() if key != self._key}, kind)


def _loaded(text: bytes | str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MessageError("it is no JSON") from error


def _plain(value: object) -> dict[str, Any]:
    if is_dataclass(value):
        return {name: getattr(value, name) for name in _names(cast("Hashable", type(value)))}
    if isinstance(value, Path):
        return cast("dict[str, Any]", str(value))
    raise TypeError(f"{type(value).__name__} is no part of a message")


@cache
def _names(kind: Any) -> tuple[str, ...]:  # noqa: ANN401 - a dataclass
    return tuple(field.name for field in fields(kind))


@cache
def _reader(kind: Any) -> _Reader:  # noqa: ANN401 - a type, or a form of typing
    """What reads plain data as this type."""
    form = _FORMS.get(get_origin(kind))
    if form is not None:
        return form(get_args(kind))
    if kind in (Any, object):
        return lambda value: value
    if is_dataclass(kind):
        return _record(cast("type", kind))
    if issubclass(kind, Enum):
        return _enum(kind)
    if issubclass(kind, tuple):
        return _row(tuple(get_type_hints(kind).values()), kind._make)
    return _scalar(kind)


def _record(kind: type) -> _Reader:
    hints = get_type_hints(kind)
    readers = {field.name: _reader(hints[field.name]) for field in fields(kind) if field.init}
    needed = {
        field.name
        for field in fields(kind)
        if field.init and field.default is MISSING and field.default_factory is MISSING
    }

    def read(value: Any) -> Any:  # noqa: ANN401
        if not isinstance(value, dict):
            raise MessageError("it is no object")
        if not needed <= value.keys():
            raise MessageError("it is missing", min(needed - value.keys()))
        found = {}
        for name, each in value.items():
            reader = readers.get(name)
            if reader is None:
                raise MessageError("it is not known", str(name))
            try:
                found[name] = reader(each)
            except MessageError as error:
                raise error.below(name) from None
        return kind(**found)

    return read


def _one_of(kinds: tuple[Any, ...]) -> _Reader:
    others = [_reader(kind) for kind in kinds if kind is not NoneType]
    absent = NoneType in kinds

    def read(value: Any) -> Any:  # noqa: ANN401
        if value is None and absent:
            return None
        for reader in others[:-1]:
            try:
                return reader(value)
            except MessageError:
                continue
        return others[-1](value)

    return read


def _literal(allowed: tuple[Any, ...]) -> _Reader:
    def read(value: Any) -> Any:  # noqa: ANN401
        if value not in allowed:
            raise MessageError(f"{value!r} is none of {', '.join(map(repr, allowed))}")
        return value

    return read


def _list(arguments: tuple[Any, ...]) -> _Reader:
    item = _reader(arguments[0])

    def read(value: Any) -> Any:  # noqa: ANN401
        if not isinstance(value, list):
            raise MessageError("it is no list")
        return [item(each) for each in value]

    return read


def _mapping(arguments: tuple[Any, ...]) -> _Reader:
    item = _reader(arguments[1])

    def read(value: Any) -> Any:  # noqa: ANN401
        if not isinstance(value, dict):
            raise MessageError("it is no object")
        found = {}
        for name, each in value.items():
            try:
                found[name] = item(each)
            except MessageError as error:
                raise error.below(str(name)) from None
        return found

    return read


def _tuple(arguments: tuple[Any, ...]) -> _Reader:
    if arguments[1:] == (...,):
        items = _list(arguments)
        return lambda value: tuple(items(value))
    return _row(arguments, tuple)


def _row(kinds: tuple[Any, ...], make: Callable[[list[Any]], Any]) -> _Reader:
    """A list of as many values, each of its own kind."""
    readers = [_reader(each) for each in kinds]

    def read(value: Any) -> Any:  # noqa: ANN401
        if not isinstance(value, list) or len(value) != len(readers):
            raise MessageError(f"it is no list of {len(readers)}")
        return make([reader(each) for reader, each in zip(readers, value, strict=True)])

    return read


def _enum(kind: type[Enum]) -> _Reader:
    def read(value: Any) -> Any:  # noqa: ANN401
        try:
            return kind(value)
        except ValueError:
            raise MessageError(
                f"{value!r} is none of {', '.join(repr(each.value) for each in kind)}"
            ) from None

    return read


_WORDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false", NoneType: "null"}


def _scalar(kind: type) -> _Reader:
    if kind is Path:
        text = _scalar(str)
        return lambda value: Path(text(value))
    word = _WORDS[kind]
    accepted = (int, float) if kind is float else kind

    def read(value: Any) -> Any:  # noqa: ANN401
        # A bool is an int in Python, and not in a message.
        if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
            raise MessageError(f"{value!r} is not {word}")
        return value

    return read


_FORMS: dict[Any, Callable[[tuple[Any, ...]], _Reader]] = {
    Union: _one_of,
    UnionType: _one_of,
    Literal: _literal,
    list: _list,
    Sequence: _list,
    tuple: _tuple,
    dict: _mapping,
    Mapping: _mapping,
}
