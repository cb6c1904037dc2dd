"""`gridwright wait`: waits for jobs to end."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING

from gridwright.cli.arguments import Json
from gridwright.cli.grid_file import GridFile, JobNames, open_grid
from gridwright.cli.output import LazyResult, Output
from gridwright.cli.work.patient_questions import PatientQuestions
from gridwright.errors import ExitStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gridwright.schedulers.job import Job
    from gridwright.schedulers.scheduler import Scheduler

_FIRST_S, _LONGEST_S, _GROWTH = 0.05, 2.0, 1.2
"""Between two questions to the scheduler: often at first, then less often."""


def wait(job: JobNames, grid: GridFile = None, json: Json = False) -> int:
    """Wait until jobs have ended.

    Exit status 0 when all completed, 1 when one did not. A scheduler that goes silent
    meanwhile is asked again for ten minutes.

    Example: gridwright wait 17 && gridwright logs 17
    """
    from gridwright.schedulers.job import JobState

    ended = wait_for(open_grid(grid).scheduler, job)
    completed = all(each.state is JobState.COMPLETED for each in ended)

    def text() -> str:
        from gridwright.cli.work.jobs_table import jobs_table
        from gridwright.report.terminal.frame import text_of

        return text_of(jobs_table(ended, time.time()))

    document = {"completed": completed, "jobs": [asdict(each) for each in ended]}
    Output("wait", json=json).show(LazyResult(document=lambda: document, text=text))
    return int(ExitStatus.DONE if completed else ExitStatus.MISSED)


def wait_for(scheduler: Scheduler, identifiers: Sequence[str]) -> list[Job]:
    """The jobs, once all have ended: however long that takes.

    Raises GridwrightError where the scheduler does not answer at first, or is silent for too long later.
    """
    patient = PatientQuestions(scheduler, meanwhile="jobs go on")
    pause_s = _FIRST_S
    while True:
        jobs = patient.jobs(identifiers)
        if jobs is not None and all(job.state.final for job in jobs):
            return jobs
        time.sleep(pause_s)
        pause_s = min(_LONGEST_S, pause_s * _GROWTH)
