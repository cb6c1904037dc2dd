"""`gridwright logs`: what a job printed."""

from __future__ import annotations

from typing import Annotated

import typer

from gridwright.cli.grid_file import GridFile, JobName


def logs(
    job: JobName,
    grid: GridFile = None,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the job has ended.")] = False,
) -> None:
    """Print what a job printed: its standard output and its standard error, as it came.

    Example: gridwright logs -f 17
    """
    from gridwright.cli.grid_file import open_grid
    from gridwright.cli.work.logs_show import show_log

    scheduler = open_grid(grid).scheduler
    show_log(scheduler, job, follow=follow)
