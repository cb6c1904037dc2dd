"""Pages of predictions and plans: one self-contained HTML file each, the verdict first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gridwright.model.prediction import Prediction
from gridwright.plan.design import Design, Plan
from gridwright.report.chain_picture import Picture, chain_pictures
from gridwright.report.designs import tables
from gridwright.report.designs.charts import costs_chart, pareto_chart, plan_costs_chart, predicted_chart
from gridwright.report.designs.words import (
    cost_text,
    counted,
    dollars,
    finding_records,
    homes,
    monthly,
    resilience_text,
    size_text,
)
from gridwright.report.document import rendered
from gridwright.report.figures import count, listed, plain
from gridwright.report.plot import Chart
from gridwright.report.tables import Table

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


def prediction_page(prediction: Prediction) -> str:
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
        title=f"{outcome.headline}: {prediction.grid}",
        subject="prediction",
        facts=[("Grid", prediction.grid), *_facts(prediction)],
        outcome=outcome,
        overview=(),
        overview_tables=(),
        parts=(part,),
        after=(),
        explanation=None,
        findings=finding_records(prediction.findings),
    )


def plan_page(plan: Plan) -> str:
    """The page of a plan, as a whole HTML document that opens offline in light and dark."""
    charts = tuple(chart for chart in (pareto_chart(plan.designs), plan_costs_chart(plan.designs)) if chart)
    outcome = _planned(plan)
    after = [tables.neighbours_table(plan.neighbours)]
    if plan.explanation is not None:
        after.append(tables.explanation_table(plan.explanation))
    findings = [found for design in plan.designs[:DESIGNS_DRAWN] for found in design.prediction.findings]
    return rendered(
        _TEMPLATE,
        charts,
        _STYLES,
        title=f"{outcome.headline}: {plan.grid}",
        subject="plan",
        facts=[
            ("Grid", plan.grid),
            ("Candidates", count(plan.considered)),
            ("Took", f"{plain(plan.seconds)} s"),
        ],
        outcome=outcome,
        overview=charts,
        overview_tables=_plan_tables(plan),
        parts=[_design_part(rank, design) for rank, design in enumerate(plan.designs[:DESIGNS_DRAWN], 1)],
        after=[table for table in after if table],
        explanation=plan.explanation,
        findings=finding_records(dict.fromkeys(findings)),
    )


def _facts(prediction: Prediction) -> list[tuple[str, str]]:
    return [
        ("Size", f"{size_text(prediction)}, {counted(prediction.streams_per_node, 'stream')} on each"),
        ("Cost", cost_text(prediction.usd_per_hour)),
    ]


def _predicted(prediction: Prediction) -> DesignOutcome:
    missed = [library.library for library in prediction.libraries if library.met is False]
    if prediction.met is None:
        sentence = "Nothing is required of this grid, so nothing is judged."
        return DesignOutcome("unjudged", "Nothing required: no verdict", (sentence,))
    if prediction.met:
        sentence = "Every requirement is met by rates that last, not by bursts."
        return DesignOutcome("met", "Requirements met, as predicted", (sentence,))
    sentences = []
    if missed:
        binds = [
            rates.bound_by.resource
            for library in prediction.libraries
            if library.met is False
            for rates in library.rates.values()
        ]
        short = "fall" if len(missed) > 1 else "falls"
        sentences.append(f"{listed(missed)} {short} short, bound by {listed([*dict.fromkeys(binds)])}.")
    if prediction.together is not None and not prediction.together.met:
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
        tables.bill_table(prediction),
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
