"""Pages of predictions and plans: one self-contained HTML file each, the verdict first.

The table of layouts on pages of predictions and plans: what each library has, why, and its band.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from gridwright.filesystems.layout import ALL
from gridwright.model.costs import purchases
from gridwright.model.prediction import LibraryLayout, PlacedRates, Prediction
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
from gridwright.report.figures import ABSENT, count, listed, megabytes, plain
from gridwright.report.plot import Chart
from gridwright.report.table import Table, table_of
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
