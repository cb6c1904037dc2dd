"""What happened, as marks on the line of time: runs and proofs, with their verdicts."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from gridwright.errors import GridwrightError
from gridwright.report.run_summary import KINDS, is_summed_up, summarize
from gridwright.runs.directory import LoadedRun, list_runs
from gridwright.runs.place import of_whom

AGAIN_S = 20.0
"""How often the directory of runs is looked at: each look reads the records of all runs."""
MOST_MARKS = 500
MarkState = Literal["good", "bad", "doubt", "other"]
_STATES: dict[str, MarkState] = {"met": "good", "missed": "bad", "failed": "bad", "unproven": "doubt"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeMark:
    """Something that began and ended (None: it goes on), in seconds since 1970."""

    kind: Literal["run", "finding"]
    name: str
    text: str
    state: MarkState
    start_s: float
    end_s: float | None


class RunMarks:
    """Runs of a directory, looked up again now and then. Threads may use it at the same time."""

    def __init__(self, runs: Path) -> None:
        self._runs = runs
        self._lock = threading.Lock()
        self._marks: list[TimeMark] = []
        self._looked: float | None = None

    def within(self, start_s: float, end_s: float) -> list[TimeMark]:
        """Marks that touch a range, the newest MOST_MARKS of them; none where there are no runs."""
        with self._lock:
            if self._looked is None or time.monotonic() - self._looked > AGAIN_S:
                self._marks, self._looked = _marks_of(self._runs), time.monotonic()
            marks = [
                mark
                for mark in self._marks
                if mark.start_s <= end_s and (mark.end_s is None or mark.end_s >= start_s)
            ]
        return marks[-MOST_MARKS:]


def _marks_of(runs: Path) -> list[TimeMark]:
    try:
        found = list_runs(runs)
    except (GridwrightError, OSError):
        return []
    # A range shows the last ones: what others lay out there in any number takes no place of one's own.
    found.sort(key=lambda each: each.owner == os.geteuid())
    return [mark for run in found if is_summed_up(run) and (mark := mark_of(run)) is not None]


def mark_of(run: LoadedRun) -> TimeMark | None:
    """The mark of a run; None where its record has no time that can be read."""
    start = _seconds(run.run.started)
    if start is None:
        return None
    summary = summarize(run)
    words = [KINDS[summary.kind], *([summary.grade] if summary.grade else []), summary.figure_text]
    return TimeMark(
        kind="run",
        name=run.path.name,
        text=f"{' and '.join(run.run.what) or 'run'} {run.run.name}{of_whom(run.owner)}: {', '.join(words)}",
        state=_STATES.get(summary.kind, "other"),
        start_s=start,
        end_s=_seconds(run.run.finished)
        if run.run.finished
        else (None if summary.kind == "running" else start),
    )


def _seconds(text: str) -> float | None:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def plain_marks(marks: Sequence[TimeMark]) -> list[dict[str, object]]:
    """Marks in plain values."""
    return [
        {
            "kind": mark.kind,
            "name": mark.name,
            "text": mark.text,
            "state": mark.state,
            "from": mark.start_s,
            "to": mark.end_s,
        }
        for mark in marks
    ]
