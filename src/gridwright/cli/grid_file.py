"""The grid whose jobs a verb is about, and its scheduler."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gridwright.cli.spec_file import load_placed

if TYPE_CHECKING:
    from gridwright.schedulers.scheduler import Scheduler
    from gridwright.spec import GridSpec

GridFile = Annotated[
    Path | None,
    typer.Option(
        "--grid", envvar="GRIDWRIGHT_GRID", metavar="FILE", help="The grid spec.  [default: grid.yaml]"
    ),
]
JobName = Annotated[str, typer.Argument(metavar="JOB", help="A job such as 17, or an element: 17_3.")]
JobNames = Annotated[list[str], typer.Argument(metavar="JOB...", help="Jobs such as 17, or elements: 17_3.")]


def open_grid(file: Path | None) -> tuple[GridSpec, Scheduler]:
    """Load a grid spec, and reach its scheduler. Raises GridwrightError."""
    from gridwright.providers import head_node
    from gridwright.schedulers.opening import open_scheduler

    spec = load_placed(file)
    return spec, open_scheduler(spec, head_node(spec))
