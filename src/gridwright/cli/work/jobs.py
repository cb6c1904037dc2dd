"""`gridwright jobs`: how the jobs of a grid stand."""

from __future__ import annotations

from typing import Annotated

import typer

from gridwright.cli.arguments import Json
from gridwright.cli.grid_file import GridFile


def jobs(
    job: Annotated[
        list[str] | None, typer.Argument(metavar="[JOB...]", help="Only these: 17, or an element: 17_3.")
    ] = None,
    grid: GridFile = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also those that ended more than a day ago.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Show them again and again, until Ctrl-C.")] = False,
    json: Json = False,
) -> None:
    """Show the jobs that wait, run, or ended within a day.

    Elements of an array that are alike share a line.

    Example: gridwright jobs --watch
    """
    from gridwright.cli.work.jobs_show import show_jobs, watch_jobs
    from gridwright.errors import input_error

    if watch and json:
        raise input_error("--watch and --json exclude each other", where="--watch", remedy="leave out one")
    if watch:
        watch_jobs(grid, job, everything=everything)
    else:
        show_jobs(grid, job, everything=everything, json=json)
