"""The grid that a verb is about."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gridwright.cli.arguments import read_path
from gridwright.cli.spec_file import load_placed

if TYPE_CHECKING:
    from gridwright.grid.grid import Grid

GridFile = Annotated[
    Path | None,
    typer.Option(
        "--grid",
        envvar="GRIDWRIGHT_GRID",
        metavar="FILE",
        parser=read_path,
        help="The grid spec.  [default: grid.yaml]",
    ),
]
JobName = Annotated[str, typer.Argument(metavar="JOB", help="A job such as 17, or an element: 17_3.")]
JobNames = Annotated[list[str], typer.Argument(metavar="JOB...", help="Jobs such as 17, or elements: 17_3.")]


def open_grid(file: Path | None) -> Grid:
    """Load a grid spec, and open its grid. Raises GridwrightError."""
    from gridwright.grid.grid import Grid

    return Grid.open(load_placed(file))
