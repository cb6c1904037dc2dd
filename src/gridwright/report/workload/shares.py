"""The time of the mixed workload: where that of each test went, and its course over equal bins of one axis.

Nodes sample at their own moments and launches begin when they like. Each value is spread over the interval it
holds for, so that no bin shows two samples of a node, or none.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from gridwright.report.charts import MAX_POINTS, WORKLOAD
from gridwright.report.figures import ABSENT, finite, seconds, share
from gridwright.report.plot import Chart, axis_title, bars_axis, layout_of, rate_axis, safe
from gridwright.report.table import Table, table_of
from gridwright.runs.launch_record import Bound, LaunchRecord
from gridwright.runs.samples import SampleRow

SIDES = ("read_bytes", "written_bytes", "device_read_bytes", "device_written_bytes")
Piece = tuple[float, float, float]
"""Begin and end (Unix time) of the interval in which a value holds, and the value."""
Values = tuple[float | None, ...]


@dataclass(frozen=True)
class Span:
    """The axis of time that all charts of a workload share, from `start` (Unix time)."""

    start: float
    length: float

    @cached_property
    def bin_s(self) -> int:
        """Whole seconds of one point."""
        return max(1, math.ceil(self.length / MAX_POINTS))

    @cached_property
    def edges(self) -> tuple[tuple[float, float], ...]:
        """Begin and end of each bin; the last one takes in a remainder of less than half a bin."""
        bins = max(1, int(self.length / self.bin_s + 0.5))
        begins = [self.start + i * self.bin_s for i in range(bins)]
        return tuple(zip(begins, [*begins[1:], self.start + self.length], strict=True))

    @property
    def middles(self) -> tuple[float, ...]:
        """Seconds since the start of the middle of each bin."""
        return tuple((begin + end) / 2 - self.start for begin, end in self.edges)

    def overlaps(self, begin: float, end: float) -> Iterator[tuple[int, float]]:
        """The bins between two moments, by position, and how many seconds of each lie between them."""
        first = min(max(int((begin - self.start) // self.bin_s), 0), len(self.edges) - 1)
        for i in range(first, len(self.edges)):
            opens, closes = self.edges[i]
            if opens >= end:
                return
            yield i, max(0.0, min(end, closes) - max(begin, opens))


@dataclass(frozen=True, slots=True)
class Series:
    """What was sampled, bin by bin; None where nothing was."""

    span: Span
    libraries: dict[str, dict[str, Values]]
    """Bytes per second of all nodes together, by library and by the names in `SIDES`."""
    cpu_percent: Values
    """Mean over the nodes."""
    running: Values
    """Launches running at once."""
    nodes: int


def own_samples(samples: Iterable[SampleRow]) -> list[SampleRow]:
    """The samples of the mixed workload that say when and how long."""
    return [
        row
        for row in samples
        if row.op == WORKLOAD and finite(row.time) is not None and (_interval(row) or 0) > 0
    ]


def times_of(launches: Iterable[LaunchRecord]) -> list[tuple[LaunchRecord, float, float]]:
    """The launches of which begin and end are known, with both."""
    known = []
    for launch in launches:
        begin, end = finite(launch.started), finite(launch.ended)
        if begin is not None and end is None and (real := finite(launch.real_s)) is not None:
            end = begin + real
        if begin is not None and end is not None and end >= begin:
            known.append((launch, begin, end))
    return known


def span_of(samples: Sequence[SampleRow], launches: Sequence[LaunchRecord]) -> Span | None:
    """From the first sample or launch to the last; None if neither has a time."""
    pieces = [_interval_of(row) for row in samples]
    pieces += [(begin, end) for _, begin, end in times_of(launches)]
    if not pieces:
        return None
    start, end = min(begin for begin, _ in pieces), max(end for _, end in pieces)
    return Span(start, max(end - start, 1e-3))


def series_of(samples: Sequence[SampleRow], launches: Sequence[LaunchRecord], span: Span) -> Series:
    """Rates, CPU and launches at once; launches are counted where no sample tells how many ran."""
    by_library: dict[str, dict[str | None, list[SampleRow]]] = defaultdict(lambda: defaultdict(list))
    by_node: dict[str | None, list[SampleRow]] = defaultdict(list)
    for row in samples:
        by_node[row.node].append(row)
        if row.library:
            by_library[row.library][row.node].append(row)
    libraries = {
        name: {side: _total([_rates(rows, side, span) for rows in nodes.values()]) for side in SIDES}
        for name, nodes in by_library.items()
    }
    cpu = [_means(_held(rows, "cpu_percent"), span) for rows in by_node.values()]
    running = _means(_held(samples, "launches_running"), span)
    if len(by_node) > 1 and times_of(launches):
        # A node is sampled only while launches run there: samples of all do not add up.
        running = _at_once(launches, span)
    if not any(value is not None for value in running):
        running = _at_once(launches, span)
    return Series(span, libraries, _mean(cpu), running, len(by_node))


def tail_of(launches: Sequence[LaunchRecord]) -> float | None:
    """When the first of several streams had ended its last launch (Unix time)."""
    last: dict[int, float] = {}
    for launch, _, end in times_of(launches):
        last[launch.stream] = max(end, last.get(launch.stream, end))
    return min(last.values()) if len(last) > 1 else None


def _interval(row: SampleRow) -> float | None:
    return finite(row.interval_s)


def _interval_of(row: SampleRow) -> tuple[float, float]:
    end = finite(row.time) or 0.0
    return end - (_interval(row) or 0.0), end


def _held(rows: Iterable[SampleRow], key: str) -> list[Piece]:
    """A sampled state, as it held over the interval of its sample."""
    return [(*_interval_of(row), value) for row in rows if (value := finite(getattr(row, key))) is not None]


def _rates(rows: Iterable[SampleRow], key: str, span: Span) -> Values:
    """Bytes that one node moved, per second."""
    return _means(
        [(begin, end, moved / (end - begin)) for begin, end, moved in _held(rows, key) if end > begin], span
    )


def _means(pieces: Iterable[Piece], span: Span) -> Values:
    """The mean of each bin, weighted by how much of the bin each value held."""
    weights, sums = [0.0] * len(span.edges), [0.0] * len(span.edges)
    for begin, end, value in pieces:
        for i, overlap in span.overlaps(begin, end):
            weights[i] += overlap
            sums[i] += overlap * value
    return tuple(total / weight if weight > 0 else None for total, weight in zip(sums, weights, strict=True))


def _at_once(launches: Sequence[LaunchRecord], span: Span) -> Values:
    known = times_of(launches)
    if not known:
        return (None,) * len(span.edges)
    seconds = [0.0] * len(span.edges)
    for _, begin, end in known:
        for i, overlap in span.overlaps(begin, end):
            seconds[i] += overlap
    return tuple(
        total / (end - begin) if end > begin else None
        for total, (begin, end) in zip(seconds, span.edges, strict=True)
    )


def _total(columns: Sequence[Values]) -> Values:
    """The sum over the nodes of what is known."""
    return tuple(
        sum(known) if (known := [value for value in values if value is not None]) else None
        for values in zip(*columns, strict=True)
    )


def _mean(columns: Sequence[Values]) -> Values:
    return tuple(
        sum(known) / len(known) if (known := [value for value in values if value is not None]) else None
        for values in zip(*columns, strict=True)
    )


IN_ALL = "all tests"
_ROW = 24
_MOST_ROWS = 40
_LEAST = 0.0005
"""A cause that took less of every test has no part in the chart."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One part of a bar: its name, the causes of a launch's record in it, its colour and its hatching."""

    name: str
    of: tuple[Bound, ...]
    colour: str
    hatch: str = ""


CAUSES = (
    Cause("computing", ("cpu",), "--time-cpu"),
    Cause("waiting for a core", ("core",), "--time-core", "/"),
    Cause("data", ("data read", "data write"), "--time-data"),
    Cause("work", ("work read", "work write"), "--time-work", "\\"),
    Cause("util", ("util",), "--time-util", "."),
    Cause("memory", ("memory",), "--time-memory", "x"),
    Cause("something else", ("other",), "--time-other", "-"),
)


@dataclass(frozen=True, slots=True)
class TimeShares:
    """How the real time of the launches of a test divides, each cause 0 to 1."""

    test: str
    launches: int
    real_s: float
    shares: Mapping[str, float]

    def of(self, cause: Cause) -> float:
        """The part of the time that a cause took."""
        return sum(self.shares.get(name, 0.0) for name in cause.of)


def time_shares(launches: Sequence[LaunchRecord]) -> list[TimeShares]:
    """One row per test, those that computed least first, below one of all of them.

    Launches that ran to their end and of which shares are known count, each by its real time.
    """
    by_test: dict[str, list[LaunchRecord]] = {}
    for launch in launches:
        if launch.ok and launch.shares and (finite(launch.real_s) or 0.0) > 0:
            by_test.setdefault(launch.test, []).append(launch)
    if not by_test:
        return []
    rows = sorted((_shares(test, own) for test, own in by_test.items()), key=_computed)
    if len(rows) == 1:
        return rows
    return [_shares(IN_ALL, [launch for own in by_test.values() for launch in own]), *rows]


def _computed(row: TimeShares) -> float:
    return row.of(CAUSES[0])


def _shares(test: str, launches: Sequence[LaunchRecord]) -> TimeShares:
    real = sum(launch.real_s or 0.0 for launch in launches)
    sums: dict[str, float] = {}
    for launch in launches:
        for cause, part in launch.shares.items():
            sums[cause] = sums.get(cause, 0.0) + part * (launch.real_s or 0.0)
    return TimeShares(test, len(launches), real, {cause: total / real for cause, total in sums.items()})


def shares_chart(rows: Sequence[TimeShares]) -> Chart | None:
    """A bar per test, divided by what its time went to."""
    if not rows:
        return None
    shown = rows[:_MOST_ROWS]
    traces = [_bars(cause, shown) for cause in CAUSES if any(row.of(cause) >= _LEAST for row in shown)]
    names = [safe(row.test) for row in shown]
    layout = layout_of(
        xaxis={
            "title": axis_title("% of the real time of its launches"),
            "range": [0, 100],
            "fixedrange": True,
            "dtick": 20,
            "automargin": True,
            **rate_axis(),
        },
        yaxis={
            **bars_axis(names),
            "tickvals": names,
            "ticktext": [f"<b>{name}</b>" if name == IN_ALL else name for name in names],
        },
        barmode="stack",
        bargap=0.25,
        hovermode="closest",
        legend={"orientation": "h", "x": 0, "xanchor": "left", "y": 1.01, "yanchor": "bottom"}
        | {"traceorder": "normal"},
        margin={"l": 16, "r": 16, "t": 48, "b": 16},
    )
    notes = ["Data, work and util: waiting for that library, reading and writing together."]
    if len(rows) > len(shown):
        notes.append(f"The {len(shown) - 1} tests that computed least, of {len(rows) - 1}.")
    spoken = "; ".join(f"{row.test}: {_shares_text(row)}" for row in shown)
    return Chart(
        "workload-shares",
        "Where the time of each test went",
        f"Shares of real time. {spoken}.",
        len(shown) * _ROW + 130,
        {"data": traces, "layout": layout},
        " ".join(notes),
    )


def _shares_text(row: TimeShares) -> str:
    said = [f"{cause.name} {share(row.of(cause))}" for cause in CAUSES if row.of(cause) >= _LEAST]
    return ", ".join(said) or "not known"


def _bars(cause: Cause, rows: Sequence[TimeShares]) -> dict[str, Any]:
    pattern = {
        "shape": cause.hatch,
        "fillmode": "overlay",
        "fgcolor": "--card",
        "size": 7,
        "solidity": 0.18,
    }
    return {
        "type": "bar",
        "orientation": "h",
        "name": cause.name,
        "y": [safe(row.test) for row in rows],
        "x": [round(100 * row.of(cause), 2) for row in rows],
        "hovertext": [_hover(cause, row) for row in rows],
        "hoverinfo": "text",
        "marker": {
            "color": cause.colour,
            "line": {"color": "--card", "width": 1},
            **({"pattern": pattern} if cause.hatch else {}),
        },
    }


def _hover(cause: Cause, row: TimeShares) -> str:
    parts = [f"{name} {share(row.shares[name])}" for name in cause.of if name in row.shares]
    split = f" ({', '.join(parts)})" if len(parts) > 1 else ""
    mean = seconds(row.of(cause) * row.real_s / row.launches)
    return (
        f"<b>{safe(row.test)}</b><br>{cause.name} {share(row.of(cause))}{split}<br>{mean} of a launch, mean"
    )


def shares_table(rows: Sequence[TimeShares]) -> Table | None:
    """The same in figures, reading and writing apart."""
    if not rows:
        return None
    titles: dict[str, Bound] = {
        ("Computing" if name == "cpu" else "Core" if name == "core" else name.capitalize()): name
        for cause in CAUSES
        for name in cause.of
        if any(row.shares.get(name, 0.0) >= _LEAST for row in rows)
    }
    columns = {
        title: lambda row, name=name: share(row.shares[name]) if name in row.shares else ABSENT
        for title, name in titles.items()
    }
    table = table_of(
        "Shares of real time by test",
        rows,
        {
            "Test": lambda row: row.test,
            **columns,
            "Real s": lambda row: seconds(row.real_s).removesuffix(" s"),
        },
    )
    return replace(table, folded=True)
