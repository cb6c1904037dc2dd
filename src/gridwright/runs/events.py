"""Writes events as plain data and reads them back; findings and problems are among them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, TypeVar

from gridwright.errors import Finding, Problem
from gridwright.messages import Extensible, Messages, typed
from gridwright.runs.journal import Event

if TYPE_CHECKING:
    from gridwright.runs.records import FindingRecord

T = TypeVar("T")


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
