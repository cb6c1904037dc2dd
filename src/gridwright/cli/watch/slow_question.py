"""Gathers what `gridwright explain-slow` answers with: pictures, histories, and what changed here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gridwright.cli.arguments import DEFAULT_SPEC
from gridwright.errors import GridwrightError, input_error, nearest

if TYPE_CHECKING:
    from gridwright.grid.grid import Grid
    from gridwright.monitor.causes.changes import Mark
    from gridwright.monitor.causes.explaining import Explanation, SlowJob
    from gridwright.monitor.causes.since import Beginning
    from gridwright.monitor.frame import Frame
    from gridwright.monitor.history.questions import Histories
    from gridwright.monitor.libraries import WatchedLibrary
    from gridwright.monitor.readings import NodeSamples

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


def explained_live(question: SlowQuestion) -> Explanation:
    """The answer out of samples that are taken now. Raises GridwrightError."""
    from gridwright.monitor.causes.explaining import explain
    from gridwright.monitor.causes.since import NO_HISTORY, Beginning
    from gridwright.monitor.causes.verdict import is_slow
    from gridwright.monitor.frame import frame_of

    grid, samples, libraries = _sampled(question)
    filesystems = _filesystems(question, libraries)
    frame = frame_of(samples, libraries)
    job = None
    if question.job is not None:
        frame, job = _job_live(question.job, grid, samples, libraries)
    unknown = Beginning(at_s=None, why=NO_HISTORY)
    slow = [row.filesystem for row in frame.libraries if is_slow(row)]
    changes = _changes_here(question, frame, grid) if slow or job else []
    return explain(
        frame, filesystems=filesystems, since=dict.fromkeys(slow, unknown), changes=changes, job=job
    )


def explained_recording(question: SlowQuestion) -> Explanation:
    """The answer out of a recording, at a time or at its end. Raises GridwrightError."""
    from gridwright.monitor.history.recorded import RecordedHistories
    from gridwright.monitor.recording import Recording

    recording = Recording(question.play or Path())
    histories = RecordedHistories(recording)
    reach = histories.reach()
    if reach is None:
        raise input_error("no node answered in it", where=str(question.play), remedy="name another recording")
    at_s = reach[1] if question.at_s is None else question.at_s
    if not reach[0] < at_s <= reach[1] + question.seconds:
        first, last = (datetime.fromtimestamp(each).astimezone().isoformat(" ", "seconds") for each in reach)
        raise input_error(
            f"{question.play} has nothing of that time",
            where="--at",
            remedy=f"name one from {first} to {last}",
        )
    return explained_history(question, histories, min(at_s, reach[1]), recording.libraries)


def explained_history(
    question: SlowQuestion, histories: Histories, at_s: float, libraries: Sequence[WatchedLibrary]
) -> Explanation:
    """The answer out of histories of nodes. Raises GridwrightError."""
    from gridwright.monitor.causes.changes import changes_before, nearest_marks
    from gridwright.monitor.causes.explaining import explain, explain_job
    from gridwright.monitor.causes.since import since_when
    from gridwright.monitor.causes.verdict import is_slow, was_slow

    filesystems = _filesystems(question, libraries)
    frame = histories.frame(at_s, question.seconds, libraries)
    since: dict[str, Beginning] = {}
    for row in frame.libraries:
        if is_slow(row) and (filesystems is None or row.filesystem in filesystems):
            name = row.filesystem
            since[name] = since_when(
                histories, at_s, question.seconds, tuple(libraries), partial(was_slow, filesystem=name)
            )
    job = None
    if question.job is not None:
        load = next((each for each in frame.jobs if each.job == question.job), None)
        if load is None:
            raise _no_job(question.job, [each.job for each in frame.jobs])
        job = explain_job(load, None, frame, list(since))
    begins = [each.at_s for each in since.values() if each.at_s is not None]
    changes = changes_before(histories, min(begins)) if begins else []
    if begins:
        changes = nearest_marks([*changes, *_run_marks(question.runs, min(begins))], min(begins))
    return explain(frame, filesystems=filesystems, since=since, changes=changes, job=job)


def _sampled(question: SlowQuestion) -> tuple[Grid | None, list[NodeSamples], list[WatchedLibrary]]:
    from gridwright.monitor.gathering import mounted_here, sample_grid, sample_here, watched_libraries
    from gridwright.monitor.readings import Request

    if question.file is None and not DEFAULT_SPEC.exists():
        libraries = mounted_here()
        request = Request(question.seconds, directories=tuple(each.directory for each in libraries))
        return None, [sample_here(request)], libraries
    from gridwright.cli.grid_file import open_grid

    grid = open_grid(question.file)
    libraries = watched_libraries(grid)
    _filesystems(question, libraries)
    request = Request(question.seconds, directories=tuple(each.directory for each in libraries))
    return grid, sample_grid(grid, request), libraries


def _filesystems(question: SlowQuestion, libraries: Sequence[WatchedLibrary]) -> list[str] | None:
    """The file system of the library that was asked for; None where all are. Raises GridwrightError."""
    if question.library is None:
        return None
    found = [each.filesystem for each in libraries if question.library in {each.name, each.filesystem}]
    if not found:
        known = [each.name for each in libraries]
        close = nearest(question.library, known)
        raise input_error(
            f"there is no library {question.library!r}",
            where="--library",
            remedy=f"{f'did you mean {close}? ' if close else ''}there are: {', '.join(known) or 'none'}",
        )
    return found


def _job_live(
    job: str, grid: Grid | None, samples: Sequence[NodeSamples], libraries: Sequence[WatchedLibrary]
) -> tuple[Frame, SlowJob]:
    """The picture of the nodes of a job, and what holds it up. Raises GridwrightError where none has it."""
    from gridwright.monitor.causes.explaining import explain_job
    from gridwright.monitor.causes.verdict import is_slow
    from gridwright.monitor.frame import frame_of

    whole = frame_of(samples, libraries)
    load = next((each for each in whole.jobs if each.job == job), None)
    asked = _scheduled(job, grid)
    if load is None:
        raise _no_job(job, [each.job for each in whole.jobs], asked)
    frame = frame_of([each for each in samples if each.node in load.nodes], libraries)
    slow = [row.filesystem for row in frame.libraries if is_slow(row)]
    return frame, explain_job(load, asked[0] if asked else None, frame, slow)


def _scheduled(job: str, grid: Grid | None) -> tuple[int, str] | None:
    """The cores of a job and how it stands, as its scheduler has it; None where that says nothing."""
    if grid is None or not grid.has_queue:
        return None
    try:
        found = next(iter(grid.scheduler.jobs([job])), None)
    except GridwrightError:
        return None
    return None if found is None else (found.cores, str(found.state))


def _no_job(job: str, seen: Sequence[str], asked: tuple[int, str] | None = None) -> GridwrightError:
    if asked is not None and asked[1] == "waiting":
        return input_error(
            f"job {job} waits, and has no processes yet",
            where="--job",
            remedy=f"see gridwright explain {job}",
        )
    state = f": its scheduler has it as {asked[1]}" if asked else ""
    return input_error(
        f"no node has a process of job {job!r}{state}",
        where="--job",
        remedy=f"these run: {', '.join(seen[:10])}"
        if seen
        else "no job runs, as far as can be seen (root sees all)",
    )


def _changes_here(question: SlowQuestion, frame: Frame, grid: Grid | None) -> list[Mark]:
    """What changed within the last hour, as far as this machine and the picture tell."""
    from gridwright.monitor.causes.changes import boot_marks, nearest_marks

    since = frame.time - RECENT_S
    marks = boot_marks([(row.node, row.booted) for row in frame.nodes], since)
    marks += [each for each in _run_marks(question.runs, frame.time) if each.at_s >= since]
    marks += [each for each in _spec_marks(question.file) if each.at_s >= since]
    marks += [each for each in _job_marks(frame, grid) if each.at_s >= since]
    return nearest_marks(marks, frame.time)


def _spec_marks(file: Path | None) -> list[Mark]:
    from gridwright.monitor.causes.changes import Mark

    path = file or DEFAULT_SPEC
    try:
        changed = path.stat().st_mtime
    except OSError:
        return []
    return [Mark(at_s=changed, sort="configuration", text=f"{path} was changed", source="its time stamp")]


def _job_marks(frame: Frame, grid: Grid | None) -> list[Mark]:
    """When jobs that are seen on nodes began, as their scheduler has it."""
    from gridwright.monitor.causes.changes import Mark

    names = [each.job for each in frame.jobs if each.processes]
    if grid is None or not names or not grid.has_queue:
        return []
    try:
        jobs = grid.scheduler.jobs(names)
    except GridwrightError:
        return []
    return [
        Mark(
            at_s=each.started,
            sort="job",
            text=f"job {each.id} ({each.name}) of {each.user or 'an unknown user'} began on {each.node}",
            source="its scheduler",
        )
        for each in jobs
        if each.started is not None and each.id in names
    ]


def _run_marks(runs: Path, near_s: float) -> list[Mark]:
    """Runs of Gridwright near a time that are kept on this machine."""
    from gridwright.monitor.causes.changes import Mark
    from gridwright.runs.directory import list_runs

    marks = []
    for each in list_runs(runs):
        run = each.run
        started = datetime.fromisoformat(run.started).timestamp()
        if abs(started - near_s) > RECENT_S:
            continue
        what = " and ".join(run.what) or "a run"
        end = f", and {'ended at ' + run.finished if run.finished else 'goes on, or was killed'}"
        marks.append(
            Mark(
                at_s=started,
                sort="run",
                text=f"{what} began: run {each.path.name}{end}",
                source="its run directory",
            )
        )
    return marks
