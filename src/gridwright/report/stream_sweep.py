"""The page of a sweep: the answer first, then the curve, its steps, and how it was found.

The charts of a sweep: CPU/real ratio, work done and time of a launch, by number of streams.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gridwright.errors import GRAVEST_FIRST
from gridwright.report.document import rendered
from gridwright.report.figures import clock, count, duration, plain, seconds, share
from gridwright.report.plot import Chart, axis_title, figure_of, layout_of, plain_axis, rate_axis, safe
from gridwright.report.table import Table, columns_of, rows_table
from gridwright.report.tables import facts
from gridwright.runs.records import RunRecord
from gridwright.runs.stream_sweep import CurvePoint, StreamSweepRecord, SweepStep, binding_words, jobs

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
    for cause, waited in point.waits_s.items():
        part = part_of_cause(cause)
        found[part] = found.get(part, 0.0) + waited
    return {part: total for part, total in found.items() if total > 0.0}


def sweep_charts(record: StreamSweepRecord) -> tuple[Chart, ...]:
    """All that can be drawn."""
    drawn = (_ratios(record), _work(record), _charts_times(record))
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


def _charts_times(record: StreamSweepRecord) -> Chart | None:
    points = [point for point in record.curve if point.waits_s]
    if not points:
        return None
    parts = [by_part(point) for point in points]
    names = [name for name in PARTS if any(name in part for part in parts)]
    traces = [
        {
            "type": "bar",
            "name": PARTS[name][0],
            "x": [count(point.streams) for point in points],
            "y": [part.get(name, 0.0) for part in parts],
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
    for stream in streams:
        last = found[-1] if found else 0
        if not found or (stream >= 1.25 * last if spread else stream - last >= streams[-1] / 24):
            found.append(stream)
    return found


def _knee_note(record: StreamSweepRecord) -> str:
    marks = ["A cross is a number of streams that does not hold."]
    if record.carries:
        marks.insert(0, "The diamond is what the grid carries.")
    return " ".join(marks)


def sweep_page(record: StreamSweepRecord, run: RunRecord | None = None, repeat_command: str = "") -> str:
    """One HTML file that opens offline; `run` is None for a sweep that was predicted."""
    charts = sweep_charts(record)
    subject = "sweep of the workload" if record.command == "workload" else "predicted sweep of the workload"
    return rendered(
        "sweep.html.j2",
        charts,
        title=f"{headline(record)} – {record.grid}",  # noqa: RUF001 - a dash as type has it
        subject=subject,
        heading=run.heading.get("title", "") if run else "",
        look=_look(record),
        headline=headline(record),
        answer=record.answer,
        rule=record.rule,
        facts=_facts(record, run),
        drawn=charts,
        tables=[table for table in (curve_table(record), _times(record), _steps(record)) if table],
        findings=sorted(record.findings, key=lambda finding: GRAVEST_FIRST[finding.level]),
        environment=_environment(run),
        run=run,
        assumptions=record.assumptions,
        predicted=record.command == "predict",
        repeat_command=repeat_command,
    )


def headline(record: StreamSweepRecord) -> str:
    """The answer in a few words."""
    if record.ended_by is None:
        return "Still running"
    if record.carries is None:
        return "Not proven"
    if record.carries == 0:
        return f"Not even one job: {binding_words(record.binds)}"
    return f"{'At least ' if record.at_least else ''}{jobs(record.carries)}"


def _look(record: StreamSweepRecord) -> str:
    """What colour the answer has: nothing is met or missed by a sweep."""
    if record.ended_by is None:
        return "running"
    if record.ended_by in ("interrupted", "failed"):
        return record.ended_by
    if record.carries is None or record.ended_by == "disturbed":
        return "unproven"
    return "missed" if record.carries == 0 else "unrequired" if record.at_least else "answered"


def _facts(record: StreamSweepRecord, run: RunRecord | None) -> list[tuple[str, str]]:
    pairs = [
        ("Grid", record.grid),
        ("Matrix", record.matrix),
        ("Scale", record.scale or ""),
        ("Least CPU/real", "" if record.required_ratio is None else f"{record.required_ratio:.2f}"),
        ("Steps", count(len(record.steps))),
    ]
    if run is not None:
        pairs += [
            ("Customer", run.heading.get("customer", "")),
            ("Site", run.heading.get("site", "")),
            ("Started", clock(run.started)),
            ("Host", run.host.hostname),
            ("Gridwright", run.software.get("gridwright", "")),
        ]
    return [(name, text) for name, text in pairs if text]


def _environment(run: RunRecord | None) -> list[tuple[str, tuple[tuple[str, str], ...]]]:
    if run is None:
        return []
    return [("Host", facts(run.host.model_dump())), ("Software", facts(dict(run.software)))]


def curve_table(record: StreamSweepRecord) -> Table | None:
    """Each number of streams, and whether it holds."""
    if not record.curve:
        return None
    columns = columns_of((), ("Streams", "Steps", "CPU/real", "Launches/h", "Wall time"), "Verdict")
    return rows_table("Numbers of streams (medians over their steps)", columns, map(curve_row, record.curve))


def curve_row(point: CurvePoint) -> tuple[str, ...]:
    """The cells of a number of streams."""
    return (
        count(point.streams),
        count(point.steps),
        ratio_text(point.ratio),
        plain(point.launches_per_hour),
        duration(point.wall_s),
        verdict_text(point),
    )


def ratio_text(ratio: float | None) -> str:
    """A CPU/real ratio, to three digits: what is required is compared to as many."""
    return plain(None) if ratio is None else f"{ratio:.3f}"


def verdict_text(point: CurvePoint) -> str:
    """Whether a number of streams holds, and why not."""
    word = {True: "holds", False: "too many", None: "not judged"}[point.held]
    return f"{word}: {point.why}" if point.why else word


def _times(record: StreamSweepRecord) -> Table | None:
    """The time of a launch by what it went to."""
    points = [point for point in record.curve if point.waits_s]
    parts = [by_part(point) for point in points]
    names = [name for name in PARTS if any(name in part for part in parts)]
    if not names:
        return None
    return rows_table(
        "Mean time of a launch by what it went to, in seconds",
        columns_of((), ("Streams", *(PARTS[name][0] for name in names))),
        (
            (count(point.streams), *(plain(each.get(name, 0.0)) for name in names))
            for point, each in zip(points, parts, strict=True)
        ),
    )


def _steps(record: StreamSweepRecord) -> Table | None:
    """Each step as it was run; those that were predicted are the curve itself."""
    if record.command == "predict" or not record.steps:
        return None
    figures = ("Step", "Streams", "CPU/real", "Failed", "Wall time", "Queued")
    return rows_table(
        "Steps in the order in which they were run",
        columns_of((), figures, "Largest wait", "Disturbed by", "Run"),
        ((str(number), *_step(step)) for number, step in enumerate(record.steps, start=1)),
        note="Run is the step's own run directory, with its report, in that of the sweep.",
    )


def _step(step: SweepStep) -> tuple[str, ...]:
    waited = {cause: part for cause, part in step.shares.items() if cause != "cpu"}
    largest = max(waited, key=lambda cause: waited[cause], default=None)
    return (
        count(step.streams),
        ratio_text(step.ratio),
        count(step.failed),
        duration(step.wall_s),
        seconds(step.queued_s_mean),
        f"{largest} {share(waited[largest])}" if largest else plain(None),
        step.disturbed or plain(None),
        step.run or plain(None),
    )
