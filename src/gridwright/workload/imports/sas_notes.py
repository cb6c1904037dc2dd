"""The timing notes of a SAS log, filled line by line: their words, and dates as written without a zone.

Words are English on each of SAS's systems, Chinese or Japanese; the order of day and month is left open.

FULLSTIMER writes on UNIX and Windows; STIMER leaves out all but the real time and one CPU time:

    NOTE: PROCEDURE SORT used (Total process time):
          real time           1:02.33
          user cpu time       40.10 seconds
          system cpu time     4.02 seconds
          memory              812345.67k
          OS Memory           830000.00k
          Timestamp           11/21/2026 07:00:00 AM
          Step Count                        3  Switch Count  12
          Block Input Operations            4096
          Block Output Operations           128

and on z/OS, where STIMER has one line of two figures, and none of them is the real time; so has version 6
on Windows, with the real time alone:

    NOTE: The PROCEDURE SORT used the following resources:
          CPU     time -         00:00:40.10
          Elapsed time -         00:01:02.33
          Task  memory -         1602K (38K data, 1564K program)

    NOTE: The DATA statement used 0.02 CPU seconds and 1602K.
    NOTE: The DATA statement used 0.93 seconds.
"""

from __future__ import annotations

import datetime
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

DateOrder = Literal["mdy", "dmy", "ymd"]

_STAMP = re.compile(
    r"(\d[\w/.-]{5,10})[ :T]{1,3}(\d{1,2}):(\d\d)(?::(\d\d))?(?:[.,]\d{1,6})?"
    r"\s*(?:([AP])M|([上下午前後]{2}))?",
    re.IGNORECASE,
)
_DATE = re.compile(r"(\d{1,4})([/.-])(\d{1,2})\2(\d{1,4})")
_NAMED_DATE = re.compile(r"(\d{1,2})([a-z]{3})(\d{4})", re.IGNORECASE)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_AFTERNOON = ("下午", "午後")

# The header of a page: "06:58 Saturday, November 21, 2026".
_HEADER = re.compile(
    r"\d\d?:\d\d (?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, ([A-Z][a-z]{2})[a-z]* (\d\d?), (\d{4})"
)
_BESIDE = datetime.timedelta(days=14)
"""The two ways to read a date lie 28 days apart at least, so one of them alone is this near to another."""
_SPARE_S = 120.0


class Stamp(NamedTuple):
    """A date and time as written, with the orders of day and month in which it can be read."""

    numbers: tuple[int, int, int]
    clock: tuple[int, int, int]
    orders: frozenset[DateOrder]

    def day(self, order: DateOrder) -> datetime.date | None:
        """Read its date; None where there is no such day."""
        a, b, c = self.numbers
        year, month, day = {"mdy": (c, a, b), "dmy": (c, b, a), "ymd": (a, b, c)}[order]
        try:
            return datetime.date(year, month, day)
        except ValueError:
            return None

    def unix_time(self, order: DateOrder) -> float | None:
        """Read it as local time of this machine; None where there is no such time."""
        day = self.day(order)
        try:
            return None if day is None else time.mktime((*day.timetuple()[:3], *self.clock, 0, 0, -1))
        except (OverflowError, ValueError):
            return None


class Dates:
    """What the dates of one log say of the order of day and month in them."""

    def __init__(self) -> None:
        self.orders: frozenset[DateOrder] = frozenset({"mdy", "dmy", "ymd"})
        """Those in which every stamp so far can be read."""
        self.known: set[datetime.date] = set()
        """Days of which the log tells which month is meant: of page headers, of the logging facility."""
        self.first: Stamp | None = None
        self.last: Stamp | None = None

    def add(self, stamp: Stamp) -> None:
        """Account for the stamp of a note."""
        self.first = self.first or stamp
        self.last = stamp
        self.orders &= stamp.orders

    def end_time(self, real_s: float | None) -> tuple[float | None, bool]:
        """Unix time of the last stamp, and whether it is left out because its date is ambiguous.

        `real_s` is the real time of the whole session, where that is known.
        """
        if self.last is None:
            return None, False
        times = {order: self.last.unix_time(order) for order in self.orders & self.last.orders}
        if len(set(times.values())) > 1:
            times = {order: at for order, at in times.items() if self._fits(order, real_s)}
        return (next(iter(times.values())), False) if len(set(times.values())) == 1 else (None, True)

    def _fits(self, order: DateOrder, real_s: float | None) -> bool:
        """Whether an order agrees with the days that are known, and with how long the session lasted."""
        if self.first is None or self.last is None:
            return False
        day, begun, ended = self.last.day(order), self.first.unix_time(order), self.last.unix_time(order)
        if day is None or begun is None or ended is None:
            return False
        if self.known and not any(abs(day - each) <= _BESIDE for each in self.known):
            return False
        return ended >= begun and (real_s is None or ended - begun <= real_s + _SPARE_S)


def header_day(line: str) -> datetime.date | None:
    """The day in the header of a page, if the line is one."""
    found = _HEADER.search(line)
    if found is None or found[1].lower() not in _MONTHS:
        return None
    try:
        return datetime.date(int(found[3]), _MONTHS.index(found[1].lower()) + 1, int(found[2]))
    except ValueError:
        return None


def parse_stamp(text: str) -> Stamp | None:
    """Read a timestamp; day and month stay open where they can be exchanged."""
    match = _STAMP.fullmatch(text.strip())
    date = _parse_date(match[1]) if match else None
    if match is None or date is None:
        return None
    hour, minute, second = int(match[2]), int(match[3]), int(match[4] or 0)
    if match[5] or match[6]:
        afternoon = match[6] in _AFTERNOON if match[6] else match[5] in "pP"
        hour = hour % 12 + (12 if afternoon else 0)
    if hour > 23 or minute > 59 or second > 59:
        return None
    numbers, orders = date
    return Stamp(numbers, (hour, minute, second), orders)


# A log of a million steps has few days.
@lru_cache(maxsize=64)
def _parse_date(text: str) -> tuple[tuple[int, int, int], frozenset[DateOrder]] | None:
    if named := _NAMED_DATE.fullmatch(text):
        month = named[2].lower()
        if month not in _MONTHS:
            return None
        numbers = (int(named[3]), _MONTHS.index(month) + 1, int(named[1]))
        return _in_possible_orders(numbers, {"ymd"})
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    numbers = (int(match[1]), int(match[3]), int(match[4]))
    if len(match[1]) == 4:
        return _in_possible_orders(numbers, {"ymd"})
    if len(match[4]) != 4:
        # Two digits of a year could be a day.
        return None
    # Nobody writes the month first with dots.
    return _in_possible_orders(numbers, {"dmy"} if match[2] == "." else {"mdy", "dmy"})


def _in_possible_orders(
    numbers: tuple[int, int, int], orders: Iterable[DateOrder]
) -> tuple[tuple[int, int, int], frozenset[DateOrder]] | None:
    a, b, c = numbers
    dates: dict[DateOrder, tuple[int, int]] = {"mdy": (a, b), "dmy": (b, a), "ymd": (b, c)}
    possible = frozenset(
        order for order in orders if 1 <= dates[order][0] <= 12 and 1 <= dates[order][1] <= 31
    )
    return (numbers, possible) if possible else None


CLOSING = "SAS SYSTEM"
INITIALIZATION = "SAS initialization"

_OPEN, _CLOSE, _COLON = "[（(]", "[）)]", "[:：]"  # noqa: RUF001 - as wide as Chinese letters
_HEADS = (
    re.compile(
        r"NOTE:\s+(?:The\s+)?(\S.{0,119}?)\s+used"
        r"(?:\s+\(Total process\b.*|\s+the following resources)?\s*:?$",
        re.IGNORECASE,
    ),
    re.compile(rf"NOTE:\s*(\S.{{0,119}}?)\s*所用时间(?:\s*{_OPEN}总处理时间{_CLOSE})?\s*{_COLON}$"),
    re.compile(rf"NOTE:\s*(\S.{{0,119}}?)\s*処理\s*{_OPEN}合計処理時間{_CLOSE}\s*{_COLON}$"),
)
_ONE_LINE = re.compile(
    r"NOTE:\s+(?:The\s+)?(\S.{0,119}?)\s+used\s+"
    r"((?:\d{1,6} hours? )?(?:\d{1,6} minutes? )?\d[\d:.,]{0,15})\s+(CPU )?seconds?"
    r"(?:\s+and\s+(\d[\d,]{0,15}[KMG])(?:B|\b))?[^:]{0,80}$",
    re.IGNORECASE,
)
FIELD = re.compile(
    r"(?P<real_s>real time|elapsed time|实际时间|処理時間)"
    r"|(?P<user_s>user cpu time|用户\s*CPU\s*时间|ユーザー\s*CPU\s*時間)"
    r"|(?P<system_s>system cpu time|系统\s*CPU\s*时间|システム\s*CPU\s*時間)"
    r"|(?P<cpu_s>cpu\s+time|CPU\s*时间|CPU\s*時間)"
    r"|(?P<memory>task\s+memory|memory|内存|メモリ)"
    r"|(?P<read_blocks>block input operations)"
    r"|(?P<written_blocks>block output operations)"
    r"|(?P<stamp>timestamp|时间戳|タイムスタンプ)",
    re.IGNORECASE,
)
_VALUE = re.compile(r"\s*-?\s+(\S.*)")
_OTHER_FIELDS = re.compile(
    r"os memory|os 内存|os\s*メモリ|step count|步骤计数|ステップ|total memory|excp count|page |"
    r"voluntary context|involuntary context|semaphores|sas task context|"
    r"rsm hiperspace|vector|(?:non-)?preemptible|threads|switch count",
    re.IGNORECASE,
)
# A note that ends the one before it. CAS actions write each of their figures as a note of its own, and
# their times are part of the procedure's: so they are never taken.
_NEXT = re.compile(r"(?:NOTE|WARNING|ERROR|INFO)\b")
# The last line of a log that was cut can hold a shortened number; these cannot be a shortened one.
_COMPLETE = re.compile(r"seconds?\.?$|秒$|:\d\d[.,]\d\d$|k$|[AP]M$|program\)$", re.IGNORECASE)

_QUOTES = "“”\"'「」 "
_PROCEDURE = ("PROCEDURE", "プロシジャ")
_FIRST_WORDS = {"DATA": "DATA", "DATAステートメント": "DATA", "SQL": "SQL"}
_KNOWN_NAMES = {
    **dict.fromkeys(("sas system", "sas session", "sas 系统", "sas システム"), CLOSING),
    **dict.fromkeys(
        ("sas initialization", "initialization phase", "sas 初始化", "sas の初期化"), INITIALIZATION
    ),
}


class Figure(NamedTuple):
    """One figure of a timing note: which of its fields, and the value as written."""

    field: str
    value: str
    whole: bool
    """Whether the value cannot be a shortened one."""


class OneLine(NamedTuple):
    """A note that tells its figures in its own line."""

    name: str
    time: str
    is_cpu: bool
    memory: str | None


def _head_name(line: str) -> str | None:
    """The name of the step whose timing note this line begins; None if it begins none."""
    for head in _HEADS:
        if match := head.match(line):
            return step_name(match[1])
    return None


def _one_line_note(line: str) -> OneLine | None:
    """Read a timing note of a single line; None if this is none."""
    match = _ONE_LINE.match(line)
    if match is None:
        return None
    return OneLine(step_name(match[1]), match[2], bool(match[3]), match[4])


def _figure(line: str) -> Figure | None:
    """Read a line below the head of a note; None if it holds no figure that is wanted."""
    match = FIELD.match(line)
    value = _VALUE.match(line, match.end()) if match else None
    if match is None or value is None or match.lastgroup is None:
        return None
    return Figure(match.lastgroup, value[1], _COMPLETE.search(line) is not None)


def _is_other_figure(line: str) -> bool:
    """Whether a line of a note holds a figure that nobody asks for."""
    return _OTHER_FIELDS.match(line) is not None


def _begins_another(line: str) -> bool:
    """Whether a line ends the note before it."""
    return _NEXT.match(line) is not None


def is_spoken_of(line: str) -> bool:
    """Whether a line with letters beyond ASCII is one of a timing note."""
    return _head_name(line) is not None or _figure(line) is not None or _is_other_figure(line)


def step_name(subject: str) -> str:
    """Name a step as its procedure, DATA, or what else the note is about."""
    words = subject.strip(_QUOTES).split() or [subject]
    plain = " ".join(words)
    first = words[0].upper()
    if known := _KNOWN_NAMES.get(plain.lower()) or _FIRST_WORDS.get(first):
        return known
    if first in _PROCEDURE and len(words) > 1:
        return words[1].upper()
    if first == "VIEW":
        return plain.upper()
    return "".join(letter for letter in plain if letter.isprintable())


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
        if found := _figure(text):
            self._foreign = 0
            if not whole and not found.whole:
                return True
            return self._fill(found.field, found.value)
        if _begins_another(text):
            return False
        self._foreign = 0 if _is_other_figure(text) else self._foreign + 1
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
    if one := _one_line_note(text):
        seconds = _spelled_seconds(one.time)
        return TimingNote(
            one.name,
            line,
            real_s=None if one.is_cpu else seconds,
            cpu_s=seconds if one.is_cpu else None,
            memory_bytes=parse_memory(one.memory) if one.memory else None,
            is_whole=True,
        )
    name = _head_name(text)
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
