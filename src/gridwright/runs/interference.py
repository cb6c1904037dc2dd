"""Says what was disturbed, and by whom, in the words of findings and verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from gridwright.runs.load_record import Interference

if TYPE_CHECKING:
    from gridwright.runs.launch_record import LaunchRecord
    from gridwright.runs.records import FindingRecord

_REMEDY = "end that, or run when the nodes are quiet; --allow-disturbed judges all the same"
_JUDGED = "the judgement stands as --allow-disturbed asks; it proves nothing about a quiet grid"
_MOST = 3


def worst(interferences: Iterable[Interference]) -> list[Interference]:
    """One of each disturber, that with the largest share; other runs first, then the largest."""
    largest: dict[tuple[str, str, str | None, str | None], Interference] = {}
    for interference in interferences:
        key = interference.kind, interference.name, interference.user, interference.node
        before = largest.get(key)
        if before is None or (interference.share or 0.0) > (before.share or 0.0):
            largest[key] = interference
    return sorted(largest.values(), key=lambda each: (each.kind != "run", -(each.share or 0.0)))


def in_words(interferences: Iterable[Interference], most: int = _MOST) -> str:
    """The worst disturbers, at most so many, each with its node where there are several."""
    each = worst(interferences)
    said = [f"on {one.node}, {one.text}" if one.node else one.text for one in each[:most]]
    if len(each) > most:
        said.append(f"{len(each) - most} more")
    return "; ".join(said)


def of_launches(launches: Sequence[LaunchRecord], most: int = _MOST) -> str:
    """How many launches were disturbed, and by whom, at most so many; empty if none was."""
    disturbed = [launch for launch in launches if launch.disturbances]
    if not disturbed:
        return ""
    was = "launch was" if len(launches) == 1 else f"launches {'was' if len(disturbed) == 1 else 'were'}"
    said = in_words((one for record in disturbed for one in record.disturbances), most)
    return f"{len(disturbed)} of {len(launches)} {was} disturbed: {said}"


def finding(text: str, *, allowed: bool) -> FindingRecord:
    """The finding of a disturbance; `allowed` is whether it was to be judged all the same."""
    # Nodes do without pydantic.
    from gridwright.runs.records import FindingRecord

    return FindingRecord(level="warning", name="disturbed", text=text, remedy=_JUDGED if allowed else _REMEDY)
