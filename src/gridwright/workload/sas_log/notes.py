"""The timing notes of a SAS log, filled line by line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from gridwright.workload.sas_log.stamps import Stamp, parse_stamp
from gridwright.workload.sas_log.words import (
    begins_another,
    figure,
    head_name,
    is_other_figure,
    one_line_note,
)

_TIME = re.compile(
    r"(?:(\d{1,6}):)?(?:(\d{1,6}):)?(\d{1,9}(?:[.,]\d{1,9})?)\s*([a-z秒分时時]*)\.?", re.IGNORECASE
)
_SPELLED_TIME = re.compile(r"(?:(\d+) hours? )?(?:(\d+) minutes? )?(\d[\d.]*)", re.IGNORECASE)
_UNITS_S = {"": 1.0, "second": 1.0, "minute": 60.0, "hour": 3600.0, "秒": 1.0, "分": 60.0}
_MEMORY = re.compile(r"(\d[\d.,]{0,24})\s*([kmg])(?:i?b)?(?: \(.*)?", re.IGNORECASE)
_THOUSANDS = re.compile(r"\d{1,3}(?:[.,]\d{3})+")
_UNITS_BYTES = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}

_FOREIGN_LINES = 3
_LONGEST_NOTE = 40


@dataclass(slots=True)
class TimingNote:
    """One timing note, filled line by line. `line` is that of its head, from 1."""

    name: str
    line: int
    real_s: float | None = None
    cpu_s: float | None = None
    """User and system time together, as STIMER has it."""
    user_s: float | None = None
    system_s: float | None = None
    memory_bytes: int | None = None
    stamp: Stamp | None = None
    read_blocks: int | None = None
    written_blocks: int | None = None
    """As UNIX counts them for a process, 512 bytes each on Linux (getrusage(2)): what devices moved."""
    is_whole: bool = False
    """Whether nothing can follow: it told its figures in one line."""
    _lines: int = 0
    _foreign: int = 0

    def take(self, text: str, *, whole: bool = True) -> bool:
        """Take the next line of the log, stripped; False says that the note has ended before it.

        A page header, or a line of another thread, may stand between two figures, so a few lines
        that are none are passed over. `whole` is False for a last line that has no end.
        """
        self._lines += 1
        if not text:
            return self._lines < _LONGEST_NOTE
        if found := figure(text):
            self._foreign = 0
            if not whole and not found.whole:
                return True
            return self._fill(found.field, found.value)
        if begins_another(text):
            return False
        self._foreign = 0 if is_other_figure(text) else self._foreign + 1
        return self._foreign <= _FOREIGN_LINES and self._lines < _LONGEST_NOTE

    def _fill(self, field: str, value: str) -> bool:
        """Set one figure; False if the note has it already, so that this is another's."""
        if field == "stamp":
            new = self.stamp is None
            self.stamp = self.stamp or parse_stamp(value)
            return new
        if field == "memory":
            new = self.memory_bytes is None
            self.memory_bytes = parse_memory(value) if new else self.memory_bytes
            return new
        if getattr(self, field) is not None:
            return False
        in_blocks = field in ("read_blocks", "written_blocks")
        setattr(self, field, parse_count(value) if in_blocks else parse_time(value))
        return True

    @property
    def is_full(self) -> bool:
        """Whether it has all that is ever read of one, so that what follows need not be looked at."""
        figures = (self.real_s, self.system_s, self.memory_bytes, self.stamp, self.written_blocks)
        return self.is_whole or None not in figures

    @property
    def tells_time(self) -> bool:
        """Whether it is a note about time at all."""
        return not (self.real_s is None and self.cpu_s is None)

    @property
    def has_all_times(self) -> bool:
        """Whether no time is missing, as it is where the log was cut within the note."""
        cpu_told = self.cpu_s is not None or (self.user_s is not None and self.system_s is not None)
        return self.is_whole or (self.real_s is not None and cpu_told)

    @property
    def all_user_s(self) -> float | None:
        """User CPU time, or all CPU time where the log does not part it."""
        return self.cpu_s if self.user_s is None else self.user_s


def begin_note(text: str, line: int) -> TimingNote | None:
    """Begin a timing note if this line, stripped, is the head of one."""
    if one := one_line_note(text):
        seconds = _spelled_seconds(one.time)
        return TimingNote(
            one.name,
            line,
            real_s=None if one.is_cpu else seconds,
            cpu_s=seconds if one.is_cpu else None,
            memory_bytes=parse_memory(one.memory) if one.memory else None,
            is_whole=True,
        )
    name = head_name(text)
    return TimingNote(name, line) if name is not None else None


# As good as all short steps of a log took the same few times.
@lru_cache(maxsize=4096)
def parse_time(text: str) -> float | None:
    """Seconds of `0.02 seconds`, `1:02.33` or `12:34:56.78`; None if it is none of these."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        return None
    seconds = float(match[3].replace(",", "."))
    if match[1] is None:
        unit = _UNITS_S.get(match[4].lower().removesuffix("s"))
        return None if unit is None else seconds * unit
    # With one colon only the first group is there: minutes.
    minutes = int(match[1]) if match[2] is None else int(match[1]) * 60 + int(match[2])
    return minutes * 60 + seconds


def parse_count(text: str) -> int | None:
    """A whole number; None if this is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def _spelled_seconds(text: str) -> float | None:
    """Seconds of `1 minute 12.03` as version 6 writes it, and of all that `parse_time` reads."""
    match = _SPELLED_TIME.fullmatch(text)
    if match is None or match[3].count(".") > 1:
        return parse_time(text)
    return int(match[1] or 0) * 3600 + int(match[2] or 0) * 60 + float(match[3])


@lru_cache(maxsize=4096)
def parse_memory(text: str) -> int | None:
    """Bytes of `1234.56k`, `12,345.67k` or `236 KB`; None without a unit."""
    match = _MEMORY.fullmatch(text.strip())
    if match is None:
        return None
    number = match[1]
    mark = max(number.rfind("."), number.rfind(","))
    marks = {letter for letter in number if letter in ".,"}
    # "12,345k" counts thousands; "12.345k" never does in SAS, but several dots do.
    grouped = len(marks) == 1 and _THOUSANDS.fullmatch(number) and (marks == {","} or number.count(".") > 1)
    if mark >= 0 and not grouped:
        number = number[:mark].replace(",", "").replace(".", "") + "." + number[mark + 1 :]
    else:
        number = number.replace(",", "").replace(".", "")
    return round(float(number) * _UNITS_BYTES[match[2].lower()])
