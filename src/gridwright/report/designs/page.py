"""Pages of predictions, plans and predicted workloads: one HTML file each, the verdict first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, cast

from gridwright.filesystems.layout import ALL
from gridwright.model.costs import UsefulCost, purchases
from gridwright.model.prediction import LibraryLayout, PlacedRates, Prediction
from gridwright.model.workload_figures import LaunchPrediction, WorkloadPrediction
from gridwright.plan.design import Design, Plan
from gridwright.report.designs import tables
from gridwright.report.designs.charts import (
    Picture,
    chain_pictures,
    costs_chart,
    pareto_chart,
    plan_costs_chart,
    predicted_chart,
)
from gridwright.report.designs.words import (
    alike_layouts,
    at_once_text,
    cost_text,
    dollars,
    doubts,
    free_space_text,
    growth_texts,
    homes,
    margin_texts,
    monthly,
    rate_rows,
    resilience_text,
    size_text,
    streams_text,
)
from gridwright.report.document import ContentsEntry, contents_of, rendered
from gridwright.report.figures import ABSENT, MB, count, duration, listed, megabytes, plain, share
from gridwright.report.plot import Chart, safe
from gridwright.report.table import Table, table_of
from gridwright.report.workload.charts import Panel, PanelLine, launches_chart, panels_figure
from gridwright.report.workload.shares import Span, shares_chart, shares_table, time_shares
from gridwright.report.workload.tables import bound_words, minutes, predicted_tests, ratio
from gridwright.runs.launch_record import LaunchRecord
from gridwright.runs.records import finding_records

_PLACEMENTS = (
    "In 95 % and in half of all placements of files on OSTs, at least; in a row: where all files were made "
    "one after another"
)


def layouts_table(prediction: Prediction) -> Table | None:
    """Over how many OSTs files lie, and what all streams get together by how they happen to lie there.

    Below each layout that is not of one stripe stands what the same files would get with one.
    """
    rows = [
        (names, layout, placed, place)
        for names, layout in alike_layouts(prediction)
        for place, placed in enumerate(layout.placed or (None,))
    ]
    if not rows:
        return None
    table = table_of(
        "Layouts of files: what all streams of a library get together, in MB/s",
        rows,
        {
            "Library": lambda row: row[0],
            "Large files on": lambda row: _width(row[1], row[2]),
            "In 95 %": lambda row: megabytes(row[2].floor_bytes_per_s) if row[2] else ABSENT,
            "In half": lambda row: megabytes(row[2].median_bytes_per_s) if row[2] else ABSENT,
            "In a row": lambda row: megabytes(row[2].in_order_bytes_per_s) if row[2] else ABSENT,
            "All libraries busy": lambda row: _busy(row[1], row[3]),
            "Layout": lambda row: row[1].choice.layout.text if row[3] == 0 else "one OST a file instead",
            "Why": lambda row: row[1].choice.reason if row[3] == 0 else ABSENT,
        },
        "Large files on|Layout|Why",
    )
    notes = dict.fromkeys(note for layout in prediction.layouts.values() for note in _notes(layout))
    return replace(table, note="; ".join([_PLACEMENTS, *notes]))


def _notes(layout: LibraryLayout) -> Iterator[str]:
    """What is the same for all libraries on the same OSTs."""
    if layout.uneven is not None:
        yield f"{free_space_text(layout.uneven)}: new files go by free space"
    if layout.at_once is not None:
        yield at_once_text(layout.at_once)


def _busy(layout: LibraryLayout, place: int) -> str:
    return megabytes(layout.at_once.floor_bytes_per_s) if layout.at_once and place == 0 else ABSENT


def _width(layout: LibraryLayout, placed: PlacedRates | None) -> str:
    stripes = placed.stripes if placed else layout.choice.layout.components[-1].stripe_count
    if stripes == ALL:
        return "all OSTs"
    of = f" of {layout.targets}" if layout.targets else ""
    return f"{stripes}{of} OST{'s'[: (layout.targets or stripes) != 1]}"


DESIGNS_DRAWN = 10
"""Designs that get a part of the page of their own."""
_STYLES = ("report.css", "design.css")
_TEMPLATE = "design.html.j2"


@dataclass(frozen=True, slots=True)
class DesignOutcome:
    """What the page says first."""

    kind: Literal["met", "missed", "unjudged"]
    headline: str
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DesignPart:
    """One grid on the page."""

    title: str
    facts: tuple[tuple[str, str], ...]
    charts: tuple[Chart, ...]
    tables: tuple[Table, ...]
    pictures: tuple[Picture, ...]
    limits: Table
    folded: bool = False


def prediction_page(prediction: Prediction, heading: Mapping[str, str] | None = None) -> str:
    """The page of one grid, as a whole HTML document that opens offline in light and dark."""
    charts = (predicted_chart(prediction), costs_chart(prediction))
    shown = tuple(chart for chart in charts if chart)
    part = DesignPart(
        "What each library gets",
        (),
        shown,
        _prediction_tables(prediction),
        tuple(chain_pictures(prediction)),
        tables.limits_table(prediction),
    )
    outcome = _predicted(prediction)
    return rendered(
        _TEMPLATE,
        shown,
        _STYLES,
        title=f"{outcome.headline}: {_named(heading, prediction.grid)}",
        subject="prediction",
        heading=_named(heading, ""),
        facts=[*_for_whom(heading), ("Grid", prediction.grid), *_facts(prediction)],
        contents=_contents(False, False, (part,)),
        outcome=outcome,
        overview=(),
        overview_tables=(),
        parts=(part,),
        after=(),
        explanation=None,
        findings=finding_records(prediction.findings),
    )


def plan_page(plan: Plan, heading: Mapping[str, str] | None = None) -> str:
    """The page of a plan, as a whole HTML document that opens offline in light and dark."""
    charts = tuple(chart for chart in (pareto_chart(plan.designs), plan_costs_chart(plan.designs)) if chart)
    outcome = _planned(plan)
    after = [tables.neighbours_table(plan.neighbours, kept=bool(plan.kept))]
    if plan.explanation is not None:
        after.append(tables.explanation_table(plan.explanation))
    parts = [_design_part(rank, design) for rank, design in enumerate(plan.designs[:DESIGNS_DRAWN], 1)]
    findings = [finding for design in plan.designs[:DESIGNS_DRAWN] for finding in design.prediction.findings]
    return rendered(
        _TEMPLATE,
        charts,
        _STYLES,
        title=f"{outcome.headline}: {_named(heading, plan.grid)}",
        subject="plan",
        heading=_named(heading, ""),
        facts=[
            *_for_whom(heading),
            ("Grid", plan.grid),
            *((("Region", plan.region),) if plan.region else ()),
            *((("Prices of", plan.prices_of),) if plan.prices_of else ()),
            ("Candidates", count(plan.considered)),
            ("Took", f"{plain(plan.seconds)} s"),
        ],
        outcome=outcome,
        overview=charts,
        overview_tables=_plan_tables(plan),
        parts=parts,
        contents=_contents(bool(charts or plan.readings), any(after), parts),
        after=[table for table in after if table],
        explanation=plan.explanation,
        findings=finding_records(dict.fromkeys(findings)),
    )


def _named(heading: Mapping[str, str] | None, grid: str) -> str:
    return (heading or {}).get("title", grid)


def _for_whom(heading: Mapping[str, str] | None) -> list[tuple[str, str]]:
    given = heading or {}
    return [(name.capitalize(), given[name]) for name in ("customer", "site") if name in given]


def _contents(overview: bool, after: bool, parts: Sequence[DesignPart]) -> tuple[ContentsEntry, ...]:
    """The parts of the page in its order."""
    return contents_of(
        [
            ContentsEntry("Findings", "findings-title"),
            ContentsEntry("Overview", "overview-title") if overview else None,
            ContentsEntry("Why not another", "why-title") if after else None,
            *(ContentsEntry(part.title, f"part-{i}") for i, part in enumerate(parts, 1)),
            ContentsEntry("How to read the figures", "method-title"),
        ]
    )


def _facts(prediction: Prediction) -> list[tuple[str, str]]:
    return [
        ("Size", f"{size_text(prediction)}, {streams_text(prediction)}"),
        ("Cost", cost_text(prediction.usd_per_hour)),
    ]


def _predicted(prediction: Prediction) -> DesignOutcome:
    missed = [library.library for library in prediction.libraries if library.answer == "no"]
    if prediction.answer is None:
        sentence = "Nothing is required of this grid, so nothing is judged."
        return DesignOutcome("unjudged", "Nothing required: no verdict", (sentence,))
    if prediction.answer == "within the margin":
        headline = "Within the margin of error: neither met nor missed"
        said = (f"{each[0].upper()}{each[1:]}." for each in [*doubts(prediction), *margin_texts(prediction)])
        return DesignOutcome("unjudged", headline, tuple(said))
    if prediction.answer == "yes":
        sentence = "Every requirement is met by sustained rates, by more than their margin of error."
        return DesignOutcome("met", "Requirements met, as predicted", (sentence,))
    sentences = []
    if missed:
        # Of several groups those that get too little are named: what binds all may leave others enough.
        binds = [
            row.rates.bound_by.resource
            for row in rate_rows(prediction)
            if row.answer == "no" and (row.group or not row.library.groups)
        ]
        short = "fall" if len(missed) > 1 else "falls"
        sentences.append(f"{listed(missed)} {short} short, bound by {listed([*dict.fromkeys(binds)])}.")
    if prediction.together is not None and prediction.together.answer == "no":
        sentences.append("With all libraries busy at once, too little is left for each.")
    return DesignOutcome(
        "missed",
        "Requirements missed, as predicted",
        tuple(sentences) or ("The findings below say what is missed.",),
    )


def _planned(plan: Plan) -> DesignOutcome:
    if not plan.designs:
        sentences = plan.impossible or ("No candidate meets all requirements.",)
        return DesignOutcome("missed", "No design meets the requirements", sentences)
    first = plan.designs[0]
    meets = "1 design meets" if len(plan.designs) == 1 else f"{count(len(plan.designs))} designs meet"
    cost = f"{dollars(first.usd_per_hour)} USD per hour, {monthly(first.usd_per_hour)} per month"
    cheapest = f"The cheapest: {first.title}, {cost}."
    return DesignOutcome("met", f"{meets} the requirements", (cheapest, *plan.impossible))


def _prediction_tables(prediction: Prediction) -> tuple[Table, ...]:
    found = (
        tables.rates_table(prediction),
        tables.together_table(prediction.together),
        tables.bursts_table(prediction),
        layouts_table(prediction),
        *map(tables.service_table, prediction.services),
        tables.bill_table(prediction),
        tables.purchases_table(bought) if (bought := purchases(prediction.costs)) else None,
    )
    return tuple(table for table in found if table)


def _plan_tables(plan: Plan) -> Sequence[Table]:
    found = [tables.readings_table(plan.readings)] if plan.readings else []
    return [*found, tables.designs_table(plan.designs)] if plan.designs else found


def _design_part(rank: int, design: Design) -> DesignPart:
    facts = (
        ("Cost", cost_text(design.usd_per_hour)),
        ("Size", size_text(design.prediction)),
        *((names, home) for names, home in homes(design)),
        ("Resilience", f"{resilience_text(design)}: {design.survives}"),
        *((("Growth", "; ".join(growth_texts(design))),) if design.growth else ()),
        ("Pareto front", "on it" if design.front else "not on it"),
    )
    return DesignPart(
        f"{rank}. {design.title}",
        facts,
        (),
        _prediction_tables(design.prediction),
        tuple(chain_pictures(design.prediction)),
        tables.limits_table(design.prediction),
        folded=rank > 1,
    )


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
        _busy_resources(prediction),
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


def _busy_resources(prediction: WorkloadPrediction) -> Table | None:
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
