"""Whether jobs run on a grid, asked before its machines are stopped."""

from __future__ import annotations

from gridwright.errors import GridwrightError, Problem, environment_error
from gridwright.grid.grid import Grid
from gridwright.spec.hosts import fold_hosts
from gridwright.spec.model import GridSpec

_NOW = "gridwright stop --now stops all the same"


def refuse_busy(spec: GridSpec) -> None:
    """Raise GridwrightError (ENVIRONMENT) where nodes run jobs, or where nobody tells whether they do."""
    grid = Grid.open(spec)
    if not grid.has_queue:
        return
    try:
        states = grid.states
    except GridwrightError as error:
        problem = Problem(
            "nobody tells whether jobs run on this grid",
            where=str(spec.file) if spec.file else None,
            remedy=f"mend what follows; or {_NOW}",
        )
        raise GridwrightError(problem, *error.problems, status=error.status) from error
    busy = [state for state in states if state.free_cores < state.cores]
    if busy:
        cores = sum(each.cores - each.free_cores for each in busy)
        raise environment_error(
            f"jobs use {cores} cores on {fold_hosts([each.name for each in busy])}",
            where=f"grid {spec.name}",
            remedy=f"wait until they have ended (gridwright jobs shows them); or {_NOW}, and they end with "
            "their nodes",
        )
