"""Judges whether what was measured meets what is required."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from gridwright.runs.answers import all_met
from gridwright.runs.phase_record import PhaseRecord
from gridwright.runs.records import LibraryRecord
from gridwright.runs.repeats import RepeatedFigure, reaches, repeated

JUDGED: tuple[Literal["write", "read"], ...] = ("write", "read")
"""The phases whose figures are held against a requirement."""


def judge_library(library: LibraryRecord) -> bool | None:
    """Say whether a library meets its requirement.

    The best complete figure of each judged phase counts: by `per_core_bytes_per_s`, the last-done
    rate or, where it was looked for, the steady rate. One figure below the requirement, or wrong
    data, is a miss; a judged phase without a figure that counts (cached, interrupted) leaves it
    open. So does one from which a node is missing: the others had the file system for themselves, so that
    they prove a miss, and nothing else. What something else disturbed proves neither. Where the test was
    repeated, the median of the repeats that count is judged, and the answer is open where it reaches the
    requirement by no more than chance can do. Where two layouts were compared, the library's own is judged:
    jobs have that one. None where nothing is required or the answer is open.
    """
    compared = library.layouts.phases if library.layouts else ()
    if any(phase.status == "failed" for phase in (*library.phases, *compared)):
        return False
    required = library.requires_bytes_per_s_per_core
    if required is None:
        return None
    answers = [
        _answer([phase for phase in library.phases if phase.op == op], required)
        for op in JUDGED
        if any(phase.op == op for phase in library.phases)
    ]
    return all_met(answers)


def judge_run(libraries: Iterable[LibraryRecord]) -> bool | None:
    """Say whether all libraries that require something get it; None if nothing does, or it is open."""
    return all_met(
        library.met
        for library in libraries
        if library.requires_bytes_per_s_per_core is not None or library.met is False
    )


def _answer(phases: list[PhaseRecord], required: float) -> bool | None:
    if any(phase.repeat is not None for phase in phases):
        return _answer_of_repeats(counting(phases), required)
    counted = [(phase.per_core_bytes_per_s or 0.0, not phase.failed_nodes) for phase in counting(phases)]
    if not counted:
        return None
    if max(figure for figure, _ in counted) < required:
        return False
    return True if any(whole and figure >= required for figure, whole in counted) else None


def _answer_of_repeats(counted: list[PhaseRecord], required: float) -> bool | None:
    met = reaches([phase.per_core_bytes_per_s or 0.0 for phase in counted], required)
    return None if met and any(phase.failed_nodes for phase in counted) else met


def counting(phases: Iterable[PhaseRecord]) -> list[PhaseRecord]:
    """The phases whose figures count: whole, not cached, and not disturbed."""
    return [phase for phase in phases if counts(phase) and phase.per_core_bytes_per_s is not None]


def counts(phase: PhaseRecord) -> bool:
    """Whether figures of a phase count."""
    return phase.status == "complete" and not phase.cached and not phase.doubtful


def repeated_figures(phases: Iterable[PhaseRecord]) -> list[RepeatedFigure]:
    """Each operation over its repeats: the rate per core, or operations per second; none without repeats."""
    of: dict[str, list[PhaseRecord]] = {}
    for phase in phases:
        if phase.repeat is not None:
            of.setdefault(phase.op, []).append(phase)
    found = []
    for op, records in of.items():
        figure = "ops_per_s" if op == "metadata" else "per_core_bytes_per_s"
        values = [getattr(phase, figure) for phase in records if counts(phase)]
        known = [value for value in values if value is not None]
        found.append(repeated(figure, known, ran=len(records), of=op))
    return found
