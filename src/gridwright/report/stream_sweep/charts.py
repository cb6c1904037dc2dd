"""The charts of a sweep: CPU/real ratio, work done and time of a launch, by number of streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gridwright.report.figures import count, plain
from gridwright.report.plot import Chart, axis_title, figure_of, layout_of, plain_axis, rate_axis, safe
from gridwright.runs.stream_sweep.record import CurvePoint, StreamSweepRecord

_HEIGHT = 320
PARTS: Mapping[str, tuple[str, str]] = {
    "cpu": ("computing", "--other-edge"),
    "core": ("waiting for a core", "--mixed"),
    "data": ("waiting for data", "--read"),
    "work": ("waiting for work", "--write"),
    "util": ("waiting for util", "--met-edge"),
    "memory": ("stalled on memory", "--missed-edge"),
    "other": ("waiting for something else", "--line"),
}
"""What a launch's time goes to: its words and its colour."""


def part_of_cause(cause: str) -> str:
    """`data` for `data read`: both ways of a library are one."""
    return cause.split(maxsplit=1)[0]


def by_part(point: CurvePoint) -> dict[str, float]:
    """Seconds of a launch by what they went to, in the order of the chart."""
    found = dict.fromkeys(PARTS, 0.0)
    for cause, seconds in point.waits_s.items():
        part = part_of_cause(cause)
        found[part] = found.get(part, 0.0) + seconds
    return {part: seconds for part, seconds in found.items() if seconds > 0.0}


def sweep_charts(record: StreamSweepRecord) -> tuple[Chart, ...]:
    """All that can be drawn."""
    drawn = (_ratios(record), _work(record), _times(record))
    return tuple(chart for chart in drawn if chart is not None)


def _ratios(record: StreamSweepRecord) -> Chart | None:
    points = [point for point in record.curve if point.ratio is not None]
    if not points:
        return None
    traces = [_line("CPU/real", points, [point.ratio for point in points], "--write", record.carries, ".2f")]
    top = max(point.ratio or 0.0 for point in points)
    if record.required_ratio is not None:
        ends = [points[0].streams, points[-1].streams]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": "least",
                "x": ends if ends[0] != ends[1] else [0, ends[1] * 2],
                "y": [record.required_ratio] * 2,
                "line": {"color": "--ink", "width": 1.5, "dash": "dash"},
                "hoverinfo": "skip",
            }
        )
        top = max(top, record.required_ratio)
    said = ", ".join(f"{point.ratio:.2f} with {count(point.streams)}" for point in points)
    return _chart(
        "sweep-ratio", "CPU/real ratio by streams", f"CPU/real ratio by streams: {said}.", traces, points,
        "CPU/real", top, _knee_note(record),
    )  # fmt: skip


def _work(record: StreamSweepRecord) -> Chart | None:
    points = [point for point in record.curve if point.launches_per_hour is not None]
    if not points:
        return None
    rates = [point.launches_per_hour for point in points]
    traces = [_line("launches per hour", points, rates, "--read", record.carries, ",.4~g")]
    said = ", ".join(f"{plain(point.launches_per_hour)} with {count(point.streams)}" for point in points)
    top = max(rate or 0.0 for rate in rates)
    title = "Work done by streams"
    spoken = f"Launches per hour by streams: {said}."
    return _chart("sweep-work", title, spoken, traces, points, "launches per hour", top, "")


def _times(record: StreamSweepRecord) -> Chart | None:
    points = [point for point in record.curve if point.waits_s]
    if not points:
        return None
    parts = [by_part(point) for point in points]
    names = [name for name in PARTS if any(name in each for each in parts)]
    traces = [
        {
            "type": "bar",
            "name": PARTS[name][0],
            "x": [count(point.streams) for point in points],
            "y": [each.get(name, 0.0) for each in parts],
            "marker": {"color": PARTS[name][1]},
            "hovertemplate": f"{PARTS[name][0]} %{{y:,.3~g}} s<extra></extra>",
        }
        for name in names
    ]
    layout = layout_of(
        barmode="stack",
        xaxis={"title": axis_title("streams"), "type": "category", "showgrid": False, **plain_axis()},
        yaxis={"title": axis_title("seconds"), "automargin": True, "fixedrange": True, **rate_axis()},
        hovermode="x unified",
        legend={"orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"},
    )
    spoken = "Mean time of a launch by what it went to, for each number of streams."
    figure = figure_of(traces, layout)
    return Chart("sweep-time", "Time of a launch by what it went to", spoken, _HEIGHT + 40, figure)


def _line(
    name: str,
    points: Sequence[CurvePoint],
    values: Sequence[float | None],
    colour: str,
    carries: int | None,
    form: str,
) -> dict[str, Any]:
    """A line whose markers say how each number of streams stands."""
    symbols = {True: "circle", False: "x", None: "circle-open"}
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": [point.streams for point in points],
        "y": list(values),
        "line": {"color": colour, "width": 2},
        "marker": {
            "size": [13 if point.streams == carries else 9 for point in points],
            "symbol": ["diamond" if point.streams == carries else symbols[point.held] for point in points],
            "color": colour,
            "opacity": 1,
        },
        "hovertemplate": f"{safe(name)} %{{y:{form}}}<extra></extra>",
    }


def _chart(
    name: str,
    title: str,
    spoken: str,
    traces: list[dict[str, Any]],
    points: Sequence[CurvePoint],
    unit: str,
    top: float,
    note: str,
) -> Chart:
    streams = [point.streams for point in points]
    spread = streams[-1] >= 8 * streams[0]
    named = _apart(streams, spread=spread)
    ticks = {"tickvals": named, "ticktext": [count(each) for each in named]}
    xaxis = {"title": axis_title("streams"), "type": "log" if spread else "linear", **rate_axis()}
    yaxis = {"title": axis_title(unit), "range": [0, top * 1.12], "automargin": True, "fixedrange": True}
    layout = layout_of(
        xaxis={**xaxis, "showgrid": False, **ticks}, yaxis={**yaxis, **rate_axis()}, hovermode="x unified"
    )
    return Chart(name, title, spoken, _HEIGHT, figure_of(traces, layout), note)


def _apart(streams: Sequence[int], *, spread: bool) -> list[int]:
    """Those of the numbers that have room for their names on the axis."""
    found: list[int] = []
    for each in streams:
        last = found[-1] if found else 0
        if not found or (each >= 1.25 * last if spread else each - last >= streams[-1] / 24):
            found.append(each)
    return found


def _knee_note(record: StreamSweepRecord) -> str:
    marks = ["A cross is a number of streams that does not hold."]
    if record.carries:
        marks.insert(0, "The diamond is what the grid carries.")
    return " ".join(marks)
