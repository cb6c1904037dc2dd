"""Dates and times of a SAS log: as written without a zone, and with the order of day and month left open."""

from __future__ import annotations

import datetime
import re
import time
from collections.abc import Iterable
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
