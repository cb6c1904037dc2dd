"""Goes through a SAS log of any size, in bounded memory.

A log can have gigabytes, nearly all of it source lines and data that say nothing about time. So no
line is looked at unless it holds one of a few words, which are sought in large blocks of bytes.
"""

from __future__ import annotations

import datetime
import re
import stat
from pathlib import Path
from typing import Protocol

from gridwright.errors import input_error
from gridwright.refusals import refusal
from gridwright.workload.sas_log.text import LONGEST_LINE, whole_lines

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
