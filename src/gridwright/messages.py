"""Messages between processes: declared as dataclasses, sent as JSON, checked where they come in.

Only the standard library is used: nodes have no more, and may have another Python.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
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


@dataclass(frozen=True, slots=True)
class Extensible:
    """A message that may be of another release; `more` is what it says beyond what is known here."""

    more: dict[str, Any] = field(default_factory=dict, kw_only=True)
    """Written again as it came, beside the fields that are known."""

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> Any:  # noqa: ANN401 - as pydantic has it
        """Lets a model of pydantic have such messages as its parts."""
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(
            lambda value: value if isinstance(value, cls) else typed(value, cls),
            serialization=core_schema.plain_serializer_function_ser_schema(plain),
        )


LEFT_OUT = {"left out": True}
"""Metadata of a field that is not written where it is None, or an empty list."""


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


def shared_fields(message: object, kind: type) -> dict[str, Any]:
    """The fields of a message that another kind has, too, by name: to make one of that kind."""
    names = {name for name, _, _ in _keys(cast("Hashable", kind))}
    return {
        name: getattr(message, name) for name, _, _ in _keys(cast("Hashable", type(message))) if name in names
    }


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
        found = {}
        for name, key, is_left_out in _keys(cast("Hashable", type(value))):
            each = getattr(value, name)
            if not is_left_out or (each is not None and each != []):
                found[key] = each
        return found | value.more if isinstance(value, Extensible) else found
    if isinstance(value, Path):
        return cast("dict[str, Any]", str(value))
    raise TypeError(f"{type(value).__name__} is no part of a message")


@cache
def _keys(kind: Any) -> tuple[tuple[str, str, bool], ...]:  # noqa: ANN401 - a dataclass
    """Of each field its name, its key, and whether it is left out where it says nothing.

    A field whose key is a word of Python's own, such as `class`, has a name that ends in an underscore.
    """
    return tuple(
        (each.name, each.name.rstrip("_"), bool(each.metadata.get("left out")))
        for each in fields(kind)
        if each.name != "more" or not issubclass(kind, Extensible)
    )


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
    is_extensible = issubclass(kind, Extensible)
    keys = {key: name for name, key, _ in _keys(cast("Hashable", kind))}
    readers = {key: (name, _reader(hints[name])) for key, name in keys.items()}
    needed = {
        each.name.rstrip("_")
        for each in fields(kind)
        if each.default is MISSING and each.default_factory is MISSING
    }

    def read(value: Any) -> Any:  # noqa: ANN401
        if not isinstance(value, dict):
            raise MessageError("it is no object")
        if not needed <= value.keys():
            raise MessageError("it is missing", min(needed - value.keys()))
        found: dict[str, Any] = {}
        for key, each in value.items():
            if key not in readers:
                if not is_extensible:
                    raise MessageError("it is not known", str(key))
                found.setdefault("more", {})[key] = each
                continue
            name, reader = readers[key]
            try:
                found[name] = reader(each)
            except MessageError as error:
                raise error.below(key) from None
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
    readers = [_reader(kind) for kind in kinds]

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
