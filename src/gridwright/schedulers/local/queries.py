"""Queries of the store: jobs as users see them, and a snapshot of the queue to decide from.

What waiting jobs wait for, and whether that has come.
"""

from __future__ import annotations

import math
import os
import socket
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from gridwright.errors import ExitStatus, GridwrightError, Problem
from gridwright.schedulers.dependency import Dependency, DependencyType
from gridwright.schedulers.job import Job, JobState
from gridwright.schedulers.job_options import read_options
from gridwright.schedulers.local.identifiers import NO_INDEX, JobKey, parse_identifier
from gridwright.schedulers.local.machine_resources import MachineResources
from gridwright.schedulers.local.policy import Allocation, Demand, PendingJob
from gridwright.schedulers.local.store import Store
from gridwright.schedulers.output_paths import filled


class UnmetDependency(NamedTuple):
    """A job that another one waits for, and how it has to end."""

    key: JobKey
    type: DependencyType

    def __str__(self) -> str:
        return str(Dependency(str(self.key), self.type))


@dataclass(frozen=True, slots=True)
class DependencyProgress:
    """How far a job has come that others wait for."""

    met: bool
    why_never: str | None = None
    """Why it will never be as it has to be; None where it may."""
    provided: str = ""
    """How it stands, in words."""


def insert_dependencies(store: Store, job: int, dependencies: Iterable[UnmetDependency]) -> None:
    """Write down what a job waits for, within a transaction."""
    store.change_many(
        "INSERT INTO dependencies (job, on_job, on_idx, type) VALUES (?, ?, ?, ?)",
        (
            (job, dependency.key.job, dependency.key.element, dependency.type.value)
            for dependency in dependencies
        ),
    )


def dependencies_of(store: Store, job: int) -> list[UnmetDependency]:
    """All that a job waits for or has waited for."""
    rows = store.all("SELECT on_job, on_idx, type FROM dependencies WHERE job=?", (job,))
    return [_read(row) for row in rows]


def unmet_dependencies(store: Store) -> dict[int, list[UnmetDependency]]:
    """What waiting jobs wait for, as far as that has not come."""
    dependencies: dict[int, list[UnmetDependency]] = {}
    known: dict[UnmetDependency, bool] = {}
    for job, *row in store.all(
        "SELECT d.job, d.on_job, d.on_idx, d.type FROM dependencies d WHERE d.job IN (SELECT t.job "
        "FROM tasks t WHERE t.state IN ('waiting', 'running') AND t.state='waiting')"
    ):
        each = _read(row)
        if each not in known:
            known[each] = dependency_progress(store, each).met
        if not known[each]:
            dependencies.setdefault(job, []).append(each)
    return dependencies


def dependency_progress(store: Store, dependency: UnmetDependency) -> DependencyProgress:
    """Whether a job that others wait for, or each of its elements, has ended as it has to."""
    left, unfinished, failed = store.one(
        "SELECT COUNT(*), TOTAL(state IN ('waiting', 'running')), "
        "MAX(CASE WHEN state NOT IN ('waiting', 'running') THEN state END) "
        "FROM tasks WHERE state<>'completed' AND job=? AND idx BETWEEN ? AND ?",
        dependency.key.tasks,
    )
    if unfinished:
        standing = "waits or runs" if left == 1 else f"{left:.0f} not yet"
    else:
        standing = failed or "completed"
    if dependency.type is DependencyType.ANY:
        return DependencyProgress(not unfinished, None, standing)
    if dependency.type is DependencyType.NOT_OK:
        never = f"job {dependency.key}, after whose failure it was to start, completed"
        return DependencyProgress(not unfinished and bool(failed), None if left else never, standing)
    if dependency.type is DependencyType.EACH:
        return DependencyProgress(not left, None, standing)
    never = f"job {dependency.key}, which it waited for, did not complete: {failed}"
    return DependencyProgress(not left, never if failed else None, failed or standing)


def ended_elements(store: Store, job: int, dependency: UnmetDependency) -> dict[int, str]:
    """The final states of those elements that waiting elements of an array wait for, by their index."""
    return dict(
        store.all(
            "SELECT o.idx, o.state FROM tasks m JOIN tasks o ON o.job=? AND o.idx=m.idx "
            "WHERE m.job=? AND m.state='waiting' AND o.state NOT IN ('waiting', 'running')",
            (dependency.key.job, job),
        )
    )


def _read(row: Iterable[object]) -> UnmetDependency:
    job, index, kind = row
    return UnmetDependency(JobKey(int(str(job)), int(str(index))), DependencyType(str(kind)))


_AT_ONCE = 500
"""Identifiers in one query: SQLite takes 999 values in old releases (SQLITE_MAX_VARIABLE_NUMBER)."""
# The indexed condition stands beside the one that is meant: else SQLite would not use the index.
_JOB = """
SELECT t.job, t.idx, j.name, t.state, j.queue, j.user, j.cores, j.memory, t.exit_status, t.signal, t.reason,
    j.submitted, t.started, t.ended, t.attempt, j.is_null, j.options
FROM tasks t JOIN jobs j ON j.id = t.job
"""


def find_keys(store: Store, identifiers: Collection[str]) -> list[JobKey]:
    """Read identifiers of jobs that are there. Raises GridwrightError (INPUT) with all that are not."""
    keys = {text: parse_identifier(text) for text in identifiers}
    problems = [key for key in keys.values() if isinstance(key, Problem)]
    found = [key for key in keys.values() if isinstance(key, JobKey)]
    known: set[int] = set()
    for part in _parts(sorted({key.job for key in found})):
        query = f"SELECT id FROM jobs WHERE id IN ({_marks(part)})"  # noqa: S608 - question marks only
        known.update(row[0] for row in store.all(query, part))
    elements = {
        key
        for key in found
        if key.element != NO_INDEX
        and key.job in known
        and store.one("SELECT 1 FROM tasks WHERE job=? AND idx=?", key) is None
    }
    for key in found:
        if key.job not in known:
            remedy = "gridwright jobs --all lists those that are remembered"
            problems.append(Problem(what=f"there is no job {key}", remedy=remedy))
        elif key in elements:
            what = f"job {key.job} has no element {key.element}"
            problems.append(Problem(what=what, remedy=f"see gridwright jobs {key.job}"))
    if problems:
        raise GridwrightError(*problems, status=ExitStatus.INPUT)
    return found


def read_jobs(store: Store, keys: Collection[JobKey] | None) -> list[Job]:
    """Jobs, elements of arrays singly, in the order of their numbers. None: all."""
    if keys is None:
        return [_job(store, row) for row in store.all(f"{_JOB} ORDER BY t.job, t.idx")]
    requested = sorted({key.job for key in keys})
    whole = {key.job for key in keys if key.element == NO_INDEX}
    rows: list[Any] = []
    for part in _parts([job for job in requested if job in whole]):
        rows += store.all(f"{_JOB} WHERE t.job IN ({_marks(part)})", part)
    for key in keys:
        if key.job not in whole:
            rows += store.all(f"{_JOB} WHERE t.job=? AND t.idx=?", key)
    return [_job(store, row) for row in sorted(rows, key=lambda row: (row[0], row[1]))]


def _parts(values: Sequence[int]) -> Iterable[Sequence[int]]:
    return (values[at : at + _AT_ONCE] for at in range(0, len(values), _AT_ONCE))


def _marks(values: Sequence[int]) -> str:
    return ",".join("?" * len(values))


def _job(store: Store, row: Any) -> Job:  # noqa: ANN401 - a row of SQLite
    key = JobKey(row[0], row[1])
    started = row[12] is not None
    options = read_options(row[16])
    log = None if row[15] else store.log_of(key)
    if options.stdout is not None and log is not None:
        index = "" if key.element == NO_INDEX else str(key.element)
        log = filled(options.stdout, {"job": str(key), "index": index, "name": os.fsdecode(row[2])})
    return Job(
        id=str(key),
        name=os.fsdecode(row[2]),
        state=JobState(row[3]),
        queue=row[4],
        user=row[5],
        cores=row[6],
        memory_bytes=row[7],
        exit_status=row[8],
        signal=row[9],
        reason=row[10],
        node=socket.gethostname() if started else None,
        submitted=row[11],
        started=row[12],
        ended=row[13],
        restarts=row[14],
        log=log,
        flow=options.flow,
    )


@dataclass(frozen=True, slots=True)
class QueueSnapshot:
    """All that a scheduling decision depends on: jobs that run, that wait, and that wait for others."""

    machine: MachineResources
    running: Sequence[Allocation]
    pending: Sequence[PendingJob]
    """In the order of rank."""
    waits_for: dict[int, list[UnmetDependency]]
    """Jobs that wait for others: not among `pending`."""
    begins: dict[int, float]
    """Jobs whose begin time is to come, with that: not among `pending` either."""


def demand_of(machine: MachineResources, cores: int, memory: int, queue: str, exclusive: bool) -> Demand:
    """What a job takes; one that wants no other beside it takes all of the machine."""
    if exclusive:
        return Demand(machine.cores, machine.memory_bytes, queue, cores)
    return Demand(cores, memory, queue, cores)


def queue_snapshot(store: Store, machine: MachineResources, now: float) -> QueueSnapshot:
    """Read what a decision at `now` (seconds since 1970) depends on."""
    running = [
        Allocation(
            (-priority, job),
            demand_of(machine, *demand),
            math.inf if limit is None else (started or now) + limit,
        )
        for job, priority, limit, started, *demand in store.all(
            "SELECT j.id, j.priority, j.time_limit, t.started, j.cores, j.memory, j.queue, j.is_exclusive "
            "FROM tasks t JOIN jobs j ON j.id=t.job "
            "WHERE t.state IN ('waiting', 'running') AND t.state='running'"
        )
    ]
    begins: dict[int, float] = {}
    pending = []
    for job, priority, limit, count, options, *demand in store.all(
        "SELECT j.id, j.priority, j.time_limit, COUNT(*), j.options, j.cores, j.memory, j.queue, "
        "j.is_exclusive "
        "FROM tasks t JOIN jobs j ON j.id=t.job "
        "WHERE t.state IN ('waiting', 'running') AND t.state='waiting' "
        "GROUP BY j.id ORDER BY -j.priority, j.id"
    ):
        time_s = math.inf if limit is None else limit
        pending.append(PendingJob((-priority, job), demand_of(machine, *demand), time_s, count))
        begin = read_options(options).begin
        if begin is not None and begin > now:
            begins[job] = begin
    waits = unmet_dependencies(store)
    able = [each for each in pending if each.job not in waits and each.job not in begins]
    return QueueSnapshot(machine, running, able, waits, begins)
