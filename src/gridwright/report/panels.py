"""Charts of panels, one above the other over one axis of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gridwright.report.charts import time_unit
from gridwright.report.plot import axis_title, layout_of, rate_axis
from gridwright.report.workload.series import Span, Values

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
