"""Compares the model with every published figure: predicted, published, error, and a summary by paper."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gridwright.catalog import Catalog, load_catalog
from gridwright.model.margins import KINDS, Kind, Margin
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
    `why` says why it was missed, why there is no prediction, or why it does not count. `kind` is what
    bound it.
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
    kind: Kind | None = None

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
    kind: Kind | None = None
    try:
        predicted, kind = predict_figure(figure, grids)
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
        kind,
    )


def measured_margins(check: PapersCheck) -> tuple[Margin, ...]:
    """The margin of each kind of prediction, by the checks alone; kinds without any are left out."""
    errors: dict[Kind, list[float]] = {kind: [] for kind in KINDS}
    for row in check.of("check"):
        if row.error is None or row.kind is None:
            continue
        errors[row.kind].append(abs(row.error))
        if row.kind not in {"burst", "workload"}:
            errors["all"].append(abs(row.error))
    return tuple(
        Margin(kind, len(found), statistics.median(found), _ninth(sorted(found)))
        for kind, found in errors.items()
        if found
    )


def _ninth(errors: Sequence[float]) -> float:
    """Of errors in order, the smallest that nine tenths of them do not exceed."""
    return errors[math.ceil(0.9 * len(errors)) - 1]


def _summary(paper: str, rows: Iterable[PaperRow]) -> PaperSummary:
    checks = [row for row in rows if row.role == "check"]
    errors = sorted(abs(row.error) for row in checks if row.error is not None)
    without = len(checks) - len(errors)
    if not errors:
        return PaperSummary(paper, 0, None, None, None, without)
    return PaperSummary(paper, len(errors), statistics.median(errors), _ninth(errors), errors[-1], without)


def papers_document(check: PapersCheck) -> dict[str, Any]:
    """What `gridwright predict --papers --json` prints; its keys are a contract."""
    return {
        "papers": [asdict(each) for each in check.papers],
        "margins": [asdict(each) for each in measured_margins(check)],
        "reach": [
            {**asdict(check.instance_table), "at_most": LIMITS[INSTANCE_TABLE]},
            {**asdict(check.others), "at_most": LIMIT},
        ],
        "rows": [
            {name: value for name, value in asdict(row).items() if name not in {"why", "kind"}}
            | {"note": row.why}
            for row in check.rows
        ],
    }
