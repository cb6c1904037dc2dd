"""The charts of one library: throughput over time, latency, and rate by number of streams.

Throughput over time is made out of the samples: one series per library, cut where the operation changes.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gridwright.report.figures import MB, finite, latency, megabytes, plain
from gridwright.report.plot import (
    COLOURS,
    Chart,
    axis_title,
    figure_of,
    layout_of,
    plain_axis,
    rate_axis,
    safe,
)
from gridwright.runs.phase_record import PhaseRecord, Sweep
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


PERCENTILES = (("p50", "p50"), ("p95", "p95"), ("p99", "p99"), ("p99_9", "p99.9"), ("max", "max"))


def time_chart(
    line: Timeline, required: float | None, phases: Sequence[PhaseRecord], place: str
) -> Chart | None:
    """Read and written MB/s of one library, second by second, with the required rate of all cores."""
    unit, size = time_unit(line.length)
    traces = [
        _side_trace(line, side, name, colour, size)
        for side, name, colour in (("written", "written", "--write"), ("read", "read", "--read"))
    ]
    traces = [trace for trace in traces if any(value is not None for value in trace["y"])]
    if not traces:
        return None
    top = max([value for trace in traces for value in trace["y"] if value] or [1.0])
    if required:
        span = [0, line.length / size]
        flat = {"color": "--ink", "width": 1.5, "dash": "dash"}
        wanted = {"type": "scatter", "mode": "lines", "name": "required, all cores", "x": span, "line": flat}
        traces.append({**wanted, "y": [required / MB] * 2, "hoverinfo": "skip"})
        top = max(top, required / MB)
    cached = {phase.op for phase in phases if phase.cached}
    shapes, labels = _phase_bands(line, size, cached)
    shapes += _change_points(line, phases, size)
    layout = layout_of(
        xaxis={"title": axis_title(f"{unit} since the first phase began"), **rate_axis(), "showgrid": False},
        yaxis={
            "title": axis_title("MB/s"),
            "range": [0, top * 1.16],
            "fixedrange": True,
            "automargin": True,
            **rate_axis(),
        },
        shapes=shapes,
        annotations=labels,
        hovermode="x unified",
    )
    ops = ", ".join(dict.fromkeys(segment.op for segment in line.segments))
    spoken = f"Throughput of {line.library} over {plain(line.length)} seconds, phases {ops}"
    return Chart(
        f"time-{place}",
        "Throughput over time",
        f"{spoken}.",
        320,
        figure_of(traces, layout),
        _time_note(line, phases),
    )


def _time_note(line: Timeline, phases: Sequence[PhaseRecord]) -> str:
    notes = []
    if line.seconds_per_point > 1:
        notes.append(f"Each point is the mean of {line.seconds_per_point} samples.")
    if line.nodes > 1:
        notes.append(f"{line.nodes} nodes together.")
    if any((phase.fsync_s or 0) >= 0.5 for phase in phases):
        notes.append("Where a write rests at 0 before it ends, its closing fsync waits for the storage.")
    if any(phase.steady and phase.steady.change_points_s for phase in phases):
        notes.append("A dotted line marks a change of the rate.")
    return " ".join(notes)


def time_unit(length: float) -> tuple[str, float]:
    """The unit of an axis of time of that many seconds, and its seconds."""
    return ("hours", 3600.0) if length > 2 * 3600 else ("minutes", 60.0) if length > 600 else ("seconds", 1.0)


def _side_trace(line: Timeline, side: str, name: str, colour: str, size: float) -> dict[str, Any]:
    times: list[float | None] = []
    rates: list[float | None] = []
    for segment in line.segments:
        for point in segment.points:
            rate = getattr(point, side)
            # A read phase writes nothing: a line along zero would only hide the axis.
            times.append(round((point.time - line.start) / size, 4))
            rates.append(None if not rate and _idle(segment, side) else None if rate is None else rate / MB)
        # A gap, so that no line joins two phases.
        times.append(round((segment.end - line.start) / size, 4))
        rates.append(None)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": times,
        "y": [None if rate is None else round(rate, 3) for rate in rates],
        "line": {"color": colour, "width": 2},
        "connectgaps": False,
        "hovertemplate": f"{name} %{{y:,.4~g}} MB/s<extra></extra>",
    }


def _idle(segment: Segment, side: str) -> bool:
    return not any(getattr(point, side) for point in segment.points)


def _phase_bands(
    line: Timeline, size: float, cached: Collection[str]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A faint band behind every second phase, and each phase's name where there is room for it."""
    shapes, labels = [], []
    for i, segment in enumerate(line.segments):
        start, end = (segment.start - line.start) / size, (segment.end - line.start) / size
        if i % 2:
            band = {"type": "rect", "xref": "x", "yref": "paper", "x0": start, "x1": end, "y0": 0, "y1": 1}
            shapes.append({**band, "fillcolor": "--band", "line": {"width": 0}, "layer": "below"})
        if segment.op and (end - start) * size >= 0.16 * max(line.length, 1e-9):
            at = {"x": (start + end) / 2, "y": 1, "xref": "x", "yref": "paper", "yanchor": "top"}
            name = f"{safe(segment.op)}{' (cached)' if segment.op in cached else ''}"
            text = {"text": name, "showarrow": False, "font": {"color": "--muted", "size": 12}}
            labels.append({**at, **text})
    return shapes, labels


def _change_points(line: Timeline, phases: Sequence[PhaseRecord], size: float) -> list[dict[str, Any]]:
    """A dotted line at each moment where `--until-steady` saw the rate change."""
    shapes = []
    for phase in phases:
        for change in phase.steady.change_points_s if phase.steady and phase.started else []:
            at = ((phase.started or 0) + change - line.start) / size
            if 0 <= at <= line.length / size:
                ends = {"type": "line", "xref": "x", "yref": "paper", "x0": at, "x1": at, "y0": 0, "y1": 0.9}
                shapes.append({**ends, "line": {"color": "--muted", "width": 1.5, "dash": "dot"}})
    return shapes


def latency_chart(phases: Sequence[PhaseRecord], place: str) -> Chart | None:
    """Latency percentiles of each phase with a histogram, on a log axis."""
    traces, values = [], []
    spoken = []
    for phase in phases:
        known = [(name, finite(getattr(phase.latency_us, key))) for key, name in PERCENTILES]
        points = [(name, value) for name, value in known if value]
        if phase.op == "metadata" or not points:
            continue
        values += [value for _, value in points]
        spoken.append(f"{phase.op} p50 {latency(known[0][1])}, p99 {latency(known[2][1])}")
        traces.append(_latency_trace(phase.op, points))
    if not traces:
        return None
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)) + 1e-9)
    ticks = [10.0**power for power in range(low, max(high, low + 1) + 1)]
    layout = layout_of(
        xaxis={
            "type": "category",
            "categoryarray": [name for _, name in PERCENTILES],
            "categoryorder": "array",
            "range": [-0.25, len(PERCENTILES) - 0.75],
            "showgrid": False,
            **plain_axis(),
        },
        yaxis={
            "type": "log",
            "range": [low - 0.04, max(high, low + 1) + 0.04],
            "tickvals": ticks,
            "ticktext": [_decade(tick) for tick in ticks],
            "automargin": True,
            "fixedrange": True,
            **rate_axis(),
        },
        hovermode="x unified",
    )
    title = "Latency of one block"
    return Chart(f"latency-{place}", title, f"{title}: {'; '.join(spoken)}.", 320, figure_of(traces, layout))


def _decade(microseconds: float) -> str:
    """A power of ten without the digits that a measured figure has."""
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if microseconds >= size:
            return f"{microseconds / size:g} {unit}"
    return f"{microseconds:g} µs"


def _latency_trace(op: str, points: Sequence[tuple[str, float]]) -> dict[str, Any]:
    symbols = {"write": "circle", "read": "square", "mixed": "diamond"}
    colour = COLOURS.get(op, "--muted")
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": op,
        "x": [name for name, _ in points],
        "y": [value for _, value in points],
        "text": [latency(value) for _, value in points],
        "line": {"color": colour, "width": 2},
        "marker": {"symbol": symbols.get(op, "x"), "size": 8, "color": colour},
        "hovertemplate": f"{op} %{{text}}<extra></extra>",
    }


def sweep_chart(sweeps: Sequence[Sweep], place: str) -> Chart | None:
    """Rate by number of streams, with the knee marked where there is one."""
    traces = [trace for sweep in sweeps if (trace := _sweep_trace(sweep))["x"]]
    if not traces:
        return None
    steps = sorted({streams for trace in traces for streams in trace["x"]})
    spread = steps[-1] >= 8 * max(steps[0], 1)
    ticks = {"tickvals": steps, "ticktext": [str(step) for step in steps]} if len(steps) <= 10 else {}
    xaxis = {"title": axis_title("streams"), "type": "log" if spread else "linear", **rate_axis()}
    yaxis = {"title": axis_title("MB/s"), "rangemode": "tozero", "automargin": True, "fixedrange": True}
    layout = layout_of(
        xaxis={**xaxis, "showgrid": False, **ticks}, yaxis={**yaxis, **rate_axis()}, hovermode="x unified"
    )
    said = [f"{sweep.op} peaks at {megabytes(sweep.peak_bytes_per_s)} MB/s" for sweep in sweeps]
    spoken = f"Rate by number of streams: {'; '.join(said)}."
    knees = any(sweep.knee_streams for sweep in sweeps)
    note = "The diamond is the knee: the fewest streams that reach 95 % of the peak." if knees else ""
    return Chart(f"sweep-{place}", "Rate by number of streams", spoken, 320, figure_of(traces, layout), note)


def _sweep_trace(sweep: Sweep) -> dict[str, Any]:
    colour = COLOURS.get(sweep.op, "--muted")
    points = [point for point in sweep.points if point.rate_bytes_per_s is not None]
    knees = [point.streams == sweep.knee_streams for point in points]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": sweep.op,
        "x": [point.streams for point in points],
        "y": [(point.rate_bytes_per_s or 0) / MB for point in points],
        "line": {"color": colour, "width": 2},
        "marker": {
            "size": [13 if knee else 7 for knee in knees],
            "symbol": ["diamond" if knee else "circle" for knee in knees],
            "color": colour,
            "opacity": 1,
        },
        "hovertemplate": f"{sweep.op} %{{y:,.4~g}} MB/s<extra></extra>",
    }
