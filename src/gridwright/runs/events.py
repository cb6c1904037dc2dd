"""Writes events as plain data and reads them back; findings and problems are among them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from gridwright.errors import Finding, Problem
from gridwright.messages import typed
from gridwright.runs.journal import Event

if TYPE_CHECKING:
    from gridwright.runs.records import FindingRecord

T = TypeVar("T")


class Events(Generic[T]):
    """The kinds of event of one protocol, told apart by the key `event`.

    A journal may be of another release: kinds that are not known read as None, and keys that are not known
    go to the field `more` where a kind has one, from which they are written again.
    """

    def __init__(self, kinds: Mapping[str, type[T]], *, absent: Collection[str] = ()) -> None:
        """Declare the kinds; the keys `absent` are left out where they have no value."""
        self._kinds = dict(kinds)
        self._names = {kind: name for name, kind in self._kinds.items()}
        self._keys = {kind: tuple(each.name for each in fields(kind)) for kind in self._names}  # type: ignore[arg-type]
        self._absent = frozenset(absent)

    def name(self, event: T) -> str:
        """The name of an event's kind."""
        return self._names[type(event)]

    def plain(self, event: T) -> Event:
        """An event as plain data."""
        return {"event": self.name(event)} | self.values(event)

    def values(self, event: T) -> dict[str, Any]:
        """What an event says, without its name."""
        found = {key: getattr(event, key) for key in self._keys[type(event)] if key != "more"}
        for key in self._absent & found.keys():
            if found[key] is None:
                del found[key]
        return found | getattr(event, "more", {})

    def read(self, event: Event) -> T | None:
        """The event that plain data are; None where its kind is not known. Raises MessageError."""
        name = event.get("event")
        kind = self._kinds.get(name) if isinstance(name, str) else None
        if kind is None:
            return None
        keys = self._keys[kind]
        found = {key: value for key, value in event.items() if key in keys}
        if "more" in keys:
            found["more"] = {key: value for key, value in event.items() if key not in keys and key != "event"}
        return typed(found, kind)


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
