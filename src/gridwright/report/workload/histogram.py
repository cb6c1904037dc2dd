"""How the CPU/real ratios of single launches spread: the mean alone hides what waits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from gridwright.report.figures import finite
from gridwright.report.plot import Chart, axis_title, layout_of, rate_axis
from gridwright.report.workload.tables import ratio
from gridwright.runs.launch_record import LaunchRecord

_BARS = 24
_STEPS = (0.05, 0.1, 0.2, 0.25, 0.5, 1.0, 2.0, 2.5, 5.0, 10.0)
_FAR = 3.0
"""Ratios more than this many times above the 95th percentile fall into the last bar."""


def ratio_chart(launches: Sequence[LaunchRecord], mean: float | None) -> Chart | None:
    """Launches by CPU/real ratio, those that failed on top, with the mean marked."""
    known = [
        (value, launch.ok) for launch in launches if (value := finite(launch.cpu_real_ratio)) is not None
    ]
    if not known:
        return None
    marked = finite(mean) if finite(mean) is not None else fmean(value for value, _ in known)
    end, step, cut = _scale([value for value, _ in known])
    bars = max(1, round(end / step))
    well, failed = ([value for value, ok in known if ok is wanted] for wanted in (True, False))
    traces = [_bars("ended well", well, bars, step, "--mixed")] if well else []
    if failed:
        traces.append(_bars("failed", failed, bars, step, "--missed"))
    tallest = max(sum(counts) for counts in zip(*(trace["y"] for trace in traces), strict=True))
    right = end * 1.02
    layout = layout_of(
        xaxis={
            "title": axis_title("CPU/real"),
            "range": [0, right],
            "fixedrange": True,
            "nticks": 8,
            "automargin": True,
            **rate_axis(),
            "showgrid": False,
        },
        yaxis={
            "title": axis_title("launches"),
            "rangemode": "tozero",
            "automargin": True,
            "fixedrange": True,
            **({"dtick": 1} if tallest <= 6 else {"nticks": 6}),
            **rate_axis(),
        },
        barmode="stack",
        bargap=0,
        hovermode="closest",
        showlegend=bool(failed),
        # Above the mean's label, which may stand anywhere along the top.
        legend={"orientation": "h", "x": 0, "xanchor": "left", "y": 1.14, "yanchor": "bottom"},
        margin={"l": 16, "r": 16, "t": 28, "b": 16},
        **_mean_mark(min(marked or 0.0, right), marked, right),
    )
    spoken = f"CPU/real ratios of {len(known)} launches: mean {ratio(marked)}"
    low, high = min(value for value, _ in known), max(value for value, _ in known)
    note = f"The last bar holds all from {ratio(end - step)} to {ratio(high)}." if cut else ""
    return Chart(
        "workload-ratios",
        "CPU/real ratio of single launches",
        f"{spoken}, from {ratio(low)} to {ratio(high)}.",
        260,
        {"data": traces, "layout": layout},
        note,
    )


def _scale(values: Sequence[float]) -> tuple[float, float, bool]:
    """Where the axis ends, the width of a bar, and whether the last bar holds what is beyond."""
    ordered = sorted(values)
    usual = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    most = max(ordered[-1], 0.05)
    cut = usual > 0 and most > _FAR * usual
    reach = max(_FAR * usual, 0.05) if cut else most
    step = next((step for step in _STEPS if reach / step <= _BARS), reach / _BARS)
    # One exactly on the edge belongs to the bar that begins there.
    return (math.floor(reach / step + 1e-9) + 1) * step, step, cut


def _bars(name: str, values: Sequence[float], bars: int, step: float, colour: str) -> dict[str, Any]:
    counts = [0] * bars
    for value in values:
        counts[min(max(int(value / step + 1e-9), 0), bars - 1)] += 1
    pattern = {"shape": "x", "fillmode": "overlay", "fgcolor": "--card", "size": 7, "solidity": 0.25}
    return {
        "type": "bar",
        "name": name,
        "x": [round((i + 0.5) * step, 4) for i in range(bars)],
        "y": counts,
        "width": step * 0.92,
        "marker": {"color": colour, **({"pattern": pattern} if name == "failed" else {})},
        "hovertext": [
            f"{ratio(i * step)} to {ratio((i + 1) * step)}: {counts[i]} {name}" for i in range(bars)
        ],
        "hoverinfo": "text",
    }


def _mean_mark(at: float, mean: float | None, right: float) -> dict[str, Any]:
    line = {"type": "line", "xref": "x", "yref": "paper", "x0": at, "x1": at, "y0": 0, "y1": 1}
    far = at > 0.8 * right
    text = {
        "text": f"<b>mean {ratio(mean)}</b>",
        "x": at,
        "xref": "x",
        "xanchor": "right" if far else "left",
        "xshift": -4 if far else 4,
        "y": 1,
        "yref": "paper",
        "yanchor": "bottom",
        "showarrow": False,
        "font": {"color": "--ink", "size": 13},
    }
    return {
        "shapes": [{**line, "line": {"color": "--ink", "width": 2}}],
        "annotations": [text],
    }
