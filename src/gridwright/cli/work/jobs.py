"""`gridwright jobs`: shows the state of the jobs of a grid."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from gridwright.cli.arguments import Json
from gridwright.cli.grid_file import GridFile, open_grid
from gridwright.cli.output import LazyResult, Output
from gridwright.cli.verbosity import say
from gridwright.errors import input_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gridwright.schedulers.job import Job
    from gridwright.schedulers.scheduler import Scheduler

RECENT_S = 86_400
"""Jobs that ended longer ago are not shown unless asked for."""
_AGAIN_S = 2.0
"""Between two looks of --watch: a question to a scheduler that many ask."""


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
    if watch and json:
        raise input_error("--watch and --json exclude each other", where="--watch", remedy="leave out one")
    scheduler = open_grid(grid).scheduler
    if watch:
        _watch(scheduler, job, everything=everything)
    found = _find(scheduler, job, everything=everything)
    if not found and not json:
        say("no jobs" if everything else "no jobs within a day")
        return

    def text() -> str:
        from gridwright.cli.work.jobs_table import jobs_table
        from gridwright.report.terminal.frame import text_of

        return text_of(jobs_table(found, time.time()))

    Output("jobs", json=json).show(
        LazyResult(document=lambda: {"jobs": [asdict(each) for each in found]}, text=text)
    )


def _watch(scheduler: Scheduler, only: Sequence[str] | None, *, everything: bool) -> NoReturn:
    """Print the jobs again and again, until interrupted; while nobody answers, the last ones and why.

    Raises GridwrightError, also where the scheduler has been silent for too long.
    """
    from rich.console import Group
    from rich.live import Live

    from gridwright.cli.work.jobs_table import jobs_table
    from gridwright.cli.work.patient_questions import PatientQuestions
    from gridwright.report.terminal.frame import framed, terminal_console

    console = terminal_console()
    notes: list[str] = []
    patient = PatientQuestions(scheduler, meanwhile="jobs go on", tell=notes.append)
    shown = jobs_table([], time.time())
    with Live(console=console, auto_refresh=False, screen=console.is_terminal) as live:
        while True:
            found = patient.jobs(only or None)
            if found is not None:
                notes.clear()
                shown = jobs_table(_recent(found, only, everything=everything), time.time())
            live.update(Group(*notes[-1:], framed(shown)), refresh=True)
            time.sleep(_AGAIN_S)


def _find(scheduler: Scheduler, only: Sequence[str] | None, *, everything: bool) -> list[Job]:
    """The jobs to show: those that are named, or all that have not ended long ago."""
    return _recent(scheduler.jobs(only or None), only, everything=everything)


def _recent(jobs: Sequence[Job], only: Sequence[str] | None, *, everything: bool) -> list[Job]:
    """Of jobs, those to show; what is named is shown however old it is."""
    if only or everything:
        return list(jobs)
    since = time.time() - RECENT_S
    return [job for job in jobs if job.ended is None or job.ended >= since]
