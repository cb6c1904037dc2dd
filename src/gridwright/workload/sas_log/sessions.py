"""The SAS sessions of one log: one after the other, and within each other by SAS/CONNECT.

A session begins with its initialization and ends with its closing note. The log of a session that signs
on to another holds that one's notes between notes of its own:

    NOTE: Remote signon to TASK1 commencing (SAS Release 9.04.01M6P110718).
    NOTE: Remote signon to TASK1 complete.
    NOTE: Remote submit to TASK1 commencing.
    NOTE: Remote submit to TASK1 complete.
    NOTE: Remote signoff from TASK1 commencing.
    NOTE: Remote signoff from TASK1 complete.
"""

from __future__ import annotations

import heapq
import re
from dataclasses import dataclass, field
from typing import TypeVar

from gridwright.workload.sas_log.notes import TimingNote
from gridwright.workload.sas_log.stamps import Dates
from gridwright.workload.sas_log.words import CLOSING, INITIALIZATION

MOST_STEPS = 1_000
"""Steps kept of one log: the longest ones."""

_REMOTE = re.compile(
    r"NOTE: (?:Background )?Remote (signon|submit|signoff) (?:to|from) (\S{1,64}) "
    r"(commencing|in progress|complete|cancel|terminat|fail)",
    re.IGNORECASE,
)
_OWN = re.compile(r"NOTE: Gridwright \S+, launch \d+ of test (.{1,80}) \(\w+\), stream \d+, node ")
"""Begins the log of a launch of the workload (`gridwright.workload.step_log`)."""
_ROUNDING_S = 0.05


@dataclass(slots=True)
class SasSession:
    """One SAS session: the sums of its own steps, and its closing note."""

    name: str | None = None
    """As SAS/CONNECT calls it; None for the session whose log it is."""
    sums: TimingNote = field(default_factory=lambda: TimingNote("", 0))
    closing: TimingNote | None = None

    @property
    def totals(self) -> TimingNote:
        """The closing note, or else the sums of its steps."""
        return self.closing or self.sums

    def add(self, note: TimingNote) -> None:
        """Count a step."""
        # The time of a view is part of the step that reads it.
        if note.name.startswith("VIEW "):
            return
        for name in ("real_s", "user_s", "system_s", "read_blocks", "written_blocks"):
            value = note.all_user_s if name == "user_s" else getattr(note, name)
            setattr(self.sums, name, _plus(getattr(self.sums, name), value))


class SasJob:
    """What is known of the job that a log ends with: a session, and those within it."""

    def __init__(self) -> None:
        self.notes = 0
        self.step_notes = 0
        self.any_memory_bytes: int | None = None
        self.failure: str | None = None
        self.own_name: str | None = None
        """The name of the test whose launch this is, if it is one of the workload."""
        self.dates = Dates()
        self.outermost = SasSession()
        self.within = 0
        """Sessions within it."""
        self._ended: list[SasSession] = []
        """Those of them that have ended."""
        self._open = [self.outermost]
        """The session whose log it is, and those within each other that no note names."""
        self._remote: dict[str, SasSession] = {}
        """Sessions of SAS/CONNECT that are signed on to, by name."""
        self._speakers: list[tuple[str, str]] = []
        """Those of them with which something is done, and what; notes are the last one's."""
        self._last_closed: SasSession | None = None
        """The session whose closing note was the last of all notes."""
        self.is_initialized = False
        self._longest: list[tuple[float, int, TimingNote, str | None]] = []

    @property
    def unclosed(self) -> int:
        """Of the sessions within it that have ended, those without a closing note."""
        return sum(each.closing is None for each in self._ended)

    @property
    def has_ended(self) -> bool:
        """Whether its own closing note has come."""
        return self.outermost.closing is not None

    @property
    def is_connecting(self) -> bool:
        """Whether a session of SAS/CONNECT is signed on to, submitted to or signed off from right now."""
        return bool(self._speakers)

    def hear(self, text: str) -> None:
        """Take a line that tells what is done with a session of SAS/CONNECT, or that the log is our own."""
        found = _REMOTE.match(text)
        if found is None:
            own = _OWN.match(text)
            self.own_name = own[1] if own else self.own_name
            return
        what, name, state = found[1].lower(), found[2].lower(), found[3].lower()
        if state == "commencing":
            if name not in self._remote:
                self._remote[name] = SasSession(found[2])
                self.within += 1
            self._speakers.append((name, what))
            return
        # What goes on in the background speaks when it is complete, or when its log is fetched.
        self._speakers = [each for each in self._speakers if each[0] != name]
        if what == "signoff" and state == "complete" and name in self._remote:
            self._ended.append(self._remote.pop(name))

    def add(self, note: TimingNote) -> None:
        """Count a finished note."""
        self.notes += 1
        if note.stamp is not None:
            self.dates.add(note.stamp)
        if note.memory_bytes is not None:
            self.any_memory_bytes = max(self.any_memory_bytes or 0, note.memory_bytes)
        if note.name == CLOSING:
            self._close(note)
            return
        if note.name == INITIALIZATION and not self._speakers:
            if self.is_initialized:
                self._open.append(SasSession())
                self.within += 1
            self.is_initialized = True
        self._last_closed = None
        session = self._speaking()
        session.add(note)
        self._keep(note, session)

    def _speaking(self) -> SasSession:
        """Whose notes come now: of the named session that is busy, else of the innermost one."""
        return self._remote[self._speakers[-1][0]] if self._speakers else self._open[-1]

    def _close(self, note: TimingNote) -> None:
        """Give a closing note to the session that speaks."""
        if not note.has_all_times:
            return
        session = self._speaking()
        session.closing = note
        if not self._speakers or self._speakers[-1][1] != "signoff":
            self._last_closed = session
        if not self._speakers and len(self._open) > 1:
            self._ended.append(self._open.pop())

    def _keep(self, note: TimingNote, session: SasSession) -> None:
        self.step_notes += 1
        kept = (note.real_s or note.all_user_s or 0.0, -note.line, note, session.name)
        if len(self._longest) < MOST_STEPS:
            heapq.heappush(self._longest, kept)
        else:
            heapq.heappushpop(self._longest, kept)

    def kept_steps(self) -> list[tuple[TimingNote, str | None]]:
        """The longest steps and the names of their sessions, in the order of the log."""
        ordered = sorted(self._longest, key=lambda kept: -kept[1])
        return [(note, name) for _, _, note, name in ordered]

    def totals(self) -> TimingNote:
        """Real time of the job, CPU time of all its sessions, and the most memory of any of its steps.

        A session waits for those within it, so theirs is part of its real time; their CPU time is that
        of processes of their own, which its closing note does not count. Where it has no closing note,
        its real time is the sum of its steps and of theirs.
        """
        self._finish()
        own, within = self.outermost.totals, _sum([each.totals for each in self._ended])
        has_memory = own.memory_bytes is not None and not self.within
        return TimingNote(
            own.name,
            own.line,
            real_s=own.real_s if self.has_ended else _plus(own.real_s, within.real_s),
            user_s=_plus(own.all_user_s, within.all_user_s),
            system_s=_plus(own.system_s, within.system_s),
            memory_bytes=own.memory_bytes if has_memory else self.any_memory_bytes,
            read_blocks=_plus(own.read_blocks, within.read_blocks),
            written_blocks=_plus(own.written_blocks, within.written_blocks),
        )

    def _finish(self) -> None:
        """End what is still open, and give the last closing note to the outermost session if it lacks one.

        A closing note is taken for that of the session that speaks. Where no note told that this one was
        signed off from, it is the outermost session's if that one, with all within it, took no longer.
        """
        self._ended += [*self._open[1:], *self._remote.values()]
        del self._open[1:]
        self._remote.clear()
        self._speakers.clear()
        last, outermost = self._last_closed, self.outermost
        if last is None or outermost.closing is not None or last.closing is None:
            return
        last_s, known_s = last.closing.real_s, (outermost.sums.real_s or 0.0)
        known_s += sum((each.sums if each is last else each.totals).real_s or 0.0 for each in self._ended)
        if last_s is not None and last_s + _ROUNDING_S >= known_s:
            outermost.closing, last.closing = last.closing, None


def _sum(notes: list[TimingNote]) -> TimingNote:
    total = SasSession()
    for note in notes:
        total.add(note)
    return total.sums


_Number = TypeVar("_Number", int, float)


def _plus(total: _Number | None, value: _Number | None) -> _Number | None:
    # SAS writes hundredths; adding them must not show more.
    if total is None or value is None:
        return value if total is None else total
    return round(total + value, 6)
