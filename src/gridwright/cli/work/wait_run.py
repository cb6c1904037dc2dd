"""Waits for jobs by asking their scheduler, first often, then less often."""

from __future__ import annotations

import json as json_module
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import typer

from gridwright.cli.grid_file import open_grid
from gridwright.errors import ExitStatus
from gridwright.schedulers.job import Job, JobState
from gridwright.schedulers.scheduler import Scheduler

_FIRST_S, _LONGEST_S, _GROWTH = 0.05, 2.0, 1.2


def run_wait(grid: Path | None, identifiers: Sequence[str], *, json: bool) -> ExitStatus:
    """Wait, print how the jobs ended, and return the exit status. Raises GridwrightError."""
    scheduler = open_grid(grid).scheduler
    ended = wait_for(scheduler, identifiers)
    completed = all(job.state is JobState.COMPLETED for job in ended)
    if json:
        jobs = [asdict(job) for job in ended]
        document = {"schema": 1, "command": "wait", "completed": completed, "jobs": jobs}
        typer.echo(json_module.dumps(document, indent=2))
    else:
        from gridwright.cli.work.jobs_table import jobs_table
        from gridwright.report.terminal.frame import terminal_console

        terminal_console().print(jobs_table(ended, time.time()))
    return ExitStatus.DONE if completed else ExitStatus.MISSED


def wait_for(scheduler: Scheduler, identifiers: Sequence[str]) -> list[Job]:
    """The jobs, once all have ended: however long that takes."""
    pause_s = _FIRST_S
    while True:
        found = scheduler.jobs(identifiers)
        if all(job.state.final for job in found):
            return found
        time.sleep(pause_s)
        pause_s = min(_LONGEST_S, pause_s * _GROWTH)
