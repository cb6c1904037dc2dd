"""`gridwright cancel`: ends jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gridwright.cli.arguments import Json
from gridwright.cli.grid_file import GridFile, JobNames
from gridwright.cli.output import LazyResult, Output

if TYPE_CHECKING:
    from gridwright.schedulers.job import Job


def cancel(job: JobNames, grid: GridFile = None, json: Json = False) -> None:
    """End jobs, waiting or running; one that runs gets SIGTERM, and a moment later SIGKILL.

    Example: gridwright cancel 17 18_3
    """
    from dataclasses import asdict

    from gridwright.cli.grid_file import open_grid
    from gridwright.cli.work.jobs_table import fold, identifiers

    scheduler = open_grid(grid).scheduler
    before = scheduler.jobs(job)
    scheduler.cancel(job)
    Output("cancel", json=json).show(
        LazyResult(
            document=lambda: {"jobs": [asdict(each) for each in scheduler.jobs(job)]},
            text=lambda: "\n".join(f"{identifiers(alike)} {_became(alike[0])}" for alike in fold(before)),
        )
    )


def _became(job: Job) -> str:
    return f"had ended: {job.state}" if job.state.final else "cancelled"
