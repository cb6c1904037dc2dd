"""`gridwright cancel`: ends jobs."""

from __future__ import annotations

import typer

from gridwright.cli.arguments import Json
from gridwright.cli.grid_file import GridFile, JobNames


def cancel(job: JobNames, grid: GridFile = None, json: Json = False) -> None:
    """End jobs, waiting or running; one that runs gets SIGTERM, and a moment later SIGKILL.

    Example: gridwright cancel 17 18_3
    """
    import json as json_module
    from dataclasses import asdict

    from gridwright.cli.grid_file import open_grid
    from gridwright.cli.work.jobs_table import fold, identifiers

    scheduler = open_grid(grid).scheduler
    before = scheduler.jobs(job)
    scheduler.cancel(job)
    if json:
        document = {"schema": 1, "command": "cancel", "jobs": [asdict(each) for each in scheduler.jobs(job)]}
        typer.echo(json_module.dumps(document, indent=2))
        return
    for alike in fold(before):
        state = alike[0].state
        typer.echo(f"{identifiers(alike)} {f'had ended: {state}' if state.final else 'cancelled'}")
