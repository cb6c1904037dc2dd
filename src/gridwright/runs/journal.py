"""The journal of a run: one JSON document a line, appended as it happens; events become that, and come back.

A run that is killed leaves its journal; what it held is what was measured. A last line that was cut off is
left out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from gridwright.atomic import naming
from gridwright.errors import Finding, Problem
from gridwright.handed_files import open_file, parsed_json
from gridwright.messages import Extensible, Messages, typed

if TYPE_CHECKING:
    from gridwright.runs.records import FindingRecord


Event = dict[str, Any]
_LONGEST_LINE = 64 << 20
"""Bytes of an event: as much as a message of a node may have (`iotest.wire`)."""

T = TypeVar("T")


class Journal:
    """Appends events to a file; each is one write, so readers see whole lines."""

    def __init__(self, path: Path | str, *, directory: int | None = None) -> None:
        """`path` may be one name in the open `directory`. Raises OSError."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        self._path = path
        self._fd = os.open(path, flags, 0o644, dir_fd=directory)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def append(self, event: Event, *, durable: bool = False) -> None:
        """Append an event; `durable` also waits until it is on disk. Raises OSError."""
        line = memoryview(json.dumps(event, separators=(",", ":")).encode() + b"\n")
        with naming(self._path):
            while line:
                line = line[os.write(self._fd, line) :]
            if durable:
                os.fsync(self._fd)

    def close(self) -> None:
        """Close the file; appending is over."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def read_journal(path: Path) -> Iterator[Event]:
    """Yield the events of a journal up to the first line that is not whole. Raises OSError."""
    with open_file(path, follows=False) as lines:
        while line := lines.readline(_LONGEST_LINE):
            if not line.endswith(b"\n"):
                return
            try:
                event = parsed_json(line)
            except ValueError:
                return
            if not isinstance(event, dict):
                return
            yield event


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


class Events(Messages[T]):
    """The kinds of event of one protocol, told apart by the key `event`.

    A journal may be of another release: events of kinds that are not known read as None.
    """

    def __init__(self, kinds: Mapping[str, type[T]]) -> None:
        super().__init__("event", kinds)

    def read(self, event: Event) -> T | None:
        """The event that plain data are; None where its kind is not known. Raises MessageError."""
        name = event.get("event")
        kind = self._kinds.get(name) if isinstance(name, str) else None
        if kind is None:
            return None
        if issubclass(kind, Extensible):
            return self.typed(event)
        # What another release adds to a finding is not kept.
        keys = {field.name for field in fields(kind)}  # type: ignore[arg-type]
        return typed({key: value for key, value in event.items() if key in keys}, kind)


def is_silenced(event: object, silenced: Collection[str]) -> bool:
    """Whether an event is a finding that the user asked not to see; errors are always shown."""
    return isinstance(event, Finding) and event.level != "error" and event.name in silenced


def recorded_finding(told: Finding | Problem, *, failure: str) -> FindingRecord:
    """The finding that is recorded; a problem is an error of the name `failure`."""
    # Processes that only tell events do without pydantic.
    from gridwright.runs.records import FindingRecord

    if isinstance(told, Finding):
        return FindingRecord(level=told.level, name=told.name, text=told.text, remedy=told.remedy)
    where = f"{told.where}: " if told.where else ""
    return FindingRecord(
        level="error",
        name=failure,
        text=f"{where}{told.what}",
        remedy=told.remedy or "see the message",
    )
