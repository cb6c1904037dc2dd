"""The mixed workload's section of the page.

How the CPU/real ratios of single launches spread: the mean alone hides what waits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from gridwright.report.figures import ABSENT, count, duration, fact, finite, label, plain, seconds
from gridwright.report.plot import Chart, axis_title, layout_of, rate_axis
from gridwright.report.table import Table
from gridwright.report.tables import repeats_table
from gridwright.report.workload import charts, tables
from gridwright.report.workload.nodes import nodes_chart, nodes_table
from gridwright.report.workload.shares import (
    own_samples,
    series_of,
    shares_chart,
    shares_table,
    span_of,
    tail_of,
    time_shares,
)
from gridwright.report.workload.tables import imported, ratio
from gridwright.runs.launch_record import LaunchRecord
from gridwright.runs.samples import SampleRow
from gridwright.runs.workload_record import WorkloadRecord
from gridwright.units import format_bytes

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


Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class WorkloadPart:
    """What the page shows of a mixed workload."""

    diagnosis: str
    facts: Pairs
    in_all: tuple[Table, ...]
    shares: Chart | None
    ratios: Chart | None
    nodes: Chart | None
    over_time: tuple[Chart, ...]
    tables: tuple[Table, ...]
    imported: bool
    """Read from logs, and not measured by Gridwright."""

    @property
    def charts(self) -> tuple[Chart, ...]:
        """All charts, in the order of the page."""
        return (*(each for each in (self.shares, self.ratios, self.nodes) if each), *self.over_time)


def workload_part(record: WorkloadRecord, samples: Sequence[SampleRow]) -> WorkloadPart:
    """Tables and charts of a workload; what is not known has none."""
    own = own_samples(samples)
    span = span_of(own, record.launches)
    drawn: list[Chart | None] = []
    if span:
        # All streams of a workload that was stopped end at once: there is no tail to mark.
        tail = tail_of(record.launches) if record.status == "complete" else None
        series = series_of(own, record.launches, span)
        drawn.append(charts.throughput_chart(series, tail))
        drawn.append(charts.running_chart(series, tail))
        drawn.append(charts.launches_chart(record.launches, span, tail))
    shares = time_shares(record.launches)
    held = [
        nodes_table(record.nodes),
        tables.tests(record.tests),
        repeats_table(record.repeats, "Test"),
        shares_table(shares),
        tables.failed(record.launches),
        tables.refused(record.refused),
        tables.steps(record.launches),
        tables.launches(record.launches, span.start if span else None),
    ]
    return WorkloadPart(
        diagnosis=record.summary.diagnosis or "",
        facts=_facts(record),
        in_all=(tables.in_all(record.summary), tables.published()) if record.summary.launches else (),
        shares=shares_chart(shares),
        ratios=ratio_chart(record.launches, record.summary.ratio_mean),
        nodes=nodes_chart(record.nodes, record.launches),
        over_time=tuple(chart for chart in drawn if chart),
        tables=tuple(table for table in held if table),
        imported=imported(record),
    )


def _facts(record: WorkloadRecord) -> Pairs:
    summary = record.summary
    pairs = (
        ("Matrix", record.matrix or ABSENT),
        ("Scale", record.scale or ABSENT),
        ("Seed", ABSENT if record.seed is None else str(record.seed)),
        ("Blocks", ABSENT if record.block_bytes is None else format_bytes(record.block_bytes)),
        ("Streams", count(record.streams)),
        ("Repeats", count(record.repeats[0].ran) if record.repeats else ABSENT),
        ("Launches", count(summary.launches)),
        ("Failed", count(summary.failed)),
        ("Wall time", duration(summary.wall_s)),
        ("At once, mean of the whole run", plain(summary.mean_concurrency)),
        ("At once, until the tail", plain(summary.mean_concurrency_until_tail)),
        *jobs_facts(record),
    )
    return tuple((name, text) for name, text in pairs if text != ABSENT)


def jobs_facts(record: WorkloadRecord) -> Pairs:
    """What running the launches as jobs of a scheduler cost; nothing where they were none."""
    if record.summary.queued_s_mean is None:
        return ()
    return (
        ("Nodes", count(len(record.nodes))),
        ("From one launch of a stream to the next", seconds(record.summary.harness_s_mean)),
        ("From handing a job in to its launch", seconds(record.summary.queued_s_mean)),
    )


def data_facts(record: WorkloadRecord | None) -> Pairs:
    """The data set of the workload, one plain fact each."""
    pairs = []
    for key, value in (record.data if record and record.data else {}).items():
        if key.endswith("_s") and finite(value) is not None:
            pairs.append((label(key.removesuffix("_s")), seconds(value)))
        elif isinstance(value, str | int | float) and value != "":
            pairs.append((label(key), fact(key, value)))
    return tuple(pairs)
