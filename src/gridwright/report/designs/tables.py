"""Tables of predictions and plans, for pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gridwright.model.costs import Purchase
from gridwright.model.prediction import Answer, Prediction, ServicePrediction, Together
from gridwright.plan.design import Design, DesignExplanation, Fits, Neighbour, RequirementReading
from gridwright.report.designs.charts import MARK_OF
from gridwright.report.designs.words import (
    PURCHASE_WORDS,
    SERVICE_HEADINGS,
    answer_word,
    binding,
    burst_text,
    dollars,
    groups,
    homes,
    monthly,
    next_text,
    nodes_text,
    per_core,
    rate_rows,
    resilience_text,
    service_notes,
    service_rows,
    service_title,
)
from gridwright.report.figures import ABSENT, count, megabytes, required, share
from gridwright.report.table import Cell, Table, columns_of, rows_table, table_of
from gridwright.units import counted

DESIGNS_LISTED = 100
"""Designs in the table of a plan; the chart has all."""
_FITS: dict[Fits, Cell] = {
    "yes": Cell("yes", "met"),
    "no": Cell("no", "missed"),
    "open": Cell("open", "unjudged"),
    "alternative": Cell("not needed", "unjudged", style="dim"),
}

_STYLES: dict[Answer, str] = {"within the margin": "bold yellow"}


def _met(answer: Answer | None) -> Cell:
    if answer is None:
        return Cell(ABSENT)
    return Cell(answer_word(answer), MARK_OF[answer], style=_STYLES.get(answer, ""))


def rates_table(prediction: Prediction) -> Table:
    """Each library alone: what lasts, what is required, and what binds."""
    return table_of(
        "Sustained rates, each library alone, in MB/s",
        rate_rows(prediction),
        {
            "Library": lambda row: row.name,
            "Operation": lambda row: row.operation,
            "Required per core": lambda row: required(row.library.requires_bytes_per_s_per_core),
            "Per core": lambda row: per_core(row.library, row.rates),
            "Per node": lambda row: megabytes(row.rates.bytes_per_s_per_node),
            "In all": lambda row: megabytes(row.rates.bytes_per_s),
            "Met": lambda row: _met(row.answer),
            "Bound by": lambda row: row.rates.bound_by.resource,
            "Next, above the rate": lambda row: next_text(row.rates),
        },
        "Operation|Met|Bound by|Next, above the rate",
    )


def limits_table(prediction: Prediction) -> Table:
    """Every limit on the route of every library, from the tightest on, with the source of its capacity."""
    rows = [
        (names, operation, place, bound)
        for names, library in groups(prediction.libraries)
        for operation, rates in library.rates.items()
        for place, bound in enumerate(rates.chain)
    ]
    table = table_of(
        "Every limit, with its source",
        rows,
        {
            "Library": lambda row: row[0],
            "Operation": lambda row: row[1],
            "Limit": lambda row: row[3].resource,
            "MB/s in all": lambda row: megabytes(row[3].bytes_per_s),
            "Role": lambda row: ("binds", "next", ABSENT)[min(row[2], 2)],
            "What it is": lambda row: row[3].what,
            "Source": lambda row: row[3].source or ABSENT,
        },
        "Operation|Limit|Role|What it is|Source",
    )
    return replace(table, folded=True)


def bursts_table(prediction: Prediction) -> Table | None:
    """What goes through while bursts last; requirements are not judged by it."""
    rows = [
        (library.library, operation, burst)
        for library in prediction.libraries
        for operation, rates in library.rates.items()
        if (burst := rates.burst) is not None
    ]
    if not rows:
        return None
    return table_of(
        "Bursts, in MB/s; requirements are judged by sustained rates",
        rows,
        {
            "Library": lambda row: row[0],
            "Operation": lambda row: row[1],
            "Per core": lambda row: megabytes(row[2].bytes_per_s / prediction.cores),
            "In all": lambda row: megabytes(row[2].bytes_per_s),
            "How long": lambda row: burst_text(row[2]),
            "Bound by": lambda row: row[2].bound_by.resource,
        },
        "Operation|How long|Bound by",
    )


def together_table(together: Together | None) -> Table | None:
    """All libraries busy at once."""
    if together is None:
        return None
    rows = [(operation, part, together.bound_by[operation]) for operation, part in together.share.items()]
    required = f"{together.required_share * 100:.3g} %"
    table = table_of(
        "All libraries at once: the part of its requirement that the worst-served one gets",
        rows,
        {
            "Operation": lambda row: row[0],
            "Gets": lambda row: share(row[1]),
            "Must be there": lambda _: required,
            "Met": lambda row: _met(together.answer_of(row[0])),
            "Bound by": lambda row: row[2].resource if row[2] else "nothing",
        },
        "Met|Bound by",
    )
    factor = together.peak_factor
    note = f"The peak factor ({factor.reason}): {factor.source}"
    return replace(table, note=note)


def service_table(service: ServicePrediction) -> Table:
    """A managed file system: what it delivers, what nodes get of it, and reads and writes at once."""
    first, *others = SERVICE_HEADINGS
    note = f"{'; '.join(service_notes(service))}."
    return rows_table(service_title(service), columns_of([first], others), service_rows(service), note=note)


def bill_table(prediction: Prediction) -> Table | None:
    """The bill by line."""
    if not prediction.costs:
        return None
    lines = [(cost.what, cost.usd_per_hour) for cost in prediction.costs]
    table = table_of(
        "The bill, in USD",
        [*lines, ("In all", prediction.usd_per_hour)],
        {
            "What": lambda row: row[0],
            "Per hour": lambda row: dollars(row[1]),
            "Per month of 730 h": lambda row: monthly(row[1]),
        },
    )
    unknown = any(usd is None for _, usd in lines)
    note = (
        f"{ABSENT} is a price that is not known; without it the sum is not known either." if unknown else ""
    )
    return replace(table, note=note)


def purchases_table(found: Sequence[Purchase]) -> Table:
    """The same grid, bought otherwise than on demand."""
    table = table_of(
        "The same grid bought otherwise, in USD",
        found,
        {
            "What": lambda row: PURCHASE_WORDS[row.option],
            "Per hour": lambda row: dollars(row.usd_per_hour),
            "Per month of 730 h": lambda row: monthly(row.usd_per_hour),
            "Of on demand": lambda row: f"{row.part:.0%}",
        },
        "What",
    )
    return replace(table, note=f"Factors: {'; '.join(sorted({purchase.source for purchase in found}))}.")


def readings_table(readings: Sequence[RequirementReading]) -> Table:
    """How the planner read what is required."""
    return table_of(
        "Requirements, as they were read",
        readings,
        {"What": lambda r: r.what, "Read as": lambda r: r.value, "Where from": lambda r: r.source},
        "Read as|Where from",
    )


def designs_table(designs: Sequence[Design]) -> Table:
    """All designs, cheapest first."""
    table = table_of(
        "Designs that meet the requirements, cheapest first",
        [*enumerate(designs[:DESIGNS_LISTED], start=1)],
        {
            "Rank": lambda row: count(row[0]),
            "Nodes": lambda row: nodes_text(row[1]),
            "Where libraries live": lambda row: "; ".join(
                f"{names} on {home}" for names, home in homes(row[1])
            ),
            "USD per hour": lambda row: dollars(row[1].usd_per_hour),
            "USD per month": lambda row: monthly(row[1].usd_per_hour),
            "MB/s per core": lambda row: megabytes(row[1].bytes_per_s_per_core),
            "Binds": lambda row: binding(row[1]),
            "Resilience": lambda row: resilience_text(row[1]),
            "Pareto front": lambda row: "on it" if row[1].front else ABSENT,
        },
        "Nodes|Where libraries live|Binds|Pareto front",
    )
    more = len(designs) - DESIGNS_LISTED
    return table if more <= 0 else replace(table, note=f"{counted(more, 'dearer design')} more: see --json.")


def neighbours_table(neighbours: Sequence[Neighbour], *, kept: bool = False) -> Table | None:
    """Designs beside the cheapest one, and why each is no better; where parts are `kept` one may be."""
    if not neighbours:
        return None
    why = "How it differs" if kept else "Why it is no better"
    return table_of(
        f"Beside the cheapest design, and {'how each differs' if kept else 'why each is no better'}",
        neighbours,
        {
            "Design": lambda n: n.title,
            "Change": lambda n: n.change,
            why: lambda n: n.why,
            "USD per hour": lambda n: dollars(n.usd_per_hour),
        },
        f"Change|{why}",
    )


def explanation_table(explanation: DesignExplanation) -> Table:
    """One instance type against every requirement."""
    return table_of(
        f"{explanation.instance} against each requirement",
        explanation.fits,
        {
            "Requirement": lambda fit: fit.requirement,
            "Provided": lambda fit: fit.provided,
            "Required": lambda fit: fit.required,
            "Fits": lambda fit: _FITS[fit.fits],
        },
        "Provided|Required|Fits",
    )
