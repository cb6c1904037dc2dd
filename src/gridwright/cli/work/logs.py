"""`gridwright logs`: what a job printed."""

from __future__ import annotations

import codecs
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from gridwright.cli.grid_file import GridFile, JobName, open_grid
from gridwright.cli.work.patient_questions import PatientQuestions
from gridwright.errors import environment_error, input_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from gridwright.schedulers.job import Job
    from gridwright.schedulers.scheduler import Scheduler

_LOOK_S = 0.2
_ASK_S = 1.0
"""Between two questions to the scheduler; the file is looked at more often."""
_CHUNK = 1 << 20


def logs(
    job: JobName,
    grid: GridFile = None,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the job has ended.")] = False,
) -> None:
    """Print what a job printed: its standard output and its standard error, as it came.

    On a terminal, what would command it is shown as text; a file or a pipe gets every byte.

    Example: gridwright logs -f 17
    """
    show_log(open_grid(grid).scheduler, job, follow=follow)


def show_log(scheduler: Scheduler, identifier: str, *, follow: bool) -> None:
    """Copy the log of a job to stdout, byte for byte where that is no terminal. Raises GridwrightError."""
    patient = PatientQuestions(scheduler, meanwhile="what the job prints is shown")
    job = _now(patient, identifier)
    if job is None:
        raise RuntimeError("the first question has an answer, or raises")
    if job.log is None:
        typer.echo(f"job {job.id} keeps no log", err=True)
        return
    file = _open(job)
    while file is None and follow and not job.state.final:
        time.sleep(_ASK_S / 2)
        job = _now(patient, identifier) or job
        file = _open(job)
    if file is None:
        from gridwright.schedulers.job import JobState

        if job.state is not JobState.WAITING and not Path(str(job.log)).parent.is_dir():
            raise environment_error(
                f"job {job.id} prints to {job.log}, and this machine has no such directory",
                where=job.log,
                remedy="look at it on a node that has it",
            )
        waits = job.state is JobState.WAITING
        typer.echo(f"job {job.id} has printed nothing{' yet: it waits' if waits else ''}", err=True)
        return
    with file:
        take = _taker()
        _copy(file, take)
        asked = time.monotonic()
        while follow and not job.state.final:
            time.sleep(_LOOK_S)
            if time.monotonic() - asked >= _ASK_S:
                job = _now(patient, identifier) or job
                asked = time.monotonic()
            # After the question: what came before the end of the job is there by now.
            _copy(file, take)


def _now(patient: PatientQuestions, identifier: str) -> Job | None:
    """The job; None where its scheduler does not answer now. Raises GridwrightError."""
    jobs = patient.jobs([identifier])
    if jobs is None:
        return None
    if len(jobs) == 1:
        return jobs[0]
    raise input_error(
        f"{identifier} is an array of {len(jobs)} jobs, and each has a log of its own",
        remedy=f"name one, such as gridwright logs {jobs[0].id}",
    )


def _open(job: Job) -> BinaryIO | None:
    try:
        return open(str(job.log), "rb")  # noqa: PTH123 - the caller closes it
    except FileNotFoundError:
        return None
    except OSError as error:
        raise environment_error(f"the log cannot be read: {error.strerror}", where=job.log) from error


def _taker() -> Callable[[bytes], object]:
    """What takes the bytes of a log: the stream, which makes commands visible, or what is below it."""
    if not sys.stdout.isatty():
        return sys.stdout.buffer.write
    decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
    return lambda chunk: sys.stdout.write(decoder.decode(chunk))


def _copy(file: BinaryIO, take: Callable[[bytes], object]) -> None:
    while chunk := file.read(_CHUNK):
        take(chunk)
    sys.stdout.flush()
