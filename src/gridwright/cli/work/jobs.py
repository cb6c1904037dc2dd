"""`gridwright jobs | explain | logs | wait | cancel`: jobs of a grid, shown, waited for and ended.

Commands that stay wait for a scheduler that has answered once, and is silent later. Elements of an array that
are alike share a line of the table.
"""

from __future__ import annotations

import codecs
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, NoReturn

import typer

from gridwright.cli.arguments import Json
from gridwright.cli.output import LazyResult, Output
from gridwright.cli.spec_file import GridFile, JobName, JobNames, open_grid
from gridwright.cli.verbosity import say
from gridwright.errors import ExitStatus, GridwrightError, environment_error, input_error
from gridwright.schedulers.job import JobState

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from gridwright.report.table import Table
    from gridwright.schedulers.job import Job, JobExplanation
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
        from gridwright.report.terminal.frame import text_of

        return text_of(_jobs_table(found, time.time()))

    Output("jobs", json=json).show(
        LazyResult(document=lambda: {"jobs": [asdict(each) for each in found]}, text=text)
    )


def _watch(scheduler: Scheduler, only: Sequence[str] | None, *, everything: bool) -> NoReturn:
    """Print the jobs again and again, until interrupted; while nobody answers, the last ones and why.

    Raises GridwrightError, also where the scheduler has been silent for too long.
    """
    from rich.console import Group
    from rich.live import Live

    from gridwright.report.terminal.frame import framed, terminal_console

    console = terminal_console()
    notes: list[str] = []
    patient = PatientQuestions(scheduler, meanwhile="jobs go on", tell=notes.append)
    shown = _jobs_table([], time.time())
    with Live(console=console, auto_refresh=False, screen=console.is_terminal) as live:
        while True:
            found = patient.jobs(only or None)
            if found is not None:
                notes.clear()
                shown = _jobs_table(_recent(found, only, everything=everything), time.time())
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


_STYLES = {
    JobState.RUNNING: "cyan",
    JobState.COMPLETED: "green",
    JobState.FAILED: "bold red",
    JobState.OUT_OF_MEMORY: "bold red",
    JobState.TIMED_OUT: "bold red",
    JobState.NODE_FAILED: "bold red",
    JobState.CANCELLED: "yellow",
}
_DASH = "–"  # noqa: RUF001 - an en dash is what an absent figure prints as


def _jobs_table(jobs: Sequence[Job], now: float) -> Table:
    """One line for each job, or for elements of an array that are alike; `now` in seconds since 1970."""
    from gridwright.report.table import Cell, columns_of, rows_table
    from gridwright.units import format_bytes

    rows = []
    for alike in fold(jobs):
        first = alike[0]
        nodes = {job.node for job in alike if job.node is not None}
        row = (
            identifiers(alike),
            printable(_name(first)),
            Cell(first.state.value, style=_STYLES.get(first.state, "")),
            first.queue or _DASH,
            str(first.cores),
            format_bytes(first.memory_bytes) if first.memory_bytes is not None else _DASH,
            _elapsed(alike, now),
            (nodes.pop() if len(nodes) == 1 else f"{len(nodes)} nodes") if nodes else _DASH,
            printable(first.reason or ""),
        )
        rows.append(row)
    columns = columns_of(["job", "name", "state", "queue"], ["cores", "memory", "time"], "node", "why")
    return rows_table("", columns, rows)


def _name(job: Job) -> str:
    """Its name, with that of its flow before it."""
    return job.name if job.flow is None else f"{job.flow.partition('/')[0]}/{job.name}"


def fold(jobs: Iterable[Job]) -> Iterator[list[Job]]:
    """Jobs together that differ in nothing that is shown but their indices and times."""

    def shown(job: Job) -> tuple[object, ...]:
        array = job.id.partition("_")
        return (array[0] if array[1] else job.id, job.state, job.reason, job.exit_status, job.restarts)

    for array, group in groupby(jobs, key=lambda job: job.id.partition("_")[0]):
        kinds: dict[tuple[object, ...], list[Job]] = {}
        for job in group:
            kinds.setdefault((array, *shown(job)), []).append(job)
        yield from kinds.values()


def identifiers(jobs: Sequence[Job]) -> str:
    """The identifiers of jobs of one array: 17_3, 17_[1-40], 17_[1-3,7]."""
    if len(jobs) == 1:
        return jobs[0].id
    array = jobs[0].id.partition("_")[0]
    indices = sorted(int(job.id.partition("_")[2]) for job in jobs)
    ranges: list[list[int]] = []
    for index in indices:
        if ranges and index == ranges[-1][1] + 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])
    shown = [str(low) if low == high else f"{low}-{high}" for low, high in ranges[:4]]
    more = [f"... {len(jobs)} in all"] if len(ranges) > len(shown) else []
    return f"{array}_[{','.join([*shown, *more])}]"


def printable(text: str) -> str:
    """Text for a terminal: what is no printable character becomes a replacement character."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def _elapsed(jobs: Sequence[Job], now: float) -> str:
    """How long they ran, from the first start to the last end."""
    started = [job.started for job in jobs if job.started is not None]
    if not started:
        return _DASH
    ended = [job.ended if job.ended is not None else now for job in jobs if job.started is not None]
    return duration(max(0.0, max(ended) - min(started)))


def duration(seconds: float) -> str:
    """A time for people: 0.3 s, 42 s, 3 min 20 s, 2 h 05 min."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min"


def cancel(job: JobNames, grid: GridFile = None, json: Json = False) -> None:
    """End jobs, waiting or running; one that runs gets SIGTERM, and a moment later SIGKILL.

    Example: gridwright cancel 17 18_3
    """
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


def explain(job: JobName, grid: GridFile = None, json: Json = False) -> None:
    """Say why a job waits: all that it needs, what there is of it, and whether that fits.

    Example: gridwright explain 17
    """
    explanation = open_grid(grid).scheduler.explain(job)
    Output("explain", json=json).show(
        LazyResult(document=lambda: _document(explanation), text=lambda: _text(explanation))
    )


def _document(explanation: JobExplanation) -> dict[str, Any]:
    document = asdict(explanation)
    for shown, each in zip(document["candidates"], explanation.candidates, strict=True):
        shown["fits"] = each.fits
    return document


def _text(explanation: JobExplanation) -> str:
    from gridwright.report.table import Cell, columns_of, rows_table
    from gridwright.report.terminal.frame import text_of

    summary = f"{printable(explanation.summary)}\n"
    if not any(each.requirements for each in explanation.candidates):
        return summary
    columns = columns_of(["place", "requirement", "required", "provided", "fits"])
    candidates = (
        [
            (
                candidate.place,
                each.name,
                each.required,
                each.provided,
                Cell("yes", "met") if each.fits else Cell("no", "missed"),
            )
            for each in candidate.requirements
        ]
        for candidate in explanation.candidates
    )
    return summary + text_of(rows_table("", columns, *candidates))


_FIRST_S, _LONGEST_S, _GROWTH = 0.05, 2.0, 1.2
"""Between two questions to the scheduler: often at first, then less often."""


def wait(job: JobNames, grid: GridFile = None, json: Json = False) -> int:
    """Wait until jobs have ended.

    Exit status 0 when all completed, 1 when one did not. A scheduler that goes silent
    meanwhile is asked again for ten minutes.

    Example: gridwright wait 17 && gridwright logs 17
    """
    ended = wait_for(open_grid(grid).scheduler, job)
    completed = all(each.state is JobState.COMPLETED for each in ended)

    def text() -> str:
        from gridwright.report.terminal.frame import text_of

        return text_of(_jobs_table(ended, time.time()))

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


class PatientQuestions:
    """Asks how jobs stand, again and again; says on stderr when the scheduler goes silent and comes back."""

    def __init__(self, scheduler: Scheduler, *, meanwhile: str, tell: Callable[[str], None] = say) -> None:
        """`meanwhile` says what its silence does not hold up."""
        from gridwright.schedulers.head_node import Silence

        self._scheduler = scheduler
        self._tell = tell
        self._silence = Silence(self._say, meanwhile=meanwhile)
        self._answered = False

    def jobs(self, identifiers: Collection[str] | None = None) -> list[Job] | None:
        """How jobs stand; None where the scheduler does not answer now.

        Raises GridwrightError where the first question has no answer: it is told at once what is wrong. Later
        where the scheduler has been silent for too long.
        """
        asked = time.monotonic()
        try:
            jobs = self._scheduler.jobs(identifiers)
        except GridwrightError as error:
            if not self._answered:
                raise
            self._silence.unanswered(error, asked)
            return None
        self._answered = True
        self._silence.answered()
        return jobs

    def _say(self, level: str, text: str, remedy: str) -> None:
        self._tell(f"{level}: {text}" + (f"\n  {remedy}" if level == "warning" else ""))
