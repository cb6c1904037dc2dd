"""How an operation of a library stands against its requirement, and which phase speaks for it."""

from __future__ import annotations

from typing import Literal

from gridwright.runs.phase_record import PhaseRecord
from gridwright.runs.records import LibraryRecord
from gridwright.runs.repeats import reaches
from gridwright.runs.verdict import JUDGED, counting

Mark = Literal[
    "met", "missed", "failed", "cached", "disturbed", "partial", "untold", "unmeasured", "unjudged"
]
MARKS: dict[Mark, str] = {
    "met": "met",
    "missed": "missed",
    "failed": "failed",
    "cached": "cached, does not count",
    "disturbed": "disturbed",
    "partial": "nodes missing",
    "untold": "repeats cannot tell",
    "unmeasured": "not measured",
    "unjudged": "not judged",
}


def mark_of(phase: PhaseRecord | None, required: float | None, judged: bool) -> Mark:
    """How one phase stands. Only a finished, uncached write or read is held against a requirement.

    One of several repeats is not: see `mark_of_repeats`. Where a node failed, it can be missed, but not met.
    """
    if phase is not None and phase.status == "failed":
        return "failed"
    if phase is None or phase.per_core_bytes_per_s is None:
        return "unmeasured"
    if phase.cached or phase.doubtful:
        return "cached" if phase.cached else "disturbed"
    single = phase.repeat is None and phase.op in JUDGED and phase.status == "complete"
    if required is None or not judged or not single:
        return "unjudged"
    if phase.per_core_bytes_per_s < required:
        return "missed"
    # Those that were left had the file system for themselves: what they reached proves nothing.
    return "partial" if phase.failed_nodes else "met"


def mark_of_repeats(library: LibraryRecord, op: str, judged: bool) -> Mark:
    """How the median of the repeats of an operation stands; where none counts, how the last stands."""
    phases = [phase for phase in library.phases if phase.op == op]
    required = library.requires_bytes_per_s_per_core
    counted = counting(phases)
    if not counted or any(phase.status == "failed" for phase in phases):
        return mark_of(phase_of(library, op), required, judged)
    if required is None or not judged or op not in JUDGED:
        return "unjudged"
    met = reaches([phase.per_core_bytes_per_s or 0.0 for phase in counted], required)
    if met and any(phase.failed_nodes for phase in counted):
        return "partial"
    return "untold" if met is None else "met" if met else "missed"


def phase_of(library: LibraryRecord, op: str) -> PhaseRecord | None:
    """The phase that speaks for an operation: a failed one, else the best that counts, or the median repeat.

    This is how `gridwright.runs.verdict` judges. Without such a phase it is the last with a figure,
    which says why none counts, or the last.
    """
    phases = [phase for phase in library.phases if phase.op == op]
    failed = [phase for phase in phases if phase.status == "failed"]
    measured = [phase for phase in phases if phase.per_core_bytes_per_s is not None]
    counted = counting(phases)
    whole = [phase for phase in counted if not phase.failed_nodes]
    if counted and not failed:
        if counted[0].repeat is not None:
            ordered = sorted(counted, key=lambda phase: phase.per_core_bytes_per_s or 0.0)
            return ordered[(len(ordered) - 1) // 2]
        return max(whole or counted, key=lambda phase: phase.per_core_bytes_per_s or 0.0)
    for choice in (failed, measured, phases):
        if choice:
            return choice[-1]
    return None
