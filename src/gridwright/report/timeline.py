"""Throughput over time out of the samples: one series per library, cut where the operation changes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gridwright.report.figures import finite
from gridwright.runs.samples import SampleRow

WORKLOAD = "workload"
"""The `op` of samples that the mixed workload left."""
MAX_POINTS = 900
"""A chart has no more pixels than this; a longer run is drawn as means over several seconds."""


@dataclass(frozen=True, slots=True)
class Point:
    """Rates in bytes/s over an interval; `time` is its middle (Unix time)."""

    time: float
    read: float | None
    written: float | None


@dataclass(frozen=True, slots=True)
class Segment:
    """The samples of one phase, in order, from `start` to `end` (Unix time)."""

    op: str
    start: float
    end: float
    points: tuple[Point, ...]
    cpu_percent: tuple[float, ...]
    device_read: float | None
    device_written: float | None


@dataclass(frozen=True, slots=True)
class Timeline:
    """The samples of one library."""

    library: str
    segments: tuple[Segment, ...]
    nodes: int
    seconds_per_point: int
    """1, or the seconds over which each point is a mean."""

    @property
    def start(self) -> float:
        """When the first phase began; the zero of the chart."""
        return self.segments[0].start

    @property
    def length(self) -> float:
        """Seconds from there to the last sample."""
        return self.segments[-1].end - self.start


def timelines(samples: Iterable[SampleRow]) -> dict[str, Timeline]:
    """One timeline per library, in the order in which they were measured.

    The mixed workload uses all libraries at once and has no phases: its samples are left out.
    """
    rows: dict[str, list[SampleRow]] = defaultdict(list)
    for row in samples:
        if row.op != WORKLOAD and finite(row.time) is not None and row.library:
            rows[row.library].append(row)
    lines = {}
    for library, own in rows.items():
        own.sort(key=_time)
        parts = _cut(own)
        bin_s = math.ceil(len(own) / len({row.node for row in own}) / MAX_POINTS)
        segments = [_segment(op, part, bin_s) for op, part in parts]
        nodes = len({row.node for row in own})
        lines[library] = Timeline(library, tuple(segments), nodes, bin_s)
    return dict(sorted(lines.items(), key=lambda item: item[1].start))


def _time(row: SampleRow) -> float:
    return finite(row.time) or 0.0


def _cut(rows: Sequence[SampleRow]) -> list[tuple[str, list[SampleRow]]]:
    """Consecutive rows of one operation."""
    parts: list[tuple[str, list[SampleRow]]] = []
    for row in rows:
        op = row.op or ""
        if not parts or parts[-1][0] != op:
            parts.append((op, []))
        parts[-1][1].append(row)
    return parts


def _segment(op: str, rows: Sequence[SampleRow], bin_s: int) -> Segment:
    whole = _without_slivers(rows)
    return Segment(
        op,
        start=min(_time(row) - _interval(row) for row in rows),
        end=max(_time(row) for row in rows),
        points=tuple(_thin(_summed(whole), bin_s)),
        cpu_percent=tuple(cpu for row in whole if (cpu := finite(row.cpu_percent)) is not None),
        device_read=_total(rows, "device_read_bytes"),
        device_written=_total(rows, "device_written_bytes"),
    )


def _without_slivers(rows: Sequence[SampleRow]) -> list[SampleRow]:
    """The samples with each much shorter one merged into the one before it.

    A phase ends within a second; the rate of its last few milliseconds says nothing.
    """
    whole: list[SampleRow] = []
    latest: dict[str | None, int] = {}
    for row in rows:
        before = whole[latest[row.node]] if row.node in latest else None
        if before is not None and _interval(row) < 0.5 * _interval(before):
            whole[latest[row.node]] = replace(
                before,
                time=row.time,
                interval_s=_interval(before) + _interval(row),
                read_bytes=_sum(before.read_bytes, row.read_bytes),
                written_bytes=_sum(before.written_bytes, row.written_bytes),
            )
        else:
            latest[row.node] = len(whole)
            whole.append(row)
    return whole


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _interval(row: SampleRow) -> float:
    return finite(row.interval_s) or 0.0


def _middle(row: SampleRow) -> float:
    return _time(row) - _interval(row) / 2


def _total(rows: Sequence[SampleRow], key: str) -> float | None:
    known = [value for row in rows if (value := finite(getattr(row, key))) is not None]
    return sum(known) if known else None


def _rate(row: SampleRow, key: str) -> float | None:
    amount, interval = finite(getattr(row, key)), finite(row.interval_s)
    return amount / interval if amount is not None and interval else None


def _summed(rows: Sequence[SampleRow]) -> list[Point]:
    """The rates of all nodes together.

    Nodes sample at their own moments. Each node's samples that fall into the same second of the phase are
    averaged first (two of one node in a second must not count twice), then nodes are added up. Nodes
    that start together sample in the middle of these seconds, not on both sides of an end.
    """
    if len({row.node for row in rows}) == 1:
        return [Point(_middle(row), _rate(row, "read_bytes"), _rate(row, "written_bytes")) for row in rows]
    start = min(_time(row) - _interval(row) for row in rows)
    by_second: dict[int, dict[str | None, list[SampleRow]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        by_second[math.floor(_middle(row) - start)][row.node].append(row)
    points = []
    for second, by_node in sorted(by_second.items()):
        both = []
        for key in ("read_bytes", "written_bytes"):
            means = [_mean(_rate(row, key) for row in own) for own in by_node.values()]
            known = [mean for mean in means if mean is not None]
            both.append(sum(known) if known else None)
        points.append(Point(start + second + 0.5, both[0], both[1]))
    return points


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _thin(points: list[Point], bin_s: int) -> list[Point]:
    """Each `bin_s` points as their mean."""
    if bin_s <= 1:
        return points
    bins = [points[i : i + bin_s] for i in range(0, len(points), bin_s)]
    return [
        Point(
            _mean(point.time for point in own) or own[0].time,
            _mean(point.read for point in own),
            _mean(point.written for point in own),
        )
        for own in bins
    ]


def extremes(points: Sequence[Point], side: str) -> tuple[float | None, float | None, float | None]:
    """Lowest, mean and highest rate of one side (`read` or `written`) in bytes/s."""
    values = [value for point in points if (value := getattr(point, side)) is not None]
    if not values:
        return None, None, None
    return min(values), sum(values) / len(values), max(values)
