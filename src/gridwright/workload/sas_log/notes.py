"""The timing notes of a SAS log: their first line, the figures below it, and dates without a zone.

FULLSTIMER writes, STIMER leaves out all but the real time and one CPU time:

    NOTE: PROCEDURE SORT used (Total process time):
          real time           1:02.33
          user cpu time       40.10 seconds
          system cpu time     4.02 seconds
          memory              812345.67k
          OS Memory           830000.00k
          Timestamp           11/21/2026 07:00:00 AM
          Step Count                        3  Switch Count  12
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

CLOSING = "SAS SYSTEM"
INITIALIZATION = "SAS initialization"

DateOrder = Literal["mdy", "dmy", "ymd"]

_HEAD = re.compile(rb"NOTE:\s+(?:The\s+)?(\S.{0,119}?)\s+used(?:\s+\(Total process\b.*)?\s*:?$")
# A note that ends the one before it. CAS actions write each of their figures as a note of its own, and
# their times are part of the procedure's: so they are never taken.
_NEXT = re.compile(rb"(?:NOTE|WARNING|ERROR|INFO)\b")
_FIELD = re.compile(
    rb"(real time|user cpu time|system cpu time|cpu time|memory|timestamp)\s+(\S.*)", re.IGNORECASE
)
_OTHER_FIELDS = (
    b"os memory",
    b"step count",
    b"page ",
    b"voluntary context",
    b"involuntary context",
    b"block input",
    b"block output",
    b"semaphores",
    b"sas task context",
)
# The last line of a log that was cut can hold a shortened number; these cannot be a shortened one.
_COMPLETE = re.compile(rb"seconds$|:\d\d[.,]\d\d$|k$|[AP]M$", re.IGNORECASE)

_TIME = re.compile(r"(?:(\d{1,6}):)?(?:(\d{1,6}):)?(\d{1,9}(?:[.,]\d{1,9})?)\s*([a-z]*)", re.IGNORECASE)
_UNITS_S = {"": 1.0, "second": 1.0, "minute": 60.0, "hour": 3600.0}
_MEMORY = re.compile(r"(\d[\d.,]{0,24})\s*([kmg])(?:i?b)?", re.IGNORECASE)
_THOUSANDS = re.compile(r"\d{1,3}(?:[.,]\d{3})+")
_UNITS_BYTES = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}

_STAMP = re.compile(
    r"(\d[\w/.-]{5,10})[ :T]{1,3}(\d{1,2}):(\d\d)(?::(\d\d))?(?:[.,]\d{1,6})?\s*(?:([AP])M)?", re.IGNORECASE
)
_DATE = re.compile(r"(\d{1,4})([/.-])(\d{1,2})\2(\d{1,4})")
_NAMED_DATE = re.compile(r"(\d{1,2})([a-z]{3})(\d{4})", re.IGNORECASE)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")

_FOREIGN_LINES = 3
_LONGEST_NOTE = 40


class Stamp(NamedTuple):
    """A date and time as written, with the orders of day and month in which it can be read."""

    numbers: tuple[int, int, int]
    clock: tuple[int, int, int]
    twelve_hours: bool
    orders: frozenset[DateOrder]

    def unix_time(self, order: DateOrder) -> float | None:
        """Read it as local time of this machine; None where there is no such time."""
        a, b, c = self.numbers
        year, month, day = {"mdy": (c, a, b), "dmy": (c, b, a), "ymd": (a, b, c)}[order]
        try:
            return time.mktime((year, month, day, *self.clock, 0, 0, -1))
        except (OverflowError, ValueError):
            return None


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
    _lines: int = 0
    _foreign: int = 0

    def take(self, text: bytes, *, whole: bool = True) -> bool:
        """Take the next line of the log, stripped; False says that the note has ended before it.

        A page header, or a line of another thread, may stand between two figures, so a few lines
        that are none are passed over. `whole` is False for a last line that has no end.
        """
        self._lines += 1
        if not text:
            return self._lines < _LONGEST_NOTE
        if found := _FIELD.match(text):
            self._foreign = 0
            if not whole and not _COMPLETE.search(text):
                return True
            return self._fill(found[1].lower(), found[2].decode("latin-1"))
        if _NEXT.match(text):
            return False
        self._foreign = 0 if text.lower().startswith(_OTHER_FIELDS) else self._foreign + 1
        return self._foreign <= _FOREIGN_LINES and self._lines < _LONGEST_NOTE

    def _fill(self, label: bytes, value: str) -> bool:
        """Set one figure; False if the note has it already, so that this is another's."""
        if label == b"timestamp":
            new = self.stamp is None
            self.stamp = self.stamp or parse_stamp(value)
            return new
        if label == b"memory":
            new = self.memory_bytes is None
            self.memory_bytes = parse_memory(value) if new else self.memory_bytes
            return new
        name = _TIMES[label]
        if getattr(self, name) is not None:
            return False
        setattr(self, name, parse_time(value))
        return True

    @property
    def is_full(self) -> bool:
        """Whether it has all that is ever read of one, so that what follows need not be looked at."""
        return not (
            self.stamp is None or self.memory_bytes is None or self.system_s is None or self.real_s is None
        )

    @property
    def has_all_times(self) -> bool:
        """Whether no time is missing, as it is where the log was cut within the note."""
        cpu_told = self.cpu_s is not None or (self.user_s is not None and self.system_s is not None)
        return self.real_s is not None and cpu_told

    @property
    def all_user_s(self) -> float | None:
        """User CPU time, or all CPU time where the log does not part it."""
        return self.cpu_s if self.user_s is None else self.user_s


_TIMES = {
    b"real time": "real_s",
    b"cpu time": "cpu_s",
    b"user cpu time": "user_s",
    b"system cpu time": "system_s",
}


def begin_note(text: bytes, line: int) -> TimingNote | None:
    """Begin a timing note if this line, stripped, is the head of one."""
    found = _HEAD.match(text)
    return TimingNote(_step_name(found[1].decode("latin-1")), line) if found else None


def _step_name(subject: str) -> str:
    words = subject.split()
    first = words[0].upper()
    if first == "PROCEDURE" and len(words) > 1:
        return words[1].upper()
    if first in {"DATA", "SQL"}:
        return first
    if first == "VIEW":
        return " ".join(words).upper()
    if [word.lower() for word in words] == ["sas", "system"]:
        return CLOSING
    if [word.lower() for word in words] == ["sas", "initialization"]:
        return INITIALIZATION
    return "".join(letter for letter in " ".join(words) if letter.isprintable())


@lru_cache(maxsize=4096)
def parse_time(text: str) -> float | None:
    """Seconds of `0.02 seconds`, `1:02.33` or `12:34:56.78`; None if it is none of these."""
    found = _TIME.fullmatch(text.strip())
    if found is None:
        return None
    seconds = float(found[3].replace(",", "."))
    if found[1] is None:
        unit = _UNITS_S.get(found[4].lower().removesuffix("s"))
        return None if unit is None else seconds * unit
    # With one colon only the first group is there: minutes.
    minutes = int(found[1]) if found[2] is None else int(found[1]) * 60 + int(found[2])
    return minutes * 60 + seconds


@lru_cache(maxsize=4096)
def parse_memory(text: str) -> int | None:
    """Bytes of `1234.56k`, `12,345.67k` or `236 KB`; None without a unit."""
    found = _MEMORY.fullmatch(text.strip())
    if found is None:
        return None
    number = found[1]
    mark = max(number.rfind("."), number.rfind(","))
    marks = {letter for letter in number if letter in ".,"}
    # "12,345k" counts thousands; "12.345k" never does in SAS, but several dots do.
    grouped = len(marks) == 1 and _THOUSANDS.fullmatch(number) and (marks == {","} or number.count(".") > 1)
    if mark >= 0 and not grouped:
        number = number[:mark].replace(",", "").replace(".", "") + "." + number[mark + 1 :]
    else:
        number = number.replace(",", "").replace(".", "")
    return round(float(number) * _UNITS_BYTES[found[2].lower()])


def parse_stamp(text: str) -> Stamp | None:
    """Read a timestamp; day and month stay open where they can be exchanged."""
    found = _STAMP.fullmatch(text.strip())
    date = _parse_date(found[1]) if found else None
    if found is None or date is None:
        return None
    hour, minute, second = int(found[2]), int(found[3]), int(found[4] or 0)
    if found[5]:
        hour = hour % 12 + (12 if found[5] in "pP" else 0)
    if hour > 23 or minute > 59 or second > 59:
        return None
    numbers, orders = date
    return Stamp(numbers, (hour, minute, second), bool(found[5]), orders)


# A log of a million steps has few days, and as good as all its short steps took the same few times.
@lru_cache(maxsize=64)
def _parse_date(text: str) -> tuple[tuple[int, int, int], frozenset[DateOrder]] | None:
    if named := _NAMED_DATE.fullmatch(text):
        month = named[2].lower()
        if month not in _MONTHS:
            return None
        numbers = (int(named[3]), _MONTHS.index(month) + 1, int(named[1]))
        return _in_possible_orders(numbers, {"ymd"})
    found = _DATE.fullmatch(text)
    if found is None:
        return None
    numbers = (int(found[1]), int(found[3]), int(found[4]))
    if len(found[1]) == 4:
        return _in_possible_orders(numbers, {"ymd"})
    if len(found[4]) != 4:
        # Two digits of a year could be a day.
        return None
    # Nobody writes the month first with dots.
    return _in_possible_orders(numbers, {"dmy"} if found[2] == "." else {"mdy", "dmy"})


def _in_possible_orders(
    numbers: tuple[int, int, int], orders: set[DateOrder]
) -> tuple[tuple[int, int, int], frozenset[DateOrder]] | None:
    a, b, c = numbers
    dates: dict[DateOrder, tuple[int, int]] = {"mdy": (a, b), "dmy": (b, a), "ymd": (b, c)}
    possible = frozenset(
        order for order in orders if 1 <= dates[order][0] <= 12 and 1 <= dates[order][1] <= 31
    )
    return (numbers, possible) if possible else None
