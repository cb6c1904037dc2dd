"""The charts of the mixed workload over time: libraries, launches at once, and every launch.

Panels stand one above the other over one axis of time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gridwright.report.charts import time_unit
from gridwright.report.figures import MB, finite, listed, plain, seconds, share
from gridwright.report.plot import Chart, axis_title, layout_of, rate_axis, safe
from gridwright.report.workload.shares import Series, Span, Values, times_of
from gridwright.report.workload.tables import bound_words, ratio
from gridwright.runs.launch_record import LaunchRecord

CLASSES = ("io", "memory", "computation", "command")
_LINES = (
    ("read", "read_bytes", "--read", "solid"),
    ("written", "written_bytes", "--write", "solid"),
    ("device read", "device_read_bytes", "--read", "dot"),
    ("device written", "device_written_bytes", "--write", "dot"),
)
_ROW = 20
_TALLEST = 460
"""Pixels of all streams together: with more of them the rows become thinner."""
_LOWEST = 60
_POINTED = 3000
"""With more launches than this, bars do not tell their figures: the page would be huge."""
_REASON = 120
_NAME = 28
_TAIL = "The dotted line is where the first stream had run out of launches; from there on the load wanes."


def throughput_chart(series: Series, tail: float | None) -> Chart | None:
    """What the tests moved to and from each library, and what the device below it moved."""
    panels = [panel for name, sides in series.libraries.items() if (panel := _library(name, sides))]
    if not panels:
        return None
    figure, height = panels_figure(panels, series.span, mark=tail, legend=True)
    names = listed(list(series.libraries))
    spoken = f"Throughput of {names} over {plain(series.span.length)} seconds of the mixed workload."
    notes = ["Solid: what the tests read and wrote, from memory or not."]
    if any(line.dash == "dot" for panel in panels for line in panel.lines):
        notes.append(
            "Dotted: what the device below moved; libraries on one device each show all that it moved."
        )
    notes += _scale_notes(series, tail)
    return Chart("workload-rates", "Throughput of the libraries", spoken, height, figure, " ".join(notes))


def _library(name: str, sides: dict[str, Values]) -> Panel | None:
    lines = []
    for title, key, colour, dash in _LINES:
        rates = tuple(None if value is None else value / MB for value in sides[key])
        if _drawable(rates):
            text = f"{safe(name)} {title} %{{y:,.4~g}} MB/s<extra></extra>"
            lines.append(PanelLine(title, rates, colour, text, dash, 1.5 if dash == "dot" else 2))
    return Panel(f"<b>{safe(_short(name))}</b>, MB/s", tuple(lines)) if lines else None


def _short(name: str) -> str:
    """A name that does not leave a narrow screen."""
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"


def _drawable(values: Values) -> bool:
    """A single point makes no line."""
    return sum(value is not None for value in values) > 1


def _scale_notes(series: Series, tail: float | None) -> list[str]:
    notes = []
    if series.span.bin_s > 1:
        notes.append(f"Each point is the mean of {series.span.bin_s} s.")
    if series.nodes > 1:
        notes.append(f"{series.nodes} nodes together.")
    if tail is not None:
        notes.append(_TAIL)
    return notes


def running_chart(series: Series, tail: float | None) -> Chart | None:
    """How many launches ran at once, and how busy the nodes' CPUs were."""
    panels = []
    if _drawable(series.running):
        line = PanelLine("running", series.running, "--mixed", "%{y:,.3~g} launches at once<extra></extra>")
        panels.append(Panel("<b>Launches</b> at once", (line,)))
    if _drawable(series.cpu_percent):
        line = PanelLine("CPU", series.cpu_percent, "--ink", "CPU %{y:.0f} %<extra></extra>")
        panels.append(Panel("<b>CPU</b>, % of all", (line,), least=100.0))
    if not panels:
        return None
    figure, height = panels_figure(panels, series.span, mark=tail, legend=False)
    most = max([value for value in series.running if value is not None] or [0.0])
    spoken = f"Launches at once, {plain(most)} at most, and CPU use over time."
    notes = [_TAIL] if tail is not None else []
    return Chart("workload-running", "Launches at once and CPU", spoken, height, figure, " ".join(notes))


def launches_chart(launches: Sequence[LaunchRecord], span: Span, tail: float | None) -> Chart | None:
    """Every launch as a bar in the row of its stream; failed ones carry a cross."""
    known = times_of(launches)
    if not known:
        return None
    unit, size = time_unit(span.length)
    streams = [launch.stream for launch, _, _ in known]
    rows = max(streams) - min(streams) + 1
    inner = min(max(rows * _ROW, _LOWEST), _TALLEST)
    bars = {name: [item for item in known if item[0].class_ == name] for name in CLASSES}
    thick = inner / rows >= 6
    told = len(known) <= _POINTED
    traces = [_bars(name, items, span, thick, told) for name, items in bars.items() if items]
    failed = [item for item in known if not item[0].ok]
    if failed:
        traces.append(_crosses(failed, span, min(11.0, max(7.0, 0.7 * inner / rows))))
    layout = layout_of(
        xaxis={**time_axis(span), "title": axis_title(f"{unit} since the workload began")},
        yaxis={
            "range": [max(streams) + 0.5, min(streams) - 0.5],
            "title": axis_title("stream"),
            "fixedrange": True,
            **({"dtick": 1} if inner / rows >= 14 else {"nticks": 10}),
            **rate_axis(),
            "showgrid": False,
        },
        margin={"l": LEFT, "r": 16, "t": 40, "b": 52},
        legend={
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "y": 1 + 6 / inner,
            "yanchor": "bottom",
            "itemsizing": "constant",
        },
        barmode="overlay",
        hovermode="closest",
        shapes=[] if tail is None else [mark_line((tail - span.start) / size)],
    )
    spoken = f"{len(known)} launches in {len(set(streams))} streams over time, {len(failed)} of them failed."
    return Chart(
        "workload-launches",
        "Launches by stream",
        spoken,
        inner + 92,
        {"data": traces, "layout": layout},
        _launch_note(len(launches) - len(known), failed=bool(failed), told=told),
    )


def _launch_note(untimed: int, *, failed: bool, told: bool) -> str:
    pointed = "; point at it for its figures" if told else ""
    notes = [f"A bar is a launch, coloured by the class of its test{pointed}."]
    if failed:
        notes.append("A cross marks a launch that failed.")
    if untimed:
        notes.append(f"{untimed} without a known begin or end are not drawn.")
    return " ".join(notes)


Timed = tuple[LaunchRecord, float, float]


def _bars(name: str, items: Sequence[Timed], span: Span, thick: bool, told: bool) -> dict[str, Any]:
    _, size = time_unit(span.length)
    # A gap of about a pixel tells a bar from the next, and no bar is too short to be seen.
    gap = span.length / 900 if thick else 0.0
    lengths = [max(end - begin - gap, 0.5 * (end - begin), span.length / 1200) for _, begin, end in items]
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "y": [launch.stream for launch, _, _ in items],
        "base": [round((begin - span.start) / size, 4) for _, begin, _ in items],
        "x": [round(length / size, 4) for length in lengths],
        "width": 0.78 if thick else 1,
        "marker": {"color": f"--class-{name}", "line": {"width": 0}},
        **({"hovertext": [launch_text(launch) for launch, _, _ in items]} if told else {}),
        "hoverinfo": "text" if told else "skip",
    }


def _crosses(items: Sequence[Timed], span: Span, diameter: float) -> dict[str, Any]:
    _, size = time_unit(span.length)
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "failed",
        "x": [round(((begin + end) / 2 - span.start) / size, 4) for _, begin, end in items],
        "y": [launch.stream for launch, _, _ in items],
        "marker": {
            "symbol": "x",
            "size": diameter,
            "color": "--missed",
            "opacity": 1,
            "line": {"color": "--card", "width": 1},
        },
        "hovertext": [launch_text(launch) for launch, _, _ in items],
        "hoverinfo": "text",
        "cliponaxis": False,
    }


def launch_text(launch: LaunchRecord) -> str:
    """A launch in the hover: test, times, ratio, what held it, and why it failed."""
    place = f" on {safe(launch.node)}" if launch.job else ""
    lines = [f"<b>{safe(launch.test)}</b> (launch {launch.number}){place}"]
    lines.append(f"{seconds(launch.real_s)} real, CPU/real {ratio(launch.cpu_real_ratio)}")
    if launch.bound_by:
        part = f", {share(launch.bound_share)} of it" if finite(launch.bound_share) is not None else ""
        lines.append(f"bound by {bound_words(launch.bound_by)}{part}")
    if not launch.ok:
        reason = launch.reason or "no reason known"
        short = reason if len(reason) <= _REASON else f"{reason[: _REASON - 1]}…"
        lines.append(f"failed: {safe(short)}")
    return "<br>".join(lines)


LEFT = 64
"""Pixels left of every chart over time: with the same for all, a moment stands on one line."""
_PANEL = 104
_GAP = 30
_ABOVE = 56
"""Pixels for the legend and the name of the first panel."""
_BELOW = 52


@dataclass(frozen=True, slots=True)
class PanelLine:
    """One line of a panel; `text` is its unit in the hover."""

    name: str
    values: Values
    colour: str
    text: str
    dash: str = "solid"
    width: float = 2


@dataclass(frozen=True, slots=True)
class Panel:
    """Some lines under one name, which is safe to be read by plotly."""

    title: str
    lines: tuple[PanelLine, ...]
    least: float = 1.0
    """The axis reaches at least this far."""


def panels_figure(
    panels: Sequence[Panel], span: Span, *, mark: float | None, legend: bool
) -> tuple[dict[str, Any], int]:
    """The figure and its height; `mark` (Unix time) gets a dotted line through all panels."""
    unit, size = time_unit(span.length)
    inner = len(panels) * _PANEL + (len(panels) - 1) * _GAP
    times = [round(middle / size, 4) for middle in span.middles]
    traces: list[dict[str, Any]] = []
    layout = layout_of(
        xaxis={
            **time_axis(span),
            "title": axis_title(f"{unit} since the workload began"),
            "unifiedhovertitle": {"text": f"%{{x:.4~g}} {unit}"},
        },
        margin={"l": LEFT, "r": 16, "t": _ABOVE if legend else _GAP, "b": _BELOW},
        hovermode="x unified",
        hoversubplots="axis",
        annotations=[],
        showlegend=legend,
        legend=_legend(inner),
        shapes=[] if mark is None else [mark_line((mark - span.start) / size)],
    )
    named: set[str] = set()
    for i, panel in enumerate(panels):
        number = "" if i == 0 else str(i + 1)
        top = 1 - i * (_PANEL + _GAP) / inner
        layout[f"yaxis{number}"] = _rates_axis(panel, [max(top - _PANEL / inner, 0.0), top])
        layout["annotations"].append(_panel_name(panel.title, top))
        for line in panel.lines:
            traces.append(_trace(line, times, f"y{number}", shown=line.name not in named))
            named.add(line.name)
    height = inner + (_ABOVE if legend else _GAP) + _BELOW
    return {"data": traces, "layout": layout}, height


def time_axis(span: Span) -> dict[str, Any]:
    """The axis of time below a chart, from the first sample or launch to the last."""
    _, size = time_unit(span.length)
    axis = {"range": [0, span.length / size], "showgrid": False, "anchor": "free", "position": 0}
    return {**axis, "fixedrange": True, "nticks": 8, **rate_axis()}


def mark_line(at: float) -> dict[str, Any]:
    """A dotted line from the top of a chart to its foot."""
    ends = {"type": "line", "xref": "x", "yref": "paper", "x0": at, "x1": at, "y0": 0, "y1": 1}
    return {**ends, "line": {"color": "--muted", "width": 1.5, "dash": "dot"}}


def _legend(inner: int) -> dict[str, Any]:
    """Above the name of the first panel."""
    return {"orientation": "h", "x": 0, "xanchor": "left", "y": 1 + 22 / inner, "yanchor": "bottom"}


def _rates_axis(panel: Panel, domain: list[float]) -> dict[str, Any]:
    top = max([value for line in panel.lines for value in line.values if value is not None] or [0.0])
    return {
        "domain": domain,
        "range": [0, max(top * 1.06, panel.least)],
        "nticks": 4,
        "fixedrange": True,
        **rate_axis(),
    }


def _panel_name(title: str, top: float) -> dict[str, Any]:
    at = {"x": 0, "xref": "paper", "xanchor": "left", "y": top, "yref": "paper", "yanchor": "bottom"}
    return {**at, "text": title, "showarrow": False, "font": {"color": "--ink", "size": 13}}


def _trace(line: PanelLine, times: list[float], axis: str, *, shown: bool) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": line.name,
        "legendgroup": line.name,
        "showlegend": shown,
        "x": times,
        "y": [None if value is None else round(value, 3) for value in line.values],
        "yaxis": axis,
        "line": {"color": line.colour, "width": line.width, "dash": line.dash},
        "connectgaps": False,
        "hovertemplate": line.text,
    }
