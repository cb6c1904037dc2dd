"""What `gridwright jobs` prints."""

from __future__ import annotations

import json as json_module
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from gridwright.cli.grid_file import open_grid
from gridwright.cli.work.jobs_table import jobs_table
from gridwright.schedulers.job import Job

if TYPE_CHECKING:
    from gridwright.schedulers.scheduler import Scheduler

RECENT_S = 86_400
"""Jobs that ended longer ago are not shown unless asked for."""
_AGAIN_S = 2.0
"""Between two looks of --watch: a question to a scheduler that many ask."""


def show_jobs(grid: Path | None, only: Sequence[str] | None, *, everything: bool, json: bool) -> None:
    """Print the jobs once. Raises GridwrightError."""
    from gridwright.report.terminal.frame import terminal_console

    scheduler = open_grid(grid).scheduler
    found = find(scheduler, only, everything=everything)
    if json:
        document = {"schema": 1, "command": "jobs", "jobs": [asdict(job) for job in found]}
        typer.echo(json_module.dumps(document, indent=2))
    elif found:
        terminal_console().print(jobs_table(found, time.time()))
    else:
        typer.echo("no jobs" if everything else "no jobs within a day", err=True)


def watch_jobs(grid: Path | None, only: Sequence[str] | None, *, everything: bool) -> None:
    """Print the jobs again and again, until interrupted. Raises GridwrightError."""
    from rich.live import Live

    from gridwright.report.terminal.frame import terminal_console

    scheduler = open_grid(grid).scheduler
    console = terminal_console()
    with Live(console=console, auto_refresh=False, screen=console.is_terminal) as live:
        while True:
            live.update(jobs_table(find(scheduler, only, everything=everything), time.time()), refresh=True)
            time.sleep(_AGAIN_S)


def find(scheduler: Scheduler, only: Sequence[str] | None, *, everything: bool) -> list[Job]:
    """The jobs to show: those that are named, or all that have not ended long ago."""
    if only:
        return scheduler.jobs(only)
    since = float("-inf") if everything else time.time() - RECENT_S
    return [job for job in scheduler.jobs() if job.ended is None or job.ended >= since]
