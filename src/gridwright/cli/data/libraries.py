"""Libraries of a grid that can be asked for layouts, and where they are asked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gridwright.cli.spec_file import load_placed, note_this_machine

if TYPE_CHECKING:
    from gridwright.doctor.access import RunOn
    from gridwright.spec import GridSpec


def opened(file: Path | None) -> tuple[GridSpec, RunOn]:
    """A grid, and what runs commands where a file system is mounted. Raises GridwrightError.

    That is this machine, or the head node, or, where that has not mounted it, a node that has.
    """
    from gridwright.commands import run_here
    from gridwright.doctor.access import MountingNodes
    from gridwright.grid.grid import Grid

    spec = load_placed(file)
    grid = Grid.open(spec)
    if grid.is_this_machine:
        note_this_machine(spec)
        return spec, lambda _: run_here
    return spec, MountingNodes(grid).run_on
