"""What tests of the papers share: the check itself, with the matrices of the mixed workload."""

from __future__ import annotations

from functools import cache

from gridwright.catalog import Catalog
from gridwright.model.papers.checks import PaperRow, PapersCheck, check_papers
from gridwright.model.workload import WorkloadMatrix
from gridwright.workload.matrix import load_matrix


def matrices() -> dict[str, WorkloadMatrix]:
    """The two matrices of the papers as the model takes them."""
    found = {}
    for name in ("mixed-30", "mixed-20"):
        streams = load_matrix(name).streams
        found[name] = WorkloadMatrix(name, tuple(tuple(e.label for e in stream) for stream in streams))
    return found


@cache
def papers() -> PapersCheck:
    """The check with the packaged catalogue."""
    return check_papers(matrices=matrices())


def row(fact_id: str, quantity: str = "", catalog: Catalog | None = None) -> PaperRow:
    """The first row of a fact whose quantity begins or ends with this text."""
    check = check_papers(catalog) if catalog else papers()
    found = [each for each in check.rows if each.fact_id == fact_id]
    return next(
        each for each in found if each.quantity.endswith(quantity) or each.quantity.startswith(quantity)
    )
