"""The nodes of a grid for iotest, and what it takes to reach them."""

from __future__ import annotations

from gridwright.grid.grid import Grid
from gridwright.iotest.coordinator.coordinator import Fleet


def fleet_of(grid: Grid) -> Fleet | None:
    """The nodes of a grid to test; None where this machine alone is tested.

    Raises GridwrightError (status ENVIRONMENT) where the grid is not up, or no node of it is.
    """
    if grid.is_this_machine:
        return None
    nodes = grid.prepared(grid.nodes())
    secrets = None if grid.launches_by_ssh else grid.state
    return Fleet(
        nodes,
        grid.launcher(nodes),
        grid.listen,
        secrets,
        served_by=grid.processes_here,
        asleep=grid.asleep,
        causes=grid.causes(),
        filesystems={name: library.filesystem for name, library in grid.spec.libraries.items()},
    )
