"""The page of a predicted workload: what holds its launches back, and how they follow each other."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, cast

from gridwright.model.costs import UsefulCost
from gridwright.model.workload_figures import LaunchPrediction, WorkloadPrediction
from gridwright.report.document import ContentsEntry, contents_of, rendered
from gridwright.report.figures import ABSENT, MB, count, duration, megabytes, plain, share
from gridwright.report.plot import Chart, safe
from gridwright.report.table import Table, table_of
from gridwright.report.workload.charts import Panel, PanelLine, launches_chart, panels_figure
from gridwright.report.workload.series import Span
from gridwright.report.workload.shares import shares_chart, shares_table, time_shares
from gridwright.report.workload.tables import bound_words, minutes, predicted_tests, ratio
from gridwright.runs.launch_record import LaunchRecord
from gridwright.runs.records import finding_records

_STYLES = ("report.css", "design.css")
_LEAST = 0.005
"""What was busy for less of the time is left out."""


class _Bins(Span):
    """An axis of time in the bins of a prediction, of `bin_s` seconds each."""

    def __init__(self, bins: int, seconds: float) -> None:
        super().__init__(0.0, bins * seconds)
        object.__setattr__(self, "_each", seconds)
        object.__setattr__(self, "_bins", bins)

    @cached_property
    def edges(self) -> tuple[tuple[float, float], ...]:
        """Begin and end of each bin."""
        each, bins = self.__dict__["_each"], self.__dict__["_bins"]
        return tuple((i * each, (i + 1) * each) for i in range(bins))


def workload_prediction_page(
    grid: str,
    matrix: str,
    prediction: WorkloadPrediction,
    cost: UsefulCost,
    heading: Mapping[str, str] | None = None,
) -> str:
    """The page of a predicted workload, as a whole HTML document that opens offline in light and dark."""
    heading = heading or {}
    launches = launch_records(prediction)
    shares = time_shares(launches)
    span = Span(0.0, max(prediction.elapsed_s, 1e-3))
    found = (shares_chart(shares), _throughput(prediction), launches_chart(launches, span, None))
    charts = tuple(chart for chart in found if chart)
    tables = (
        _in_all(prediction),
        _cost(cost),
        predicted_tests(prediction.tests),
        shares_table(shares),
        _busy(prediction),
    )
    return rendered(
        "workload_design.html.j2",
        charts,
        _STYLES,
        title=f"{heading.get('title', 'Workload predicted')}: {grid}",
        subject="workload prediction",
        heading=heading.get("title", ""),
        facts=[
            *((name.capitalize(), heading[name]) for name in ("customer", "site") if name in heading),
            ("Grid", grid),
            ("Matrix", matrix),
            ("Launches", count(len(prediction.launches))),
            *_cost_facts(cost),
        ],
        headline=f"{matrix} takes {duration(prediction.elapsed_s)}, as predicted",
        sentences=[*_sentences(prediction), *_cost_sentences(cost)],
        contents=contents_of(
            [
                ContentsEntry("Findings", "findings-title"),
                ContentsEntry("Where the time goes", "overview-title"),
                ContentsEntry("Assumed", "assumed-title"),
                ContentsEntry("How to read the figures", "method-title"),
            ]
        ),
        findings=finding_records(prediction.findings),
        drawn=charts,
        tables=[table for table in tables if table],
        assumptions=prediction.assumptions,
    )


def launch_records(prediction: WorkloadPrediction) -> list[LaunchRecord]:
    """The predicted launches as records of a run, which the charts of a run take.

    Streams count on over the nodes; times are in seconds since the start.
    """
    classes = {test.test: test.class_ for test in prediction.tests}
    places = sorted({(launch.node, launch.stream) for launch in prediction.launches})
    rows = {place: row for row, place in enumerate(places, 1)}
    return [
        _record(number, launch, classes[launch.test], rows[(launch.node, launch.stream)])
        for number, launch in enumerate(prediction.launches, 1)
    ]


def _record(number: int, launch: LaunchPrediction, class_: str, stream: int) -> LaunchRecord:
    bound: Any = launch.bound_by
    return LaunchRecord(
        number=number,
        test=launch.test,
        class_=cast("Any", class_),
        stream=stream,
        node=str(launch.node),
        started=launch.start_s,
        ended=launch.end_s,
        real_s=launch.real_s,
        cpu_real_ratio=launch.ratio,
        bound_by=bound,
        bound_share=launch.shares.get(bound) if bound else None,
        shares=dict(launch.shares),
        ok=True,
    )


def _sentences(prediction: WorkloadPrediction) -> list[str]:
    causes = [
        f"{bound_words(name) if name != 'cpu' else 'computing'} {share(part)}"
        for name, part in sorted(prediction.shares.items(), key=lambda each: -each[1])
        if part >= _LEAST
    ]
    return [
        f"{count(len(prediction.launches))} launches, {plain(prediction.mean_concurrency)} at once on "
        f"average; their CPU/real ratio is {ratio(prediction.ratio_mean)} (mean of the launches), "
        f"{ratio(prediction.ratio_of_sums)} (of the sums).",
        f"What takes the real time: {', '.join(causes) or 'nothing'}.",
    ]


def _cost_facts(cost: UsefulCost) -> list[tuple[str, str]]:
    if cost.usd_per_useful_core_hour is None:
        return []
    return [("Useful core-hour", f"{cost.usd_per_useful_core_hour:.4f} USD")]


def _cost_sentences(cost: UsefulCost) -> list[str]:
    """What work costs; nothing where a price is missing."""
    useful, run = cost.usd_per_useful_core_hour, cost.usd_per_cpu_hour
    if useful is None:
        return []
    said = [
        f"A useful core-hour costs {useful:.4f} USD: {cost.usd_per_core_hour:.4f} USD for the core-hour, by "
        "CPU/real of the sums, with a job on every core."
    ]
    if run is not None:
        said.append(
            f"Of this very run an hour of CPU time costs {run:.4f} USD; cores without a job make it dearer."
        )
    return said


def _cost(cost: UsefulCost) -> Table | None:
    if cost.usd_per_hour is None:
        return None

    def usd(figure: float | None) -> str:
        return ABSENT if figure is None else f"{figure:,.4f}"

    return table_of(
        "What work costs, in USD",
        [cost],
        {
            "Cost": lambda _: "Predicted",
            "Grid, per hour": lambda c: usd(c.usd_per_hour),
            "Core-hour": lambda c: usd(c.usd_per_core_hour),
            "Useful core-hour": lambda c: usd(c.usd_per_useful_core_hour),
            "Hour of CPU time in this run": lambda c: usd(c.usd_per_cpu_hour),
        },
    )


def _throughput(prediction: WorkloadPrediction) -> Chart | None:
    """MB/s of every library over time, a panel each."""
    moved = {name: rates for name, rates in prediction.rates.items() if any(rates)}
    if not moved or prediction.bin_s <= 0:
        return None
    bins = max(len(rates) for rates in moved.values())
    libraries: dict[str, list[PanelLine]] = {}
    for name, rates in moved.items():
        library, _, operation = name.partition(" ")
        values = tuple(rate / MB for rate in (*rates, *[0.0] * (bins - len(rates))))
        colour = "--write" if operation == "write" else "--read" if operation == "read" else "--mixed"
        text = f"{safe(name)} %{{y:,.4~g}} MB/s<extra></extra>"
        libraries.setdefault(library, []).append(PanelLine(operation or "both", values, colour, text))
    panels = [Panel(f"<b>{safe(name)}</b>, MB/s", tuple(lines)) for name, lines in libraries.items()]
    figure, height = panels_figure(panels, _Bins(bins, prediction.bin_s), mark=None, legend=True)
    peaks = ", ".join(f"{name} at most {megabytes(max(rates))} MB/s" for name, rates in moved.items())
    return Chart(
        "predicted-rates", "Throughput of the libraries", f"Throughput over time: {peaks}.", height, figure
    )


def _in_all(prediction: WorkloadPrediction) -> Table:
    return table_of(
        "In all",
        [prediction],
        {
            "Workload": lambda _: "Predicted",
            "Launches": lambda p: count(len(p.launches)),
            "From first start to last end": lambda p: duration(p.elapsed_s),
            "Real min": lambda p: minutes(p.real_s),
            "CPU min": lambda p: minutes(p.cpu_s),
            "At once, mean": lambda p: plain(p.mean_concurrency),
            "Ratio mean": lambda p: ratio(p.ratio_mean),
            "Range": lambda p: f"{ratio(p.ratio_min)} to {ratio(p.ratio_max)}",
            "Ratio of the sums": lambda p: ratio(p.ratio_of_sums),
        },
    )


def _busy(prediction: WorkloadPrediction) -> Table | None:
    rows = sorted(prediction.utilisation.items(), key=lambda each: -each[1])
    shown = [row for row in rows if row[1] >= _LEAST]
    if not shown:
        return None
    bound = prediction.resources
    return table_of(
        "How busy each resource is on average, and how much of the launches' time it binds",
        shown,
        {
            "Resource": lambda row: row[0],
            "Busy": lambda row: share(row[1]),
            "Binds": lambda row: share(bound[row[0]]) if row[0] in bound else ABSENT,
        },
    )
