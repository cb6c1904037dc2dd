"""`gridwright wait`: waits for jobs to end."""

from __future__ import annotations

from gridwright.cli.arguments import Json
from gridwright.cli.grid_file import GridFile, JobNames


def wait(job: JobNames, grid: GridFile = None, json: Json = False) -> int:
    """Wait until jobs have ended.

    Exit status 0 when all completed, 1 when one did not.

    Example: gridwright wait 17 && gridwright logs 17
    """
    from gridwright.cli.work.wait_run import run_wait

    return int(run_wait(grid, job, json=json))
