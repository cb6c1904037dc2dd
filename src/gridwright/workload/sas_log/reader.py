"""Reads what a SAS log says of one job: its notes one by one, with bounded memory.

The log of an object server can have a number before each of its lines. A source line has one, too, and
may quote a note: so numbered notes count only in a log that has no other.
"""

from __future__ import annotations

import datetime
import re

from gridwright.workload.sas_log.notes import TimingNote, begin_note
from gridwright.workload.sas_log.sessions import SasJob
from gridwright.workload.sas_log.stamps import header_day
from gridwright.workload.sas_log.words import INITIALIZATION, is_spoken_of

_LONGEST_REASON = 300
_HEADER_WORD = b"day, "
_FAILURE = re.compile(r"ERROR(?: \d+-\d+)?:|NOTE: +(?:The )?SAS System stopped processing")
_NUMBER = re.compile(rb"\d{1,9}\s?[:.|)]?(?:\s+|$)")
_FIRST_PAGE = re.compile(rb"(?:\d{1,9}\s?[:.|)]?\s+)?1\s")
_MOST_DAYS = 8
_FIRST_LINES = 60
"""Lines of a log that come before the note of its initialization at most."""


class LogReader:
    """Takes the lines that may matter, and keeps the job that the log ends with."""

    words = (b"NOTE:", b"ERROR", _HEADER_WORD)

    def __init__(self) -> None:
        self.notes_seen = 0
        """Notes of any kind: a log without times has them, another file has none."""
        self._plain = _Reading()
        self._numbered = _Reading()

    @property
    def wants_all(self) -> bool:
        """While a note is open, its figures follow."""
        return self._plain.is_open or self._numbered.is_open

    @property
    def job(self) -> SasJob:
        """The job that the log ends with."""
        return self._chosen.job

    @property
    def sessions(self) -> int:
        """How many jobs the log holds, one after the other."""
        return self._chosen.sessions

    @property
    def _chosen(self) -> _Reading:
        numbered = self._plain.job.notes == 0 and self._plain.sessions == 1 and self._numbered.job.notes > 0
        return self._numbered if numbered else self._plain

    def take(self, text: bytes, line: int, *, whole: bool) -> None:
        """Take a line: a figure of the open note, the head of another, or a failure."""
        number = _NUMBER.match(text)
        bare = text[number.end() :] if number is not None else text
        self.notes_seen += bare.startswith(b"NOTE:")
        if number is None:
            self._numbered.end()
            self._plain.take(_decoded(text), line, whole=whole)
            return
        if self._numbered.is_open or bare.startswith((b"NOTE:", b"ERROR")):
            self._numbered.take(_decoded(bare), line, whole=whole)
        if self._plain.is_open:
            self._plain.take(_decoded(text), line, whole=whole)
        if _HEADER_WORD in text and (day := header_day(_decoded(text))):
            self.see_day(day, first_page_at=line if _FIRST_PAGE.match(text) else None)

    def see_day(self, day: datetime.date, *, first_page_at: int | None = None) -> None:
        """Take a day that a page header or the logging facility tells; a first page begins a log."""
        for reading in (self._plain, self._numbered):
            reading.see_day(day, first_page_at)

    def end(self) -> None:
        """Close the open notes."""
        self._plain.end()
        self._numbered.end()


class _Reading:
    """The notes of one way to read the lines."""

    def __init__(self) -> None:
        self.job = SasJob()
        self.sessions = 1
        self._note: TimingNote | None = None
        self._first_page_at: int | None = None

    @property
    def is_open(self) -> bool:
        return self._note is not None

    def see_day(self, day: datetime.date, first_page_at: int | None) -> None:
        if len(self.job.dates.known) < _MOST_DAYS:
            self.job.dates.known.add(day)
        self._first_page_at = first_page_at or self._first_page_at

    def take(self, text: str, line: int, *, whole: bool) -> None:
        if self._note is not None:
            taken = self._note.take(text, whole=whole)
            if not taken or self._note.is_full:
                self.end()
            if taken:
                return
        if text.startswith("NOTE:"):
            self._note = begin_note(text, line)
            if self._note is None:
                self.job.hear(text)
            elif self._note.is_full:
                self.end()
                return
        if self.job.failure is None and self._note is None and _FAILURE.match(text):
            self.job.failure = f"{_readable(text)} (line {line} of the log)"

    def end(self) -> None:
        """Close the open note, if there is one; it may be none about time."""
        note, self._note = self._note, None
        if note is None or not note.tells_time:
            return
        if note.name == INITIALIZATION and self._begins_another_job(note.line):
            self.job = SasJob()
            self.sessions += 1
        self.job.add(note)

    def _begins_another_job(self, line: int) -> bool:
        """Whether an initialization begins a job of its own rather than a session within this one."""
        if self.job.is_connecting:
            return False
        new_page = self._first_page_at is not None and line - self._first_page_at <= _FIRST_LINES
        return self.job.has_ended or (self.job.is_initialized and new_page)


def _decoded(text: bytes) -> str:
    if text.isascii():
        return text.decode("ascii")
    for encoding in ("utf-8", "gb18030", "cp932"):
        try:
            found = text.decode(encoding)
        except UnicodeDecodeError:
            continue
        # Any bytes can be read as Chinese: they are if they say something about time.
        if encoding == "utf-8" or is_spoken_of(found):
            return found
    return text.decode("cp1252", "replace")


def _readable(text: str) -> str:
    words = "".join(letter if letter.isprintable() else " " for letter in text).split()
    return " ".join(words)[:_LONGEST_REASON]
