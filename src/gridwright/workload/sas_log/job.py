"""Reads what a SAS log says of one job: its notes one by one, with bounded memory.

The totals are those of the closing note. A log that has none was cut, or comes from a session that
goes on: its totals are the sums of its steps.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gridwright.workload.sas_log.notes import (
    CLOSING,
    INITIALIZATION,
    DateOrder,
    Stamp,
    TimingNote,
    begin_note,
)

MOST_STEPS = 10_000
"""Steps kept of one log: the longest ones."""
_LONGEST_REASON = 300

_TIMING_WORDS = (b" used",)
_ALL_WORDS = (b" used", b"ERROR", b"stopped processing")
_FAILURE = re.compile(rb"ERROR(?: \d+-\d+)?:|NOTE: +(?:The )?SAS System stopped processing")


@dataclass(slots=True)
class SasJob:
    """What is known of the session that is being read."""

    notes: int = 0
    step_notes: int = 0
    steps: list[TimingNote] = field(default_factory=list)
    sums: TimingNote = field(default_factory=lambda: TimingNote("", 0))
    any_memory_bytes: int | None = None
    closing: TimingNote | None = None
    failure: str | None = None
    last_stamp: Stamp | None = None
    orders: frozenset[DateOrder] = frozenset({"mdy", "dmy", "ymd"})

    def add(self, note: TimingNote) -> None:
        """Count a finished note."""
        self.notes += 1
        if note.stamp is not None:
            self.last_stamp = note.stamp
            self.orders &= note.stamp.orders
        if note.memory_bytes is not None:
            self.any_memory_bytes = max(self.any_memory_bytes or 0, note.memory_bytes)
        if note.name == CLOSING:
            self.closing = note if note.has_all_times else None
            return
        self.step_notes += 1
        self.steps.append(note)
        if len(self.steps) >= 2 * MOST_STEPS:
            self.steps = self.kept_steps()
        # The time of a view is part of the step that reads it.
        if not note.name.startswith("VIEW "):
            self.sums.real_s = _plus(self.sums.real_s, note.real_s)
            self.sums.user_s = _plus(self.sums.user_s, note.all_user_s)
            self.sums.system_s = _plus(self.sums.system_s, note.system_s)

    def kept_steps(self) -> list[TimingNote]:
        """The longest steps, in the order of the log."""
        longest = sorted(self.steps, key=lambda note: note.real_s or 0.0, reverse=True)[:MOST_STEPS]
        return sorted(longest, key=lambda note: note.line)

    def totals(self) -> TimingNote:
        """The closing note, or else the sums; memory that it lacks is the most of any step."""
        totals = self.closing or self.sums
        if totals.memory_bytes is None:
            totals.memory_bytes = self.any_memory_bytes
        return totals

    def end_time(self) -> tuple[float | None, bool]:
        """Unix time of the last timestamp, and whether it is left out because its date is ambiguous."""
        stamp = self.last_stamp
        if stamp is None:
            return None, False
        orders = self.orders & stamp.orders
        if len(orders) > 1 and (stamp.twelve_hours or stamp.numbers[0] == stamp.numbers[1]):
            # SAS writes AM and PM where it writes the month first.
            orders = frozenset({"mdy"})
        if len(orders) != 1:
            return None, True
        (order,) = orders
        return stamp.unix_time(order), False


class LogReader:
    """Takes the lines that may matter, and keeps the job that the log ends with."""

    def __init__(self) -> None:
        self.job = SasJob()
        self.sessions = 1
        self.words: tuple[bytes, ...] = _ALL_WORDS
        self._note: TimingNote | None = None

    @property
    def wants_all(self) -> bool:
        """While a note is open, its figures follow."""
        return self._note is not None

    def take(self, text: bytes, line: int, *, whole: bool) -> None:
        """Take a line: a figure of the open note, the head of another, or a failure."""
        if self._note is not None:
            taken = self._note.take(text, whole=whole)
            if not taken or self._note.is_full:
                self.end()
            if taken:
                return
        if text.startswith(b"NOTE:"):
            self._note = begin_note(text, line)
        if self.job.failure is None and self._note is None and _FAILURE.match(text):
            self.job.failure = f"{_readable(text)} (line {line} of the log)"
            # Only the first is reported, so the others need not be sought.
            self.words = _TIMING_WORDS

    def end(self) -> None:
        """Close the open note, if there is one; without a real time it is none about time."""
        note, self._note = self._note, None
        if note is None or note.real_s is None:
            return
        if note.name == INITIALIZATION and self.job.closing is not None:
            self.job = SasJob()
            self.sessions += 1
            self.words = _ALL_WORDS
        self.job.add(note)


def _plus(total: float | None, value: float | None) -> float | None:
    # SAS writes hundredths; adding them must not show more.
    return total if value is None else round((total or 0.0) + value, 6)


def _readable(text: bytes) -> str:
    try:
        decoded = text.decode("utf-8")
    except UnicodeDecodeError:
        decoded = text.decode("cp1252", "replace")
    words = "".join(letter if letter.isprintable() else " " for letter in decoded).split()
    return " ".join(words)[:_LONGEST_REASON]
