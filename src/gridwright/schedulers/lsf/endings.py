"""How LSF's words for the end of a job are understood; termination reasons as IBM lists them for 10.1."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gridwright.schedulers.job import JobState

_WORD = re.compile(r"TERM_[A-Z_]+")


@dataclass(frozen=True, slots=True)
class Ending:
    """How a job ended."""

    state: JobState
    reason: str | None = None
    exit_status: int | None = None
    signal: int | None = None


def ending(stat: str, exit_code: str, reason: str) -> Ending:
    """How a job ended that LSF has as DONE or EXIT, with its exit code and its termination reason."""
    if stat == "DONE":
        return Ending(JobState.COMPLETED, exit_status=0)
    code = int(exit_code) if exit_code.isdigit() else None
    status = code if code is not None and code <= 128 else None
    signal = code - 128 if code is not None and code > 128 else None
    word = _WORD.search(reason)
    if word is None:
        return Ending(JobState.FAILED, None, status, signal)
    state, sentence = _terminations().get(word[0], (JobState.FAILED, f"LSF says {word[0]}"))
    if state is JobState.FAILED:
        return Ending(state, sentence or None, status, signal)
    return Ending(state, sentence or None)


@cache
def _terminations() -> dict[str, tuple[JobState, str]]:
    with (Path(__file__).parent / "data" / "terminations.csv").open(newline="", encoding="utf-8") as file:
        return {row["word"]: (JobState(row["state"]), row["sentence"]) for row in csv.DictReader(file)}
