"""`gridwright explain-slow`: why libraries or a job are slow, in words, with the evidence gathered for it.

Of pictures, histories, what `gridwright watch` found, and what changed here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gridwright.cli.arguments import (
    DEFAULT_RUNS,
    DEFAULT_SPEC,
    Json,
    Reader,
    Reads,
    RunsDirectory,
    Servers,
    SpecFile,
    named_servers,
    read_flags,
    read_path,
    verb,
)
from gridwright.cli.output import LazyResult, Output
from gridwright.cli.spec_file import grid_here, has_default_spec
from gridwright.cli.verbosity import say
from gridwright.errors import ExitStatus, GridwrightError, environment_error, input_error, nearest

if TYPE_CHECKING:
    from gridwright.grid.grid import Grid
    from gridwright.monitor.causes.changes import Beginning, MarkedEvent
    from gridwright.monitor.causes.explaining import SlowExplanation, SlowJob
    from gridwright.monitor.frame import Frame
    from gridwright.monitor.history.questions import Histories
    from gridwright.monitor.libraries import WatchedLibrary
    from gridwright.monitor.readings import NodeSamples


_SHORTEST_S, _LONGEST_S = 1.0, 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainSlowFlags:
    """The flags of `gridwright explain-slow`, as they were typed."""

    file: SpecFile = None
    job: Annotated[
        str | None, typer.Option(metavar="JOB", help="Only what holds this job up, on its nodes.")
    ] = None
    library: Annotated[str | None, typer.Option(metavar="NAME", help="Only this library's file system.")] = (
        None
    )
    at: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="At that time, if nodes keep history: 14:05, or 20m for so long ago."
        ),
        Reads(Reader.moment),
    ] = None
    interval: Annotated[
        str,
        typer.Option(metavar="TIME", help="The time over which it is measured."),
        Reads(Reader.seconds, instead=10.0),
    ] = "10s"
    play: Annotated[
        Path | None,
        typer.Option(metavar="PATH", parser=read_path, help="Ask a recording of gridwright top."),
    ] = None
    servers: Servers = None
    runs: RunsDirectory = DEFAULT_RUNS
    json: Json = False


def run_explain_slow(flags: ExplainSlowFlags) -> ExitStatus:
    """Say why a grid, a library or a job is slow: what binds, who else uses it, since when, what changed.

    Measures for --interval what each busy core gets against what the spec requires, and how full every
    resource on the way is. Without FILE and without ./grid.yaml, this machine alone. Exit status 1 where
    something is slow, 3 where a node does not answer or it cannot be told.

    \b
    Examples:
      gridwright explain-slow
      gridwright explain-slow grid.yaml --library data --interval 30s
      gridwright explain-slow grid.yaml --job 17
      gridwright explain-slow grid.yaml --at 14:05
      gridwright explain-slow --play tuesday.top --at 14:05
    """  # noqa: D301 - \b is a control character for click
    explanation = _answer(_checked(flags))
    Output("explain-slow", json=flags.json).show(
        LazyResult(document=explanation.document, text=lambda: _text(explanation))
    )
    return _status(explanation)


explain_slow = verb(run_explain_slow)


def _checked(flags: ExplainSlowFlags) -> SlowQuestion:
    """The question. Raises GridwrightError with all that is wrong with the flags."""
    reader = Reader()
    values = read_flags(flags, reader)
    seconds: float = values["interval"]
    if not _SHORTEST_S <= seconds <= _LONGEST_S:
        reader.problem(
            f"{flags.interval} is too short or too long", "--interval", "write a time from 1s to 1h"
        )
    if flags.play is not None and flags.file is not None:
        reader.problem("a recording says itself what was watched", "--play", "leave FILE out")
    if flags.job is not None and flags.library is not None:
        reader.problem("a job is looked at with all that it uses", "--library", "leave out one of them")
    if flags.at is not None and flags.servers is not None:
        reader.problem("servers are asked now, and keep no history", "--servers", "leave out --at")
    no_grid = flags.play is not None or (flags.file is None and not has_default_spec())
    hosts = named_servers(reader, flags.servers, no_grid=no_grid)
    reader.finish(values)
    return SlowQuestion(
        flags.file, flags.job, flags.library, values["at"], seconds, flags.play, flags.runs, tuple(hosts)
    )


def _answer(question: SlowQuestion) -> SlowExplanation:

    if question.play is not None:
        return explained_recording(question)
    return _explained_live(question) if question.at_s is None else _explained_then(question)


def _status(explanation: SlowExplanation) -> ExitStatus:
    if explanation.slow:
        return ExitStatus.MISSED
    return ExitStatus.DONE if explanation.is_complete else ExitStatus.ENVIRONMENT


def _text(explanation: SlowExplanation) -> str:
    from gridwright.monitor.causes.words import explanation_text

    return explanation_text(explanation)


RECENT_S = 3600.0
"""Without a history, what changed within the last hour is told."""


@dataclass(frozen=True, slots=True)
class SlowQuestion:
    """What was asked; times in seconds, `at_s` since 1970."""

    file: Path | None
    job: str | None
    library: str | None
    at_s: float | None
    seconds: float
    play: Path | None
    runs: Path
    servers: tuple[str, ...] = ()
    watch: Path | None = None
    """Where a watch of the grid keeps what it found; None where that is to be found out."""


def _explained_live(question: SlowQuestion) -> SlowExplanation:
    """The answer out of samples that are taken now, and of the history that nodes keep.

    Raises GridwrightError.
    """
    from gridwright.monitor.causes.explaining import explain, is_slow
    from gridwright.monitor.frame import frame_of

    grid, samples, libraries = _sampled(question)
    filesystems = _filesystems(question, libraries)
    whole = frame = frame_of(samples, libraries)
    job = None
    if question.job is not None:
        frame, filesystems, job = _job_live(question.job, grid, samples, libraries)
    slow = [
        row.filesystem
        for row in frame.libraries
        if is_slow(row) and (filesystems is None or row.filesystem in filesystems)
    ]
    if not slow and job is None:
        return explain(frame, filesystems=filesystems)
    histories = _history_or_none(grid) if slow else None
    since = _since(question, histories, frame.time, libraries, slow)
    begin = min((each.at_s for each in since.values() if each.at_s is not None), default=None)
    if histories is not None and begin is not None:
        changes = _changes_then(
            question, histories, begin, [*_spec_marks(question.file), *_job_marks(frame, grid)]
        )
    else:
        changes = _changes_here(question, frame, grid)
    return explain(frame, filesystems=filesystems, since=since, changes=changes, job=job, whole=whole)


def _explained_then(question: SlowQuestion) -> SlowExplanation:
    """The answer for an earlier time, out of the history that nodes keep. Raises GridwrightError."""
    from gridwright.monitor.gathering import mounted_here, watched_libraries
    from gridwright.monitor.history.choosing import open_histories

    grid = grid_here(question.file)
    libraries = mounted_here() if grid is None else watched_libraries(grid)
    histories = open_histories(grid)
    reach = histories.reach()
    if reach is None:
        raise environment_error(
            "nodes keep no history yet",
            where="--at",
            remedy="see gridwright help monitoring for what keeps it",
        )
    at_s = question.at_s or reach[1]
    _check_reach(reach, at_s, question.seconds, "the history of the nodes")
    return explained_history(question, histories, min(at_s, reach[1]), libraries)


def explained_recording(question: SlowQuestion) -> SlowExplanation:
    """The answer out of a recording, at a time or at its end. Raises GridwrightError."""
    from gridwright.monitor.history.choosing import RecordedHistories
    from gridwright.monitor.recording import Recording

    recording = Recording(question.play or Path())
    histories = RecordedHistories(recording)
    reach = histories.reach()
    if reach is None:
        raise input_error("no node answered in it", where=str(question.play), remedy="name another recording")
    at_s = reach[1] if question.at_s is None else question.at_s
    _check_reach(reach, at_s, question.seconds, str(question.play))
    return explained_history(question, histories, min(at_s, reach[1]), recording.libraries)


def _check_reach(reach: tuple[float, float], at_s: float, seconds: float, whose: str) -> None:
    """Raises GridwrightError (INPUT) where nothing is known of a time."""
    if not reach[0] < at_s <= reach[1] + seconds:
        first, last = (datetime.fromtimestamp(each).astimezone().isoformat(" ", "seconds") for each in reach)
        raise input_error(
            f"{whose} has nothing of that time", where="--at", remedy=f"name one from {first} to {last}"
        )


def explained_history(
    question: SlowQuestion, histories: Histories, at_s: float, libraries: Sequence[WatchedLibrary]
) -> SlowExplanation:
    """The answer out of histories of nodes. Raises GridwrightError."""
    from gridwright.monitor.causes.explaining import explain, explain_job, is_slow, used_by

    filesystems = _filesystems(question, libraries)
    frame = histories.frame(at_s, question.seconds, libraries)
    load = None
    if question.job is not None:
        load = next((each for each in frame.jobs if each.job == question.job), None)
        if load is None:
            raise _no_job(question.job, [each.job for each in frame.jobs], kept=True)
        filesystems = used_by(load, frame)
    slow = [
        row.filesystem
        for row in frame.libraries
        if is_slow(row) and (filesystems is None or row.filesystem in filesystems)
    ]
    since = _since(question, histories, at_s, libraries, slow)
    job = None if load is None else explain_job(load, None, frame, slow)
    begin = min((each.at_s for each in since.values() if each.at_s is not None), default=None)
    changes = [] if begin is None else _changes_then(question, histories, begin, ())
    return explain(frame, filesystems=filesystems, since=since, changes=changes, job=job)


def _history_or_none(grid: Grid | None) -> Histories | None:
    """The history that nodes keep; None where there is none, or it does not answer."""
    from gridwright.monitor.history.choosing import find_histories

    try:
        return find_histories(grid)
    except GridwrightError:
        return None


def _since(
    question: SlowQuestion,
    histories: Histories | None,
    at_s: float,
    libraries: Sequence[WatchedLibrary],
    slow: Sequence[str],
) -> dict[str, Beginning]:
    """Since when each of these file systems is slow."""
    from gridwright.monitor.causes.changes import NO_HISTORY, Beginning, since_when
    from gridwright.monitor.causes.explaining import was_slow

    if histories is None:
        return dict.fromkeys(slow, Beginning(at_s=None, why=NO_HISTORY))
    if slow and question.play is None:
        say("looking back in the history of the nodes")
    return {
        name: since_when(
            histories, at_s, question.seconds, tuple(libraries), partial(was_slow, filesystem=name)
        )
        for name in slow
    }


def _changes_then(
    question: SlowQuestion, histories: Histories, begin: float, more: Sequence[MarkedEvent]
) -> list[MarkedEvent]:
    """What changed before a time, as histories and runs tell it."""
    from gridwright.monitor.causes.changes import BEFORE_S, changes_before, nearest_marks

    others = [event for event in more if begin - BEFORE_S <= event.at_s <= begin + question.seconds]
    marks = [*changes_before(histories, begin), *_run_marks(question.runs, begin), *others]
    marks += _finding_marks(question, begin - BEFORE_S, begin + question.seconds)
    return nearest_marks(marks, begin)


def _finding_marks(question: SlowQuestion, start_s: float, end_s: float) -> Iterator[MarkedEvent]:
    """Findings of a watch that opened, closed or flapped; of a recording, which may be of elsewhere, none."""
    from gridwright.monitor.causes.changes import MarkedEvent
    from gridwright.watch.state import change_marks, watch_directory

    if question.play is not None:
        return
    watch = question.watch
    if watch is None:
        grid = grid_here(question.file)
        watch = watch_directory(None if grid is None else grid.spec)
    for mark in change_marks(watch, start_s, end_s):
        where = f" ({mark.where})" if mark.where else ""
        yield MarkedEvent(
            at_s=mark.time, sort="finding", text=f"{mark.what}{where}", source="gridwright watch"
        )


def _sampled(question: SlowQuestion) -> tuple[Grid | None, list[NodeSamples], list[WatchedLibrary]]:
    from gridwright.monitor.gathering import mounted_here, sample_grid, sample_here, watched_libraries
    from gridwright.monitor.readings import Request

    grid = grid_here(question.file)
    libraries = mounted_here() if grid is None else watched_libraries(grid)
    _filesystems(question, libraries)
    request = Request(question.seconds, directories=tuple(library.directory for library in libraries))
    if grid is None:
        return None, [sample_here(request)], libraries
    return grid, sample_grid(grid, request, question.servers), libraries


def _filesystems(question: SlowQuestion, libraries: Sequence[WatchedLibrary]) -> list[str] | None:
    """The file system of the library that was asked for; None where all are. Raises GridwrightError."""
    if question.library is None:
        return None
    found = [
        library.filesystem for library in libraries if question.library in {library.name, library.filesystem}
    ]
    if not found:
        from gridwright.yamltext.source import show

        known = [library.name for library in libraries]
        close = nearest(question.library, known)
        raise input_error(
            f"there is no library {show(question.library)}",
            where="--library",
            remedy=f"{f'did you mean {close}? ' if close else ''}there are: {', '.join(known) or 'none'}",
        )
    return found


def _job_live(
    job: str, grid: Grid | None, samples: Sequence[NodeSamples], libraries: Sequence[WatchedLibrary]
) -> tuple[Frame, list[str] | None, SlowJob]:
    """The picture of the nodes of a job, its file systems, and what holds it up.

    Raises GridwrightError where no node has it.
    """
    from gridwright.monitor.causes.explaining import explain_job, is_slow, used_by
    from gridwright.monitor.frame import frame_of
    from gridwright.monitor.job_rows import job_row
    from gridwright.monitor.rows import seen

    load, asked = job_row(job, seen(samples)), _scheduled(job, grid)
    if load is None:
        raise _no_job(job, [each.job for each in frame_of(samples).jobs], asked)
    frame = frame_of([sample for sample in samples if sample.node in load.nodes], libraries)
    filesystems = used_by(load, frame)
    slow = [
        row.filesystem
        for row in frame.libraries
        if is_slow(row) and (filesystems is None or row.filesystem in filesystems)
    ]
    return frame, filesystems, explain_job(load, asked[0] if asked else None, frame, slow)


def _scheduled(job: str, grid: Grid | None) -> tuple[int, str] | None:
    """The cores of a job and how it stands, as its scheduler has it; None where that says nothing."""
    if grid is None or not grid.has_queue:
        return None
    try:
        found = next(iter(grid.scheduler.jobs([job])), None)
    except GridwrightError:
        return None
    return None if found is None else (found.cores, str(found.state))


def _no_job(
    job: str, known: Sequence[str], asked: tuple[int, str] | None = None, *, kept: bool = False
) -> GridwrightError:
    """`known` are jobs that there are; `kept` says that these are those of a history."""
    from gridwright.monitor.job_rows import MOST_JOBS, SUM
    from gridwright.yamltext.source import show

    if asked is not None and asked[1] == "waiting":
        return input_error(
            f"job {job} waits, and has no processes yet",
            where="--job",
            remedy=f"see gridwright explain {job}",
        )
    state = f": its scheduler has it as {asked[1]}" if asked else ""
    hidden = kept and (SUM in known or len(known) > MOST_JOBS)
    of = f" then, or {MOST_JOBS} others moved more, and it is in their sum" if hidden else ""
    known = [each for each in known if each != SUM]
    return input_error(
        f"no node has a process of job {show(job)}{of}{state}",
        where="--job",
        remedy=f"these run: {', '.join(known[:10])}"
        if known
        else "no job runs, as far as can be seen (root sees all)",
    )


def _changes_here(question: SlowQuestion, frame: Frame, grid: Grid | None) -> list[MarkedEvent]:
    """What changed within the last hour, as far as this machine and the picture tell."""
    from gridwright.monitor.causes.changes import boot_marks, nearest_marks

    since = frame.time - RECENT_S
    marks = boot_marks([(row.node, row.booted) for row in frame.nodes], since)
    marks += [run_mark for run_mark in _run_marks(question.runs, frame.time) if run_mark.at_s >= since]
    marks += [spec_mark for spec_mark in _spec_marks(question.file) if spec_mark.at_s >= since]
    marks += [job_mark for job_mark in _job_marks(frame, grid) if job_mark.at_s >= since]
    marks += _finding_marks(question, since, frame.time)
    return nearest_marks(marks, frame.time)


def _spec_marks(file: Path | None) -> list[MarkedEvent]:
    from gridwright.monitor.causes.changes import MarkedEvent

    path = file or DEFAULT_SPEC
    try:
        changed = path.stat().st_mtime
    except OSError:
        return []
    return [
        MarkedEvent(at_s=changed, sort="configuration", text=f"{path} was changed", source="its time stamp")
    ]


def _job_marks(frame: Frame, grid: Grid | None) -> list[MarkedEvent]:
    """When jobs that are seen on nodes began, as their scheduler has it."""
    from gridwright.monitor.causes.changes import MarkedEvent

    names = [job.job for job in frame.jobs if job.processes]
    if grid is None or not names or not grid.has_queue:
        return []
    try:
        jobs = grid.scheduler.jobs(names)
    except GridwrightError:
        return []
    return [
        MarkedEvent(
            at_s=job.started,
            sort="job",
            text=f"job {job.id} ({job.name}) of {job.user or 'an unknown user'} began on {job.node}",
            source="its scheduler",
        )
        for job in jobs
        if job.started is not None and job.id in names
    ]


def _run_marks(runs: Path, near_s: float) -> list[MarkedEvent]:
    """Runs of Gridwright near a time that are kept on this machine."""
    from gridwright.monitor.causes.changes import MarkedEvent
    from gridwright.runs.directory import list_runs
    from gridwright.runs.place import of_whom

    marks = []
    for each in list_runs(runs):
        run = each.run
        started = datetime.fromisoformat(run.started).timestamp()
        if abs(started - near_s) > RECENT_S:
            continue
        what = " and ".join(run.what) or "a run"
        end = f", and {'ended at ' + run.finished if run.finished else 'goes on, or was killed'}"
        marks.append(
            MarkedEvent(
                at_s=started,
                sort="run",
                text=f"{what} began: run {each.path.name}{of_whom(each.owner)}{end}",
                source="its run directory",
            )
        )
    return marks
