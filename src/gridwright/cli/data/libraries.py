"""Libraries of a grid that can be asked for layouts, and where they are asked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gridwright.cli.spec_file import load_placed, note_this_machine

if TYPE_CHECKING:
    from gridwright.filesystems.health import Run
    from gridwright.spec import GridSpec


def opened(file: Path | None) -> tuple[GridSpec, Run]:
    """A grid, and what runs commands on its head node, or here. Raises GridwrightError."""
    from gridwright.commands import run_here
    from gridwright.grid.grid import Grid

    spec = load_placed(file)
    grid = Grid.open(spec)
    if grid.is_this_machine:
        note_this_machine(spec)
        return spec, run_here
    return spec, grid.head.run
