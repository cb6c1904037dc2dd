"""Turns findings and problems into events of a journal, and events back into findings of a record."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from typing import TYPE_CHECKING

from gridwright.errors import Finding, Problem
from gridwright.runs.journal import Event

if TYPE_CHECKING:
    from gridwright.runs.records import FindingRecord


def finding_event(finding: Finding) -> Event:
    """A finding as an event."""
    return {"event": "finding"} | asdict(finding)


def problem_event(problem: Problem) -> Event:
    """A problem as an event."""
    return {"event": "problem"} | asdict(problem)


def is_silenced(event: Event, silenced: Collection[str]) -> bool:
    """Whether an event is a finding that the user asked not to see; errors are always shown."""
    return event["event"] == "finding" and event["level"] != "error" and event["name"] in silenced


def recorded_finding(event: Event, *, failure: str) -> FindingRecord:
    """The finding that an event stands for; a problem is an error of the name `failure`."""
    # Processes that only tell events do without pydantic.
    from gridwright.runs.records import FindingRecord

    if event["event"] == "finding":
        return FindingRecord(**{key: event[key] for key in ("level", "name", "text", "remedy")})
    where = f"{event['where']}: " if event.get("where") else ""
    return FindingRecord(
        level="error",
        name=failure,
        text=f"{where}{event['what']}",
        remedy=event.get("remedy") or "see the message",
    )
