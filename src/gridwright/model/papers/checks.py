"""Compares the model with every published figure: predicted, published, error, and a summary by paper."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gridwright.catalog import Catalog, load_catalog
from gridwright.model.papers.figures import (
    PAPERS,
    Advice,
    PaperConfiguration,
    PublishedFigure,
    Role,
    Unit,
    advice,
    configurations,
    published_figures,
    reasons,
)
from gridwright.model.papers.predicted import NotPredicted, PaperGrids, predict_figure
from gridwright.model.workload import WorkloadMatrix
from gridwright.runs.profiles import Profiles

INSTANCE_TABLE = "002"
"""The paper whose figures are of single instances, with limits that are listed one by one."""
LIMITS: Mapping[str, float] = {INSTANCE_TABLE: 0.05}
LIMIT = 0.15
"""The median absolute error that the model has to reach, and from where on a single miss is explained."""


@dataclass(frozen=True, slots=True)
class PaperRow:
    """One figure, both values in `unit`.

    `predicted` is None where a fact is missing. `error` is relative to the published value, with its sign.
    `why` says why it was missed, why there is no prediction, or why it does not count.
    """

    paper: str
    configuration: str
    fact_id: str
    quantity: str
    unit: Unit
    predicted: float | None
    published: float
    error: float | None
    role: Role
    why: str

    @property
    def missed(self) -> bool:
        """Whether the error is larger than what the median has to reach."""
        return self.error is not None and abs(self.error) > LIMITS.get(self.paper, LIMIT)

    @property
    def repeats(self) -> bool:
        """Whether it is another figure over again, such as that of a node for each core."""
        return self.role == "context" and self.why == reasons()["repeats"]


@dataclass(frozen=True, slots=True)
class PaperSummary:
    """Absolute errors of a paper's checks, or of several papers'. Figures are None where it has none.

    `p90_error` is the smallest error that nine tenths of them do not exceed. `not_predicted` counts checks
    for which a fact is missing.
    """

    paper: str
    count: int
    median_error: float | None
    p90_error: float | None
    worst_error: float | None
    not_predicted: int


@dataclass(frozen=True, slots=True)
class PapersCheck:
    """All figures, the summary of each paper, and those of the instance table and of all other papers."""

    rows: tuple[PaperRow, ...]
    papers: tuple[PaperSummary, ...]
    instance_table: PaperSummary
    others: PaperSummary
    configurations: tuple[PaperConfiguration, ...]
    advice: tuple[Advice, ...]

    def of(self, *roles: Role) -> tuple[PaperRow, ...]:
        """The rows with one of these roles."""
        return tuple(row for row in self.rows if row.role in roles)

    @property
    def missed(self) -> tuple[PaperRow, ...]:
        """Checks whose error is larger than what the median has to reach."""
        return tuple(row for row in self.of("check") if row.missed)


def check_papers(
    catalog: Catalog | None = None,
    matrices: Mapping[str, WorkloadMatrix] | None = None,
    profiles: Profiles | None = None,
) -> PapersCheck:
    """Predict every published figure from listed facts alone.

    `matrices` has `mixed-30` and `mixed-20` by name; CPU/real ratios are predicted where they are given,
    from `profiles`, by default those that come with Gridwright.
    """
    grids = PaperGrids(catalog or load_catalog(), matrices or {}, profiles)
    rows = tuple(_row(figure, grids) for figure in published_figures())
    others = [row for row in rows if row.paper != INSTANCE_TABLE]
    return PapersCheck(
        rows,
        tuple(_summary(paper, (row for row in rows if row.paper == paper)) for paper in PAPERS),
        _summary(INSTANCE_TABLE, (row for row in rows if row.paper == INSTANCE_TABLE)),
        _summary(", ".join(paper for paper in PAPERS if paper != INSTANCE_TABLE), others),
        tuple(configurations().values()),
        advice(),
    )


def _row(figure: PublishedFigure, grids: PaperGrids) -> PaperRow:
    why = reasons().get(figure.reason, "")
    predicted: float | None = None
    try:
        predicted = predict_figure(figure, grids)
    except NotPredicted as missing:
        why = str(missing)
    return PaperRow(
        figure.paper,
        figure.configuration,
        figure.fact_id,
        figure.quantity,
        figure.unit,
        predicted,
        figure.value,
        None if predicted is None else predicted / figure.value - 1,
        figure.role,
        why,
    )


def _summary(paper: str, rows: Iterable[PaperRow]) -> PaperSummary:
    checks = [row for row in rows if row.role == "check"]
    errors = sorted(abs(row.error) for row in checks if row.error is not None)
    without = len(checks) - len(errors)
    if not errors:
        return PaperSummary(paper, 0, None, None, None, without)
    ninth = errors[math.ceil(0.9 * len(errors)) - 1]
    return PaperSummary(paper, len(errors), statistics.median(errors), ninth, errors[-1], without)


def papers_document(check: PapersCheck) -> dict[str, Any]:
    """What `gridwright predict --papers --json` prints; its keys are a contract."""
    return {
        "papers": [_summary_document(each) for each in check.papers],
        "reach": [
            {**_summary_document(check.instance_table), "at_most": LIMITS[INSTANCE_TABLE]},
            {**_summary_document(check.others), "at_most": LIMIT},
        ],
        "rows": [
            {
                "paper": row.paper,
                "configuration": row.configuration,
                "fact_id": row.fact_id,
                "quantity": row.quantity,
                "unit": row.unit,
                "predicted": row.predicted,
                "published": row.published,
                "error": row.error,
                "role": row.role,
                "note": row.why,
            }
            for row in check.rows
        ],
    }


def _summary_document(summary: PaperSummary) -> dict[str, Any]:
    return {
        "paper": summary.paper,
        "median_error": summary.median_error,
        "p90_error": summary.p90_error,
        "worst_error": summary.worst_error,
        "count": summary.count,
        "not_predicted": summary.not_predicted,
    }
