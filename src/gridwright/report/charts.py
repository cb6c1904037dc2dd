"""The charts, as plotly figures in plain data.

A colour that starts with `--` names a custom property of the page's style sheet: the page resolves
it when it draws, so that charts follow light and dark and print on white. Text that comes from
outside is escaped, since plotly reads a little HTML in its labels.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from gridwright.report.figures import MB, finite, latency, megabytes, plain
from gridwright.report.timeline import Segment, Timeline
from gridwright.report.verdict import JUDGED, LibraryVerdict, Score
from gridwright.runs.records import PhaseRecord, Sweep

COLOURS = {"write": "--write", "read": "--read", "mixed": "--mixed"}
PERCENTILES = (("p50", "p50"), ("p95", "p95"), ("p99", "p99"), ("p99_9", "p99.9"), ("max", "max"))

_BEYOND = 1.04
"""The axis of the bars ends this much beyond the longest that counts."""
_FIGURES_WIDTH = 104
"""Pixels right of the bars, where their figures stand in a column and no mark crosses them."""


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart: its place on the page, what it says in words, and the figure."""

    name: str
    title: str
    spoken: str
    """For those who do not see it; the tables hold the same figures."""
    height: int
    figure: dict[str, Any]
    note: str = ""


def required_chart(libraries: Sequence[LibraryVerdict]) -> Chart | None:
    """Measured against required MB/s per core of every library, by write and by read."""
    shown = [library for library in libraries if any(score.rate is not None for score in library.scores)]
    if not shown:
        return None
    counted = [
        score.rate for library in shown for score in library.scores if score.rate and score.mark != "cached"
    ]
    bounds = [library.required for library in shown if library.required]
    every = [score.rate for library in shown for score in library.scores if score.rate]
    # A cached figure can be fifty times the others and counts for nothing: it may not set the scale.
    longest = max([*counted, *bounds] or every or [MB]) / MB
    traces = _score_bars(shown, longest)
    if bounds:
        traces.append(_required_marks(shown))
    layout = _layout(
        xaxis={"range": [0, longest * _BEYOND], "title": _title("MB/s per core"), **_axis()},
        yaxis={
            "autorange": "reversed",
            "automargin": True,
            "showgrid": False,
            "categoryorder": "array",
            "categoryarray": [_safe(library.library) for library in shown],
            **_plain_axis(),
        },
        annotations=[_bar_figure(score, i) for i, library in enumerate(shown) for score in library.scores],
        margin={"l": 16, "r": _FIGURES_WIDTH, "t": 8, "b": 16},
        barmode="group",
        bargap=0.32,
        bargroupgap=0.08,
        hovermode="closest",
    )
    cached = any(score.mark == "cached" for library in shown for score in library.scores)
    note = "A hatched bar came from the page cache and does not count; " if cached else ""
    note += "it is cut where it leaves the scale. " if max(every) / MB > longest else ""
    spoken = "; ".join(_spoken_library(library) for library in shown)
    title = "Measured against required, last-done MB/s per core"
    return Chart(
        "required", title, f"{title}: {spoken}.", 96 + 84 * len(shown), _figure(traces, layout), note.strip("; ")
    )


def _spoken_library(library: LibraryVerdict) -> str:
    scores = ", ".join(f"{score.op} {score.text} ({score.word})" for score in library.scores)
    return f"{library.library} requires {library.required_text}: {scores}"


def _score_bars(libraries: Sequence[LibraryVerdict], longest: float) -> list[dict[str, Any]]:
    """Bars by operation; the cached ones are traces of their own, so that the legend names them."""
    traces = []
    for position, op in enumerate(JUDGED):
        for cached in (False, True):
            scores = [
                (library.library, library.scores[position])
                for library in libraries
                if (library.scores[position].mark == "cached") == cached
            ]
            if any(score.rate is not None for _, score in scores):
                traces.append(_bars(op, scores, longest, cached))
    return traces


def _bars(op: str, scores: Sequence[tuple[str, Score]], longest: float, cached: bool) -> dict[str, Any]:
    colour = COLOURS[op]
    pattern = {"shape": "/", "fillmode": "overlay", "fgcolor": colour, "size": 8, "solidity": 0.25}
    end = longest * _BEYOND
    return {
        "type": "bar",
        "orientation": "h",
        "name": f"{op}, cached" if cached else op,
        "offsetgroup": op,
        "y": [_safe(library) for library, _ in scores],
        "x": [None if score.rate is None else min(score.rate / MB, end) for _, score in scores],
        "hovertext": [f"{op}: {score.text} MB/s per core, {score.word}" for _, score in scores],
        "hoverinfo": "text",
        "marker": {
            "color": "--card" if cached else colour,
            "line": {"color": colour, "width": 1.5},
            **({"pattern": pattern} if cached else {}),
        },
    }


def _bar_figure(score: Score, row: int) -> dict[str, Any]:
    """The figure of one bar; on a category axis a row is a number, and write is drawn above read."""
    word = {"missed": " · <b>missed</b>", "cached": " · cached"}.get(score.mark, "")
    return {
        "text": f"{score.text}{word}",
        "x": 1,
        "xref": "paper",
        "xanchor": "left",
        "xshift": 8,
        "y": row - 0.17 if score.op == "write" else row + 0.17,
        "yref": "y",
        "showarrow": False,
        "font": {"color": "--ink", "size": 13},
    }


def _required_marks(libraries: Sequence[LibraryVerdict]) -> dict[str, Any]:
    bound = [library for library in libraries if library.required]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "required",
        "y": [_safe(library.library) for library in bound],
        "x": [(library.required or 0) / MB for library in bound],
        "marker": {"symbol": "line-ns", "size": 50, "line": {"color": "--ink", "width": 3}},
        "hovertext": [f"required: {library.required_text} MB/s per core" for library in bound],
        "hoverinfo": "text",
        "cliponaxis": False,
    }


def time_chart(line: Timeline, required: float | None, phases: Sequence[PhaseRecord], place: str) -> Chart:
    """Read and written MB/s of one library, second by second, with the required rate of all cores."""
    unit, size = _time_unit(line.length)
    traces = [
        _side_trace(line, side, name, colour, size)
        for side, name, colour in (("written", "written", "--write"), ("read", "read", "--read"))
    ]
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
    layout = _layout(
        xaxis={"title": _title(f"{unit} since the first sample"), **_axis(), "showgrid": False},
        yaxis={
            "title": _title("MB/s"), "range": [0, top * 1.16], "fixedrange": True, "automargin": True, **_axis()
        },
        shapes=shapes,
        annotations=labels,
        hovermode="x unified",
    )
    ops = ", ".join(dict.fromkeys(segment.op for segment in line.segments))
    spoken = f"Throughput of {line.library} over {plain(line.length)} seconds, phases {ops}"
    nodes = f", {line.nodes} nodes together" if line.nodes > 1 else ""
    per_point = line.seconds_per_point
    note = f"Each point is the mean of {per_point} samples{nodes}." if per_point > 1 else ""
    note = note or (f"One point a second{nodes}." if nodes else "")
    return Chart(f"time-{place}", "Throughput over time", f"{spoken}.", 320, _figure(traces, layout), note)


def _time_unit(length: float) -> tuple[str, float]:
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
            name = f"{_safe(segment.op)}{' (cached)' if segment.op in cached else ''}"
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
    layout = _layout(
        xaxis={
            "type": "category",
            "categoryarray": [name for _, name in PERCENTILES],
            "categoryorder": "array",
            "range": [-0.25, len(PERCENTILES) - 0.75],
            "showgrid": False,
            **_plain_axis(),
        },
        yaxis={
            "type": "log",
            "range": [low - 0.04, max(high, low + 1) + 0.04],
            "tickvals": ticks,
            "ticktext": [_decade(tick) for tick in ticks],
            "automargin": True,
            "fixedrange": True,
            **_axis(),
        },
        hovermode="x unified",
    )
    title = "Latency of one block"
    return Chart(f"latency-{place}", title, f"{title}: {'; '.join(spoken)}.", 320, _figure(traces, layout))


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
    traces, labels, steps = [], [], set()
    for sweep in sweeps:
        points = [(p.streams, p.rate_bytes_per_s / MB) for p in sweep.points if p.rate_bytes_per_s is not None]
        if not points:
            continue
        steps |= {streams for streams, _ in points}
        colour = COLOURS.get(sweep.op, "--muted")
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": sweep.op,
                "x": [streams for streams, _ in points],
                "y": [rate for _, rate in points],
                "line": {"color": colour, "width": 2},
                "marker": {
                    "size": [13 if streams == sweep.knee_streams else 7 for streams, _ in points],
                    "symbol": ["diamond" if streams == sweep.knee_streams else "circle" for streams, _ in points],
                    "color": colour,
                },
                "hovertemplate": f"{sweep.op} %{{y:,.4~g}} MB/s<extra></extra>",
            }
        )
    if not traces:
        return None
    spread = max(steps) / max(min(steps), 1) >= 8
    ticks = {"tickvals": sorted(steps), "ticktext": [str(step) for step in sorted(steps)]}
    xaxis = {"title": _title("streams"), "type": "log" if spread else "linear", **_axis(), "showgrid": False}
    layout = _layout(
        xaxis={**xaxis, **(ticks if len(steps) <= 10 else {})},
        yaxis={"title": _title("MB/s"), "rangemode": "tozero", "automargin": True, "fixedrange": True, **_axis()},
        annotations=labels,
        hovermode="x unified",
    )
    said = [f"{sweep.op} peaks at {megabytes(sweep.peak_bytes_per_s)} MB/s" for sweep in sweeps]
    spoken = f"Rate by number of streams: {'; '.join(said)}."
    knees = any(sweep.knee_streams for sweep in sweeps)
    note = "The diamond is the knee: the fewest streams that reach 95 % of the peak." if knees else ""
    return Chart(f"sweep-{place}", "Rate by number of streams", spoken, 320, _figure(traces, layout), note)


def _safe(text: str) -> str:
    return escape(text, quote=False)


def _title(text: str) -> dict[str, Any]:
    return {"text": text, "font": {"color": "--muted", "size": 12}, "standoff": 8}


def _plain_axis() -> dict[str, Any]:
    return {
        "zeroline": False,
        "linecolor": "--line",
        "tickfont": {"color": "--ink"},
        "ticklabelstandoff": 6,
        "fixedrange": True,
    }


def _axis() -> dict[str, Any]:
    return {
        "zeroline": False,
        "gridcolor": "--line",
        "linecolor": "--line",
        "tickfont": {"color": "--muted"},
        "tickformat": ",",
    }


def _layout(**own: Any) -> dict[str, Any]:  # noqa: ANN401 - plotly's layout is untyped
    return {
        "margin": {"l": 16, "r": 16, "t": 8, "b": 16},
        "paper_bgcolor": "--card",
        "plot_bgcolor": "--card",
        "font": {"color": "--ink", "size": 13},
        "hoverlabel": {"bgcolor": "--card", "bordercolor": "--line", "font": {"color": "--ink"}},
        "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"},
        "showlegend": True,
        "dragmode": False,
        **own,
    }


def _figure(traces: list[dict[str, Any]], layout: dict[str, Any]) -> dict[str, Any]:
    layout["xaxis"]["automargin"] = True
    return {"data": traces, "layout": layout}
