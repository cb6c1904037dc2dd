"""What a browser asks, checked where it comes in (pure).

Nothing behind this module sees a text that a browser sent and that was not held against what is allowed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gridwright.errors import ExitStatus, GridwrightError, Problem, nearest
from gridwright.monitor.readings import LABELS

YEAR_S = 366 * 86_400.0
LONGEST_S = 2 * YEAR_S
"""Histories keep a year; a range may begin before that."""
MOST_POINTS = 1000
"""Steps of a course: a screen has no more columns to show them."""
MOST_SERIES = 20
"""Lines that a reader tells apart, and more."""
_FIRST_S, _LAST_S = 0.0, 4_102_444_800.0
"""From 1970 to 2100."""
_LONGEST_NAME = 512
_MOST_NAMES = 64
_MOST_METRICS = 8
STEPS_S = (
    *(1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400),
    *(2 * 86_400, 7 * 86_400),
)
"""Widths of steps: they divide minutes, hours and days, so that a picture does not change as it moves."""
NAMES = frozenset({"user", "process", "jobid", "directory"})
"""Labels that tell whose a job is, what it is called or what it reads; see `viewers`."""
METRICS = tuple(name for name, labels in LABELS.items() if not NAMES & set(labels))
"""What everybody may ask for; administrators may ask for all."""
BY = ("node", "device", "mountpoint", "target", "job", "jobid", "mode", "metric", "all")
"""What series are told apart by: their node, one of their labels, their metric, or nothing."""
HOW = ("sum", "mean", "highest")
"""How series that are not told apart are put together."""
FILTERS = ("node", "device", "mountpoint", "target", "job", "mode")
"""Labels that a question may be narrowed to."""

Pairs = Sequence[tuple[str, str]]
"""Names and values of a query, as they came."""


@dataclass(frozen=True, slots=True)
class RangeQuery:
    """A range of time in seconds since 1970, and the width of its steps."""

    start_s: float
    end_s: float
    step_s: float

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end_s - self.start_s

    @property
    def steps(self) -> int:
        """How many steps it has."""
        return max(1, math.ceil(self.seconds / self.step_s))


@dataclass(frozen=True, slots=True)
class SeriesQuery:
    """Courses of metrics: which, over what, told apart by what."""

    range: RangeQuery
    metrics: tuple[str, ...]
    by: str
    how: str
    most: int
    only: tuple[tuple[str, frozenset[str]], ...]
    """Labels, or the node, with the values of which they have to have one."""
    as_table: bool
    """Whether it is asked for as CSV."""


@dataclass(frozen=True, slots=True)
class SnapshotQuery:
    """The state of all at one time; None for now."""

    at_s: float | None
    seconds: float


def series_query(query: Pairs, *, names: bool = False) -> SeriesQuery:
    """Read the question for courses; `names`: whether who asks may know names.

    Raises GridwrightError (INPUT) with all that is wrong with it.
    """
    reader = _Query(query, {"from", "to", "points", "metric", "by", "how", "most", "format", *FILTERS})
    metrics = tuple(
        dict.fromkeys(
            reader.choice("metric", each, LABELS if names else METRICS) for each in reader.all("metric")
        )
    )
    if not metrics:
        reader.problem("metric", "is missing", "name one or more metrics, such as node_load1")
    if len(metrics) > _MOST_METRICS:
        reader.problem("metric", "are too many", f"name {_MOST_METRICS} at most")
    asked = SeriesQuery(
        range=reader.range(),
        metrics=metrics,
        by=reader.choice("by", reader.one("by", "node"), BY),
        how=reader.choice("how", reader.one("how", "sum"), HOW),
        most=int(reader.number("most", 1, MOST_SERIES, default=8)),
        only=tuple((name, reader.names(name)) for name in FILTERS if reader.all(name)),
        as_table=reader.choice("format", reader.one("format", "json"), ("json", "csv")) == "csv",
    )
    reader.finish()
    return asked


def range_query(query: Pairs) -> RangeQuery:
    """Read a range. Raises GridwrightError (INPUT) with all that is wrong with it."""
    reader = _Query(query, {"from", "to", "points"})
    asked = reader.range()
    reader.finish()
    return asked


def snapshot_query(query: Pairs) -> SnapshotQuery:
    """Read the question for a picture. Raises GridwrightError (INPUT) with all that is wrong with it."""
    reader = _Query(query, {"at", "seconds"})
    at = reader.number("at", _FIRST_S, _LAST_S, default=-1.0)
    asked = SnapshotQuery(None if at < 0 else at, reader.number("seconds", 1.0, YEAR_S, default=10.0))
    reader.finish()
    return asked


class _Query:
    """Reads a query, and collects all that is wrong with it."""

    def __init__(self, pairs: Pairs, known: Iterable[str]) -> None:
        self._pairs = pairs
        self._problems: list[Problem] = []
        allowed = sorted(known)
        for name in dict.fromkeys(name for name, _ in pairs):
            if name not in allowed:
                near = nearest(name, allowed)
                self.problem(
                    _short(name),
                    "is not known here",
                    f"did you mean {near}?" if near else f"allowed: {', '.join(allowed)}",
                )

    def all(self, name: str) -> list[str]:
        """All values of a name."""
        return [value for each, value in self._pairs if each == name]

    def one(self, name: str, default: str) -> str:
        """The value of a name that may be there once."""
        found = self.all(name)
        if len(found) > 1:
            self.problem(name, "is there more than once", "name it once")
        return found[0] if found else default

    def choice(self, name: str, value: str, allowed: Iterable[str]) -> str:
        """One of the values that are allowed."""
        known = list(allowed)
        if value not in known:
            near = nearest(value, known)
            hint = f"did you mean {near}?" if near else f"allowed: {', '.join(known[:12])}"
            self.problem(name, f"{_short(value)!r} is not known here", hint)
        return value

    def names(self, name: str) -> frozenset[str]:
        """Values of a label: any texts of a line."""
        values = frozenset(self.all(name))
        if len(values) > _MOST_NAMES:
            self.problem(name, "is there too often", f"name {_MOST_NAMES} at most")
        if any(len(value) > _LONGEST_NAME or not value.isprintable() for value in values):
            self.problem(name, "is no name", f"write up to {_LONGEST_NAME} printable characters")
        return values

    def number(self, name: str, lowest: float, highest: float, *, default: float) -> float:
        """A number within bounds."""
        text = self.one(name, "")
        if not text:
            return default
        try:
            value = float(text) if len(text) <= 32 else math.nan
        except ValueError:
            value = math.nan
        if not lowest <= value <= highest:
            self.problem(
                name, f"{_short(text)!r} is not allowed", f"write a number from {lowest:g} to {highest:.12g}"
            )
            return default
        return value

    def range(self) -> RangeQuery:
        """A range with a width of steps that gives at most as many as are asked for."""
        start = self.number("from", _FIRST_S, _LAST_S, default=_FIRST_S)
        end = self.number("to", _FIRST_S, _LAST_S, default=_FIRST_S)
        points = self.number("points", 2, MOST_POINTS, default=300)
        for name in ("from", "to"):
            if not self.all(name):
                self.problem(name, "is missing", "write seconds since 1970")
        if not self._problems and not 1.0 <= end - start <= LONGEST_S:
            self.problem("to", "does not fit to from", "write a range of a second to two years")
        step = step_of(max(1.0, end - start), points)
        # The first step is a whole one, and the same one whenever it is asked for.
        return RangeQuery(start // step * step, end, step)

    def problem(self, name: str, what: str, remedy: str) -> None:
        """Note something that is wrong."""
        self._problems.append(Problem(what=f"{name} {what}", where=name, remedy=remedy))

    def finish(self) -> None:
        """Raise GridwrightError where anything was wrong."""
        if self._problems:
            raise GridwrightError(*self._problems[:20], status=ExitStatus.INPUT)


def step_of(seconds: float, points: float) -> float:
    """The narrowest of STEPS_S by which a range has at most as many points."""
    return float(next((each for each in STEPS_S if seconds / each <= points), STEPS_S[-1]))


def _short(text: str) -> str:
    """What came, as far as a message has room for it and a log survives it."""
    return text[:40].encode("unicode_escape", "backslashreplace").decode()
