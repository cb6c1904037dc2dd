"""The page of a grid's usage: core-hours by day, and who used how much, as one file that opens offline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gridwright.report.document import rendered
from gridwright.report.plot import Chart, axis_title, figure_of, layout_of, plain_axis, rate_axis, safe
from gridwright.report.table import Table

_COLOURS = ("--write", "--read", "--mixed", "--muted", "--ink")
MOST_SHOWN = 4
"""Groups that have a colour of their own; the rest is one more."""
OTHERS = "all others"


def usage_page(
    *,
    grid: str,
    by: str,
    period: str,
    days: Sequence[str],
    core_hours: Mapping[str, Mapping[str, float]],
    table: Table,
) -> str:
    """One HTML file.

    `core_hours` has those of each group by the day, the largest group first; `days` are all days of the
    period; `table` has a row for each group, and the total last.
    """
    chart = chart_of(by, days, core_hours)
    total = sum(sum(each.values()) for each in core_hours.values())
    return rendered(
        "usage.html.j2",
        [chart] if chart else [],
        title=f"Usage of grid {grid}",
        grid=grid,
        period=period,
        headline=f"{total:,.1f} core-hours",
        chart=chart,
        table=table,
    )


def chart_of(by: str, days: Sequence[str], core_hours: Mapping[str, Mapping[str, float]]) -> Chart | None:
    """Stacked bars of core-hours by day; None where there is nothing to draw."""
    if not days or not core_hours:
        return None
    names = list(core_hours)
    shown = {name: core_hours[name] for name in names[:MOST_SHOWN]}
    if rest := names[MOST_SHOWN:]:
        shown[OTHERS] = {day: sum(core_hours[name].get(day, 0.0) for name in rest) for day in days}
    traces = [
        {
            "type": "bar",
            "name": safe(name),
            "x": list(days),
            "y": [round(hours.get(day, 0.0), 6) for day in days],
            "marker": {"color": colour},
            "hovertemplate": "%{y:,.2f} core-hours on %{x}<extra>" + safe(name) + "</extra>",
        }
        for (name, hours), colour in zip(shown.items(), _COLOURS, strict=False)
    ]
    layout = layout_of(
        barmode="stack",
        legend={
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "y": 1.02,
            "yanchor": "bottom",
            "traceorder": "normal",
        },
        xaxis={**plain_axis(), "type": "category"},
        yaxis={**rate_axis(), "title": axis_title("core-hours"), "automargin": True, "rangemode": "tozero"},
    )
    words = by.replace("-", " ")
    return Chart(
        "usage",
        f"Core-hours by {words}, by the day on which jobs ended",
        f"Stacked bars of the core-hours of each {words}, one bar a day; the table has the sums.",
        360,
        figure_of(traces, layout),
    )
