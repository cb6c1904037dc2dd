"""Reads the log of a real SAS job as one launch, so that it is judged like the workload's own tests.

What a reader of the figures of a SAS log should know of them.

Reads what a SAS log says of one job: its notes one by one, with bounded memory.

The log of an object server can have a number before each of its lines. A source line has one, too, and
may quote a note: so numbered notes count only in a log that has no other.

Goes through a SAS log of any size, in bounded memory.

A log can have gigabytes, nearly all of it source lines and data that say nothing about time. So no
line is looked at unless it holds one of a few words, which are sought in large blocks of bytes.

Turns the bytes of a log into lines of UTF-8, piece by piece: packed, in UTF-16, or as a page of HTML.

Where a log is in another encoding it stays as it is: what matters in it is ASCII, or told by its words.

The SAS sessions of one log: one after the other, and within each other by SAS/CONNECT.

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

import codecs
import datetime
import heapq
import html
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Protocol, TypeVar

from gridwright.errors import Finding, GridwrightError, input_error
from gridwright.handed_files import BLOCK_BYTES, open_file, unpacked
from gridwright.refusals import refusal
from gridwright.runs.launch_record import LaunchRecord, StepRecord
from gridwright.workload.imports.sas_notes import (
    CLOSING,
    INITIALIZATION,
    Dates,
    TimingNote,
    begin_note,
    header_day,
    is_spoken_of,
)

MOST_STEPS = 1_000
"""Steps kept of one log: the longest ones."""

_REMOTE = re.compile(
    r"NOTE: (?:Background )?Remote (signon|submit|signoff) (?:to|from) (\S{1,64}) "
    r"(commencing|in progress|complete|cancel|terminat|fail)",
    re.IGNORECASE,
)
_OWN = re.compile(r"NOTE: Gridwright \S+, launch \d+ of test (.{1,80}) \(\w+\), stream \d+, node ")
"""Begins the log of a launch of the workload (`gridwright.workload.session`)."""
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
        match = _REMOTE.match(text)
        if match is None:
            own = _OWN.match(text)
            self.own_name = own[1] if own else self.own_name
            return
        what, name, state = match[1].lower(), match[2].lower(), match[3].lower()
        if state == "commencing":
            if name not in self._remote:
                self._remote[name] = SasSession(match[2])
                self.within += 1
            self._speakers.append((name, what))
            return
        # What goes on in the background speaks when it is complete, or when its log is fetched.
        self._speakers = [speaker for speaker in self._speakers if speaker[0] != name]
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

    def longest_steps(self) -> list[tuple[TimingNote, str | None]]:
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


LONGEST_LINE = 4096
"""Bytes of a line that are looked at; SAS writes at most 256 characters."""
_SAMPLE_BYTES = 1 << 16
_EBCDIC_NOTE = "NOTE:".encode("cp037")

_BREAK = re.compile(
    rb"<(?:br|hr|/?(?:p|div|tr|pre|li|table|h\d))\b[^<>]{0,500}>[ \t]*(?:\r?\n)?", re.IGNORECASE
)
_TAG = re.compile(rb"</?[a-z!][^<>]{0,500}>", re.IGNORECASE)


def whole_lines(path: Path, size: int) -> Iterator[bytes]:
    """Yield a log in pieces of whole lines, in UTF-8 where its encoding can be told.

    `size` is what an unpacked log had when it was looked at: a running job may write faster than it is
    read. Raises OSError, and GridwrightError where the log is packed badly or in EBCDIC.
    """
    with open_file(path) as file:
        blocks = unpacked(file, path, size)
        first = next(blocks, b"")
        if _EBCDIC_NOTE in first and b"NOTE:" not in first:
            raise input_error(
                "its text is in EBCDIC: it was copied from z/OS as it is",
                where=str(path),
                remedy="copy it as text, so that it is in ASCII: ftp does so with `ascii`",
            )
        yield from _in_lines(_plain(_lines_decoded(chain([first], blocks))))


def _lines_decoded(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Turn UTF-16 into UTF-8, with or without a byte order mark."""
    first = next(blocks, b"")
    encoding = _utf_16(first)
    if encoding is None:
        yield first.removeprefix(codecs.BOM_UTF8)
        yield from blocks
        return
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    for block in chain([first], blocks):
        yield decoder.decode(block).encode("utf-8", "replace")
    yield decoder.decode(b"", final=True).encode("utf-8", "replace")


def _utf_16(first: bytes) -> str | None:
    """The kind of UTF-16 that a log begins in, or None; without a mark the zero bytes of ASCII tell it."""
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    sample = first[:_SAMPLE_BYTES]
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    many = len(sample) // 8
    if odd > many and even * 8 < odd:
        return "utf-16-le"
    return "utf-16-be" if even > many and odd * 8 < even else None


def _plain(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Turn HTML into text, as a stored process and the export of a log window have it."""
    first = next(blocks, b"")
    start = first[:LONGEST_LINE].lstrip().lower()
    if not start.startswith((b"<", b"content-type:")):
        yield first
        yield from blocks
        return
    # A tag may lie across the border of two blocks, hardly across that of two lines.
    for piece in _in_lines(chain([first], blocks)):
        text = _TAG.sub(b"", _BREAK.sub(b"\n", piece)).decode("utf-8", "surrogateescape")
        yield html.unescape(text).replace("\xa0", " ").encode("utf-8", "surrogateescape")


def _in_lines(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Join what a block's end parts. Of a line longer than a block, the middle is left out."""
    rest = b""
    for block in blocks:
        end = block.rfind(b"\n") + 1
        if end:
            yield rest + block[:end] if rest else block[:end]
            rest = block[end:]
        else:
            rest = (rest + block)[:BLOCK_BYTES] if len(rest) < LONGEST_LINE else rest[:LONGEST_LINE]
    if rest:
        yield rest


# What the logging facility puts before each line, for servers and for jobs with a LOGCONFIGLOC; and what
# servers of SAS 9.1 do, day, time and thread.
_PREFIX = re.compile(
    rb"\d{4}-\d\d-\d\dT[\d:.,+Z-]{8,20} +[A-Z]+ +\[\w{0,32}\] .{0,200}? - ?|\d{8}:[\d.]{8,11}: \d{8}: ?"
)
_UNSOUGHT = -2


class LineTaker(Protocol):
    """Who reads the lines: what to look for, and what to do with what was found."""

    @property
    def words(self) -> tuple[bytes, ...]:
        """A line is given if it holds one of these."""
        ...

    @property
    def wants_all(self) -> bool:
        """Give the next line, whatever it holds."""
        ...

    def see_day(self, day: datetime.date) -> None:
        """Take the day on which the next line was written."""
        ...

    def take(self, text: bytes, line: int, *, whole: bool) -> None:
        """Take a line, stripped. `whole` is False for a last line without an end."""
        ...


def scan_lines(path: Path, taker: LineTaker) -> int:
    """Give the taker the lines it wants, with their numbers from 1; return the bytes of the file.

    Raises GridwrightError if the file cannot be read.
    """
    line = 1
    try:
        status = path.stat()
        # Asked before it is opened: opening a pipe waits until somebody writes.
        if not stat.S_ISREG(status.st_mode):
            raise input_error("this is no file", where=str(path), remedy="Name the log of one SAS job.")
        for piece in whole_lines(path, status.st_size):
            line = _scan_piece(piece, line, taker)
    except OSError as error:
        why = refusal(path, error, "name a readable file")
        raise input_error(
            f"the log cannot be read: {why.reason}", where=str(path), remedy=why.remedy
        ) from error
    return status.st_size


def _scan_piece(piece: bytes, line: int, taker: LineTaker) -> int:
    """Give the lines of one piece; return the number of the line that follows it."""
    at = 0
    hits: dict[bytes, int] = {}
    while at < len(piece):
        if not taker.wants_all:
            hit = _next_hit(piece, at, taker.words, hits)
            if hit < 0:
                return line + piece.count(b"\n", at)
            start = max(at, piece.rfind(b"\n", at, hit) + 1)
            line += piece.count(b"\n", at, start)
            at = start
        end = piece.find(b"\n", at)
        whole = end >= 0
        end = end if whole else len(piece)
        _give(piece[at : min(end, at + LONGEST_LINE)], line, taker, whole=whole)
        at = end + 1
        line += 1
    return line


def _next_hit(piece: bytes, at: int, words: tuple[bytes, ...], hits: dict[bytes, int]) -> int:
    """Where the next of the words stands, or -1. `hits` keeps what was found, so none is sought twice."""
    nearest = -1
    for word in words:
        hit = hits.get(word, _UNSOUGHT)
        if hit == _UNSOUGHT or 0 <= hit < at:
            hit = hits[word] = piece.find(word, at)
        if hit >= 0 and (nearest < 0 or hit < nearest):
            nearest = hit
    return nearest


def _give(line: bytes, number: int, taker: LineTaker, *, whole: bool) -> None:
    """Strip blanks, form feeds, NULs and the prefix of the logging facility, of which the day is told."""
    if b"\0" in line:
        line = line.replace(b"\0", b"")
    if line[:1].isdigit() and (prefix := _PREFIX.match(line)):
        if (day := _day(line)) is not None:
            taker.see_day(day)
        line = line[prefix.end() :]
    taker.take(line.strip(), number, whole=whole)


def _day(line: bytes) -> datetime.date | None:
    digits = line[:10].replace(b"-", b"")[:8]
    try:
        return datetime.date(int(digits[:4]), int(digits[4:6]), int(digits[6:8]))
    except ValueError:
        return None


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


def findings_of(
    name: str, job: SasJob, totals: TimingNote, sessions: int, *, ambiguous: bool
) -> list[Finding]:
    """The findings of the log `name`; `sessions` are the jobs in it, one after the other."""
    findings = [*_of_sessions(name, job, sessions), *_of_times(name, totals)]
    if ambiguous:
        findings.append(
            Finding(
                "warning",
                "sas-log-date-ambiguous",
                f"{name} has dates that can be read with the day or the month first, so the time of its "
                "start and end is left out",
                "Run the job with the option DATE, whose page headers name the month.",
            )
        )
    if job.step_notes > MOST_STEPS:
        findings.append(
            Finding(
                "info",
                "sas-log-steps-left-out",
                f"{name} has {job.step_notes} steps: all count, the longest {MOST_STEPS} are listed",
                "Split the job, if you need every step.",
            )
        )
    return findings


def _of_sessions(name: str, job: SasJob, sessions: int) -> list[Finding]:
    found = []
    if not job.has_ended:
        found.append(
            Finding(
                "warning",
                "sas-log-truncated",
                f'{name} has no closing note "The SAS System used": it was cut, or its session went on; '
                "the totals are the sums of its steps, without the time between them",
                "Give the log of a batch job that has ended.",
            )
        )
    if job.unclosed:
        found.append(
            Finding(
                "info",
                "sas-log-nested-session-open",
                f"{name} holds {job.within} sessions of SAS/CONNECT within its own, and "
                f"{job.unclosed} of them have no closing note: their CPU time is the sum of their steps",
                "Sign off from each session: its closing note then stands in the log.",
            )
        )
    if sessions > 1:
        found.append(
            Finding(
                "warning",
                "sas-log-several-sessions",
                f"{name} holds {sessions} sessions, one after the other: only the last is counted",
                "Give each job a log of its own.",
            )
        )
    return found


def _of_times(name: str, totals: TimingNote) -> list[Finding]:
    found = []
    if totals.real_s is None:
        found.append(
            Finding(
                "warning",
                "sas-log-no-real-time",
                f"{name} tells CPU time and no real time, as STIMER does on z/OS: it has no CPU/real ratio",
                "Run the job with the option FULLSTIMER, which tells the elapsed time, too.",
            )
        )
    if totals.all_user_s is None:
        found.append(
            Finding(
                "warning",
                "sas-log-no-cpu-time",
                f"{name} tells no CPU time, so it has no CPU/real ratio",
                "Run the job with the option FULLSTIMER.",
            )
        )
    elif totals.system_s is None:
        found.append(
            Finding(
                "info",
                "sas-log-no-fullstimer",
                f"{name} does not part user from system CPU time: all of it stands under user",
                "Run the job with the option FULLSTIMER, which also tells memory and the time of day.",
            )
        )
    return found


_BLOCK_BYTES = 512
"""What Linux counts as a block of a process (getrusage(2), ru_inblock)."""


def read_sas_log(path: Path, *, number: int, node: str) -> tuple[LaunchRecord, list[Finding]]:
    """Read a SAS log as launch `number` on `node`, with what a reader of its figures should know.

    Times of day are taken as local time of this machine: a log does not tell its zone. Raises
    GridwrightError if the file cannot be read, is empty, or holds no timing note.
    """
    reader = LogReader()
    size = scan_lines(path, reader)
    reader.end()
    job = reader.job
    if size == 0:
        raise input_error("the log is empty", where=str(path), remedy="Name the log of a SAS job that ran.")
    if job.notes == 0:
        raise _no_times(path, reader.notes_seen)
    totals = job.totals()
    ended, ambiguous = job.dates.end_time(totals.real_s if job.has_ended else None)
    real_s, user_s, system_s = totals.real_s, totals.all_user_s, totals.system_s
    cpu_s = None if user_s is None else user_s + (system_s or 0.0)
    launch = LaunchRecord(
        number=number,
        # A file name can hold bytes that are no text, which no JSON could carry.
        test=job.own_name or os.fsencode(_stem(path)).decode("utf-8", "replace"),
        class_="command",
        stream=1,
        node=node,
        started=None if ended is None or real_s is None else ended - real_s,
        ended=ended,
        real_s=real_s,
        user_s=user_s,
        system_s=system_s,
        peak_memory_bytes=totals.memory_bytes,
        device_read_bytes=_bytes(totals.read_blocks),
        device_written_bytes=_bytes(totals.written_blocks),
        cpu_real_ratio=cpu_s / real_s if cpu_s is not None and real_s else None,
        ok=job.failure is None,
        reason=job.failure,
        steps=[_step_record(note, session) for note, session in job.longest_steps()],
    )
    name = path.name
    return launch, findings_of(name, job, totals, reader.sessions, ambiguous=ambiguous)


def _bytes(blocks: int | None) -> int | None:
    return None if blocks is None else blocks * _BLOCK_BYTES


def _stem(path: Path) -> str:
    """The name of a log without what tells that it is packed, and that it is a log."""
    return Path(path.stem).stem if path.suffix.lower() == ".gz" else path.stem


def _no_times(path: Path, notes: int) -> GridwrightError:
    if notes == 0:
        return input_error(
            'this is no SAS log: it has no line that begins with "NOTE:"',
            where=str(path),
            remedy="Name the log of a SAS job that ran.",
        )
    return input_error(
        f"this is a SAS log without times: none of its {notes} notes is such as "
        '"NOTE: PROCEDURE SORT used (Total process time):", in English, Chinese or Japanese',
        where=str(path),
        remedy="Run the job with the option FULLSTIMER (STIMER at least), and in one of these languages.",
    )


def _step_record(note: TimingNote, session: str | None) -> StepRecord:
    return StepRecord(
        procedure=note.name,
        real_s=note.real_s,
        user_s=note.all_user_s,
        system_s=note.system_s,
        peak_memory_bytes=note.memory_bytes,
        line=note.line,
        session=session,
    )
