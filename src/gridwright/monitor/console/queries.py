"""What a browser asks, checked where it comes in, and courses of nodes laid on one grid of time (pure).

Nothing behind this module sees a text that a browser sent and that was not held against what is allowed.

Nodes answer with steps of their own: a history that has no finer ones tells coarser ones. All are laid on the
coarsest of them. What is not known stays unknown: a sum is of what was told, and who was away is named.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridwright.errors import ExitStatus, GridwrightError, Problem, nearest
from gridwright.foreign_text import spreadsheet_cell
from gridwright.monitor.history.questions import NodeCourse, RangeQuestion, SeriesCourse
from gridwright.monitor.history.rolling import is_zero_unseen
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


Values = NDArray[np.float64]
PRESENCE = "node_memory_MemTotal_bytes"
"""What every node that answers has at each step: without it a step, it was away."""
OF_MACHINES = ("node_cpu_", "node_disk_", "node_memory_", "node_load", "node_pressure_")
"""Metrics that nodes of one machine tell alike, so that a sum over nodes counts them once."""
_MOST_SPANS = 200
"""Times at which nodes were away, told one by one."""


@dataclass(frozen=True, slots=True)
class TimeGrid:
    """Steps of one width; `start_s` is where the first one begins."""

    start_s: float
    step_s: float
    count: int

    def index(self, at_s: float) -> int:
        """The step that a time is in."""
        return int((at_s - self.start_s) // self.step_s)

    def time(self, index: int) -> float:
        """Where a step begins."""
        return self.start_s + index * self.step_s


@dataclass(frozen=True, slots=True)
class AwaySpan:
    """A time in which nothing is known of a node."""

    node: str
    start_s: float
    end_s: float
    why: str


@dataclass(frozen=True, slots=True)
class CourseLine:
    """What one line of a chart shows."""

    name: str
    values: Values
    highest: Values | None
    """The highest samples within the steps; None where several series are in it."""


@dataclass(frozen=True, slots=True)
class ResampledSeries:
    """An answer: lines, those that are largest first."""

    grid: TimeGrid
    lines: tuple[CourseLine, ...]
    others: int
    """Lines that were added up into the last one."""
    away: tuple[AwaySpan, ...]


def question_of(query: SeriesQuery) -> RangeQuestion:
    """What the histories are asked: the metrics, and what tells whether a node was there."""
    metrics = tuple(dict.fromkeys([*query.metrics, PRESENCE]))
    # What is added up in the end may be added up where it is kept.
    wanted = {query.by, *dict(query.only)} - {"node", "metric", "all"}
    return RangeQuestion(
        metrics,
        query.range.start_s,
        query.range.end_s,
        query.range.step_s,
        tuple(sorted(wanted)) if query.how == "sum" else None,
    )


def grid_of(courses: Sequence[NodeCourse], start_s: float, end_s: float, step_s: float) -> TimeGrid:
    """The grid on which all of them can be laid: the coarsest of their steps, from a multiple of it on."""
    step = max([step_s, *(course.step_s for course in courses if course.series)])
    start = start_s // step * step
    return TimeGrid(start, step, max(1, int(-(-(end_s - start) // step))))


def on_grid(course: NodeCourse, values: Sequence[float | None], grid: TimeGrid, metric: str = "") -> Values:
    """Values of a node on the grid: means of those that begin within a step, NaN where there is none.

    Of a `metric` that comes and goes, such as a job's bytes, the mean is over the time in which the node was
    seen: what moved for ten seconds of a minute moved a sixth of that in its mean.
    """
    told, index, good = _placed(course, values, grid)
    sums = np.bincount(index[good], told[good], grid.count)
    counts = np.bincount(index[good], minlength=grid.count)
    if grid.step_s > course.step_s and is_zero_unseen(metric):
        seen = (_seen_steps(course, len(told)) | good) & (index >= 0) & (index < grid.count)
        counts = np.where(counts > 0, np.bincount(index[seen], minlength=grid.count), 0)
    with np.errstate(invalid="ignore"):
        return np.where(counts > 0, sums / counts, np.nan)


def highest_on_grid(course: NodeCourse, values: Sequence[float | None], grid: TimeGrid) -> Values:
    """The highest of the values that begin within each step; NaN where there is none."""
    told, index, good = _placed(course, values, grid)
    found = np.full(grid.count, np.nan)
    np.fmax.at(found, index[good], told[good])
    return found


def _placed(
    course: NodeCourse, values: Sequence[float | None], grid: TimeGrid
) -> tuple[Values, NDArray[np.int_], NDArray[np.bool_]]:
    """Values of a node, the step of the grid that each one is in, and which of them are known there."""
    told = np.array([np.nan if value is None else value for value in values], dtype=float)
    times = course.start_s + course.step_s * (np.arange(len(told)) + 0.5)
    index = np.floor((times - grid.start_s) / grid.step_s).astype(int)
    return told, index, ~np.isnan(told) & (index >= 0) & (index < grid.count)


def _seen_steps(course: NodeCourse, count: int) -> NDArray[np.bool_]:
    """In which of its own steps a node was seen."""
    seen = np.zeros(count, dtype=bool)
    for series in course.series:
        if series.metric == PRESENCE:
            seen[: len(series.values)] |= np.array([value is not None for value in series.values[:count]])
    return seen


def resample(
    courses: Sequence[NodeCourse], query: SeriesQuery, machines: Mapping[str, str] | None = None
) -> ResampledSeries:
    """The answer to a question. `machines` has the machine of each node: what is its own counts once."""
    grid = grid_of(courses, query.range.start_s, query.range.end_s, query.range.step_s)
    nodes = dict(query.only).get("node")
    asked_of = [each for each in courses if nodes is None or each.node in nodes]
    firsts = _one_node_a_machine(asked_of, machines or {})
    held: dict[str, list[tuple[NodeCourse, SeriesCourse]]] = {}
    for course in asked_of:
        for series in course.series:
            counts = query.by == "node" or course.node in firsts or not series.metric.startswith(OF_MACHINES)
            if series.metric in query.metrics and counts and _matches(course, series, query):
                held.setdefault(_line_name(course, series, query), []).append((course, series))
    lines = [_line(name, those, grid, query.how) for name, those in held.items()]
    lines.sort(key=lambda each: (-_size(each), each.name))
    shown, rest = lines[: query.most], lines[query.most :]
    if rest and query.how == "sum":
        values = _together([each.values for each in rest], np.nansum)
        shown.append(CourseLine(f"{len(rest)} others", values, None))
    return ResampledSeries(grid, tuple(shown), len(rest), tuple(away_spans(asked_of, grid)[:_MOST_SPANS]))


def _one_node_a_machine(courses: Sequence[NodeCourse], machines: Mapping[str, str]) -> set[str]:
    """One node of each machine, the first that answered."""
    found: dict[str, str] = {}
    for course in courses:
        if course.series:
            found.setdefault(machines.get(course.node) or course.node, course.node)
    return set(found.values())


def _labels(series: SeriesCourse, query: SeriesQuery) -> dict[str, str]:
    names = LABELS.get(series.metric, ())
    by = question_of(query).by
    kept = names if by is None else tuple(name for name in names if name in by)
    return dict(zip(kept if len(series.labels) == len(kept) else names, series.labels, strict=False))


def _matches(course: NodeCourse, series: SeriesCourse, query: SeriesQuery) -> bool:
    labels = {**_labels(series, query), "node": course.node}
    return all(labels.get(name) in values for name, values in query.only)


def _line_name(course: NodeCourse, series: SeriesCourse, query: SeriesQuery) -> str:
    by = query.by
    if by == "all":
        return "all"
    if by == "metric":
        return series.metric
    if by == "node":
        return course.node
    name = _labels(series, query).get(by, "")
    # Disks and mounts of two nodes are two, though they have one name.
    return f"{name} of {course.node}" if by in {"device", "mountpoint"} else name


def _line(
    name: str, those: Sequence[tuple[NodeCourse, SeriesCourse]], grid: TimeGrid, how: str
) -> CourseLine:
    together: Mapping[str, Callable[..., Any]] = {
        "sum": np.nansum,
        "mean": np.nanmean,
        "highest": np.nanmax,
    }
    rows = [on_grid(course, series.values, grid, series.metric) for course, series in those]
    highest = highest_on_grid(those[0][0], those[0][1].highest, grid) if len(those) == 1 else None
    return CourseLine(name, _together(rows, together[how]), highest)


def _together(rows: Sequence[Values], how: Callable[..., Any]) -> Values:
    """Rows put together; NaN where none of them is known."""
    if len(rows) == 1:
        return rows[0]
    table = np.vstack(rows)
    known = ~np.isnan(table).all(axis=0)
    found = np.full(table.shape[1], np.nan)
    if known.any():
        found[known] = how(table[:, known], axis=0)
    return found


def _size(line: CourseLine) -> float:
    """What lines are sorted by: their mean."""
    known = line.values[~np.isnan(line.values)]
    return float(known.mean()) if len(known) else -1.0


def away_spans(courses: Sequence[NodeCourse], grid: TimeGrid) -> list[AwaySpan]:
    """When nothing was told of nodes, the longest spans first."""
    spans: list[AwaySpan] = []
    for course in courses:
        if not course.series:
            why = course.absent or "its history has nothing of this time"
            spans.append(AwaySpan(course.node, grid.start_s, grid.time(grid.count), why))
            continue
        there = np.zeros(grid.count, dtype=bool)
        for series in course.series:
            if series.metric == PRESENCE:
                there |= ~np.isnan(on_grid(course, series.values, grid))
        spans += [
            AwaySpan(course.node, grid.time(first), grid.time(last), "no samples")
            for first, last in _gaps(there)
        ]
    return sorted(spans, key=lambda each: each.start_s - each.end_s)


def _gaps(there: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """First step of each gap, and the step behind it; before the first sample a history had not begun."""
    known = np.flatnonzero(there)
    if not len(known):
        return [(0, len(there))]
    edges = np.flatnonzero(np.diff(known) > 1)
    gaps = [(int(known[at]) + 1, int(known[at + 1])) for at in edges]
    # The step that is going on has no samples yet, and the one before it may come late.
    if known[-1] < len(there) - 3:
        gaps.append((int(known[-1]) + 1, len(there)))
    return gaps


def document(series: ResampledSeries) -> dict[str, Any]:
    """An answer in plain values; null is what is not known."""
    return {
        "start": series.grid.start_s,
        "step": series.grid.step_s,
        "count": series.grid.count,
        "lines": [
            {
                "name": line.name,
                "values": plain(line.values),
                "highest": None if line.highest is None else plain(line.highest),
            }
            for line in series.lines
        ],
        "others": series.others,
        "away": [
            {"node": each.node, "from": each.start_s, "to": each.end_s, "why": each.why}
            for each in series.away
        ],
    }


def plain(values: Values) -> list[float | None]:
    """Values with six digits, which is more than any of them is worth; None for NaN."""
    return [None if np.isnan(value) else float(f"{value:.6g}") for value in values]


def as_csv(series: ResampledSeries) -> str:
    """An answer as CSV (RFC 4180): a row for each step, empty where nothing is known."""
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(["time", *(spreadsheet_cell(line.name) for line in series.lines)])
    for index in range(series.grid.count):
        at = datetime.fromtimestamp(series.grid.time(index), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        row = (line.values[index] for line in series.lines)
        writer.writerow([at, *("" if np.isnan(each) else f"{each:.6g}" for each in row)])
    return out.getvalue()
