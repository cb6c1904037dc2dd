"""Judges whether what was measured meets what is required."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from gridwright.runs.records import LibraryRecord, PhaseRecord

JUDGED: tuple[Literal["write", "read"], ...] = ("write", "read")
"""The phases whose figures are held against a requirement."""


def judge_library(library: LibraryRecord) -> bool | None:
    """Say whether a library meets its requirement.

    The best complete figure of each judged phase counts: by `per_core_bytes_per_s`, the last-done
    rate or, where it was looked for, the steady rate. One figure below the requirement, or wrong
    data, is a miss; a judged phase without a figure that counts (cached, interrupted) leaves it
    open. So does one from which a node is missing: the others had the file system for themselves, so that
    they prove a miss, and nothing else. None where nothing is required or the answer is open.
    """
    if any(phase.status == "failed" for phase in library.phases):
        return False
    required = library.requires_bytes_per_s_per_core
    if required is None:
        return None
    answers = [
        _answer([phase for phase in library.phases if phase.op == op], required)
        for op in JUDGED
        if any(phase.op == op for phase in library.phases)
    ]
    return _all(answers) if answers else None


def judge_run(libraries: Iterable[LibraryRecord]) -> bool | None:
    """Say whether all libraries that require something get it; None if nothing does, or it is open."""
    return _all(
        library.met
        for library in libraries
        if library.requires_bytes_per_s_per_core is not None or library.met is False
    )


def _answer(phases: list[PhaseRecord], required: float) -> bool | None:
    counted = [
        (phase.per_core_bytes_per_s, not phase.failed_nodes)
        for phase in phases
        if phase.status == "complete" and not phase.cached and phase.per_core_bytes_per_s is not None
    ]
    if not counted:
        return None
    if max(figure for figure, _ in counted) < required:
        return False
    return True if any(whole and figure >= required for figure, whole in counted) else None


def _all(answers: Iterable[bool | None]) -> bool | None:
    known = list(answers)
    if False in known:
        return False
    return None if None in known or not known else True
