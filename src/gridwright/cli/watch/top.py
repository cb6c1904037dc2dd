"""`gridwright top`: what nodes, libraries and jobs do now, and what binds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gridwright.cli.arguments import DEFAULT_SPEC, Json, Reader, SpecFile
from gridwright.cli.output import LazyResult, Output
from gridwright.errors import ExitStatus

if TYPE_CHECKING:
    from pathlib import Path

    from gridwright.grid.grid import Grid
    from gridwright.monitor.frame import Frame

_SHORTEST_S, _LONGEST_S = 0.1, 3600.0


def top(
    file: SpecFile = None,
    once: Annotated[bool, typer.Option("--once", help="Print one picture, and end.")] = False,
    interval: Annotated[
        str, typer.Option("--interval", metavar="TIME", help="The time over which rates are taken.")
    ] = "1s",
    json: Json = False,
) -> int:
    """Show what nodes, libraries and jobs of a grid do now, and what binds.

    Of each library: what its file system moves for each busy core against what the spec requires. Without
    FILE and without ./grid.yaml, this machine alone. Exit status 3 where a node does not answer.

    \b
    Examples:
      gridwright top --once
      gridwright top lab.yaml --once --interval 5s --json
    """  # noqa: D301 - \b is a control character for click
    reader = Reader()
    seconds = reader.seconds("--interval", interval)
    if seconds is not None and not _SHORTEST_S <= seconds <= _LONGEST_S:
        reader.problem(f"{interval} is too short or too long", "--interval", "write a time from 0.1s to 1h")
    if not once:
        reader.problem("top prints one picture at a time", "--once", "add --once")
    frame = _frame(file, reader.finish(seconds))
    Output("top", json=json).show(LazyResult(document=frame.document, text=lambda: _text(frame)))
    return int(ExitStatus.DONE if frame.whole else ExitStatus.ENVIRONMENT)


def _frame(file: Path | None, interval_s: float) -> Frame:
    """One picture of the grid, or of this machine. Raises GridwrightError."""
    from gridwright.monitor.frame import frame_of
    from gridwright.monitor.gathering import sample_grid, sample_here
    from gridwright.monitor.readings import Request

    grid = _grid(file)
    if grid is None:
        return frame_of([sample_here(Request(interval_s))])
    from gridwright.monitor.gathering import directories_of, watched_libraries

    request = Request(interval_s, directories=directories_of(grid))
    return frame_of(sample_grid(grid, request), watched_libraries(grid))


def _grid(file: Path | None) -> Grid | None:
    if file is None and not DEFAULT_SPEC.exists():
        return None
    from gridwright.cli.grid_file import open_grid

    return open_grid(file)


def _text(frame: Frame) -> str:
    from gridwright.monitor.frame_tables import frame_text

    return frame_text(frame)
