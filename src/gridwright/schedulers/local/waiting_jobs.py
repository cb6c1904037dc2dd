"""The jobs that wait, in the order in which the runner tries to start them, and why each still waits.

The explanation comes from the same decision that the runner makes.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from gridwright.schedulers.job import Job, JobExplanation, JobState, PlacementCheck, Requirement
from gridwright.schedulers.job_request import DependencyType
from gridwright.schedulers.local.job_table import (
    DependencyProgress,
    JobRow,
    QueueSnapshot,
    UnmetDependency,
    dependencies_of,
    dependency_progress,
    ended_elements,
    queue_snapshot,
    read_jobs,
    read_rows,
    unmet_dependencies,
)
from gridwright.schedulers.local.policy import (
    Block,
    Decision,
    MachineResources,
    Obstacle,
    PendingJob,
    Rank,
    decide,
)
from gridwright.schedulers.local.store import JobKey, Store
from gridwright.units import format_bytes


@dataclass(slots=True)
class WaitingGroup:
    """A job, or the elements of an array that wait: index and attempt of each."""

    row: JobRow
    tasks: deque[tuple[int, int]]
    held: dict[int, int] = field(default_factory=dict)
    """Elements that each wait for one of another array, with their attempts."""


class WaitingJobs:
    """All waiting jobs of a store. What others write becomes known by `load` and `load_new`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._groups: dict[int, WaitingGroup] = {}
        self._order: list[Rank] = []
        self._unmet: dict[int, list[UnmetDependency]] = {}
        self._begins: list[float] = []
        """Begin times to come, as a heap."""
        self._newest = 0

    def __len__(self) -> int:
        return len(self._groups)

    def load(self) -> None:
        """Read all anew."""
        self._groups.clear()
        self._order.clear()
        self._unmet.clear()
        self._begins.clear()
        self._newest = 0
        self.load_new()

    def load_new(self) -> bool:
        """Read jobs that were submitted since; whether there are any."""
        rows = read_rows(self._store, "waiting", beyond=self._newest)
        waits = unmet_dependencies(self._store) if rows else {}
        for row in rows:
            tasks = self._store.all(
                "SELECT idx, attempt FROM tasks WHERE job=? AND state='waiting' ORDER BY idx", (row.id,)
            )
            self._newest = row.id
            unmet = waits.get(row.id, [])
            singly = any(each.type is DependencyType.EACH for each in unmet)
            self._groups[row.id] = WaitingGroup(
                row, deque(() if singly else tasks), dict(tasks if singly else ())
            )
            if unmet:
                self._unmet[row.id] = unmet
            if _is_free(unmet):
                insort(self._order, row.rank)
            if row.options.begin is not None:
                heappush(self._begins, row.options.begin)
        return bool(rows)

    def begins_in_s(self, now: float) -> float:
        """How long it is until the next begin time; infinity where none is to come."""
        return max(0.0, self._begins[0] - now) if self._begins else math.inf

    def has_begun(self, now: float) -> bool:
        """Whether a begin time has come since it was last asked."""
        come = False
        while self._begins and self._begins[0] <= now:
            heappop(self._begins)
            come = True
        return come

    def pending(self, machine: MachineResources, now: float) -> Iterator[PendingJob]:
        """Those that could start at `now` (seconds since 1970), in order: not those that wait for others."""
        for rank in self._order:
            group = self._groups[rank[1]]
            if not group.tasks or (group.row.options.begin or 0.0) > now:
                continue
            limit = group.row.time_limit_s
            time_s = math.inf if limit is None else limit
            yield PendingJob(rank, group.row.demand(machine), time_s, len(group.tasks))

    def take(self, job: int, count: int) -> Iterator[tuple[JobRow, JobKey, int]]:
        """Take tasks of a job out: row, key and attempt of each."""
        group = self._groups[job]
        for _ in range(count):
            index, attempt = group.tasks.popleft()
            yield group.row, JobKey(job, index), attempt
        if not group.tasks and not group.held:
            self._drop(job)

    def put_back(self, row: JobRow, key: JobKey, attempt: int) -> None:
        """Have a task wait again."""
        if row.id not in self._groups:
            self._groups[row.id] = WaitingGroup(row, deque())
            insort(self._order, row.rank)
        self._groups[row.id].tasks.appendleft((key.element, attempt))

    def _drop(self, job: int) -> None:
        group = self._groups.pop(job)
        self._unmet.pop(job, None)
        at = bisect_left(self._order, group.row.rank)
        if self._order[at : at + 1] == [group.row.rank]:
            del self._order[at]

    def check_dependencies(self, changed: set[int] | None) -> bool:
        """Release jobs whose dependencies have completed, cancel those of which one did not.

        `changed` are the jobs of which tasks got a final state; None: any may have. Within a transaction.
        Whether anything was released.
        """
        released = False
        while True:
            cancelled: set[int] = set()
            known: dict[UnmetDependency, DependencyProgress] = {}
            for job in list(self._unmet):
                freed, ended = self._check_job(job, changed, known)
                released |= freed
                if ended:
                    cancelled.add(job)
            if not cancelled:
                return released
            changed = cancelled

    def _check_job(
        self, job: int, changed: set[int] | None, known: dict[UnmetDependency, DependencyProgress]
    ) -> tuple[bool, bool]:
        """Do that for one job; whether anything of it was released, and whether anything was cancelled."""
        unmet = self._unmet[job]
        was_free, freed, ended = _is_free(unmet), False, False
        for each in [dependency for dependency in unmet if changed is None or dependency.key.job in changed]:
            if each.type is DependencyType.EACH:
                some_freed, some_ended = self._release_elements(job, each)
                freed, ended = freed or some_freed, ended or some_ended
                if job not in self._groups:
                    return freed, ended
            if each not in known:
                known[each] = dependency_progress(self._store, each)
            if (why := known[each].why_never) is not None:
                self._cancel(job, why)
                return freed, True
            if known[each].met:
                unmet.remove(each)
        if not was_free and _is_free(unmet):
            insort(self._order, self._groups[job].row.rank)
            freed = True
        if not unmet:
            del self._unmet[job]
        return freed, ended

    def _release_elements(self, job: int, dependency: UnmetDependency) -> tuple[bool, bool]:
        """Release elements whose counterparts have completed, cancel others; whether there were such."""
        group = self._groups[job]
        freed = ended = False
        for index, state in sorted(ended_elements(self._store, job, dependency).items()):
            if index not in group.held:
                continue
            attempt = group.held.pop(index)
            if state == "completed":
                group.tasks.append((index, attempt))
                freed = True
                continue
            why = f"job {dependency.key}_{index}, which it waited for, did not complete: {state}"
            self._store.change(
                "UPDATE tasks SET state='cancelled', reason=?, ended=? "
                "WHERE job=? AND idx=? AND state='waiting'",
                (why, time.time(), job, index),
            )
            ended = True
        if not group.tasks and not group.held:
            self._drop(job)
        return freed, ended

    def _cancel(self, job: int, why: str) -> None:
        self._store.change(
            "UPDATE tasks SET state='cancelled', reason=?, ended=? WHERE job=? AND state='waiting'",
            (why, time.time(), job),
        )
        self._drop(job)


def _is_free(unmet: Iterable[UnmetDependency]) -> bool:
    """Whether a job could start by what it waits for, but for elements that wait singly."""
    return all(dependency.type is DependencyType.EACH for dependency in unmet)


_NEXT = "starts next"


def reasons(now: QueueSnapshot) -> dict[int, str]:
    """Why each waiting job waits, in words, by its number."""
    decision = _decide(now)
    pending = {pending_job.job: pending_job for pending_job in now.pending}
    found = {job: _block(block, pending[job], now) for job, block in decision.blocks.items()}
    found |= {job: _NEXT for job, _ in decision.starts if job not in found}
    found |= {job: f"waits until {_moment(begin)}" for job, begin in now.begins.items()}
    found |= {job: f"waits for job {_names(unmet)}" for job, unmet in now.waits_for.items()}
    return found


def _decide(now: QueueSnapshot) -> Decision:
    return decide(now.machine, now.running, now.pending, 0.0, all_reasons=True)


def _names(unmet: Sequence[UnmetDependency]) -> str:
    return ", ".join(map(str, unmet))


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def _block(block: Block, pending_job: PendingJob, now: QueueSnapshot) -> str:
    demand = pending_job.demand
    free_cores = now.machine.cores - sum(allocation.demand.cores for allocation in now.running)
    free_memory = now.machine.memory_bytes - sum(allocation.demand.memory_bytes for allocation in now.running)
    if block.obstacle is Obstacle.CORES:
        return f"waits for {_cores(demand.cores)}: {max(0, free_cores)} of {now.machine.cores} are free"
    if block.obstacle is Obstacle.MEMORY:
        needed, free = format_bytes(demand.memory_bytes), format_bytes(max(0, free_memory))
        return f"waits for {needed} of memory: {free} are free"
    if block.obstacle is Obstacle.QUEUE:
        limit = now.machine.queues[demand.queue].cores
        return f"waits for {_cores(demand.queue_cores)} of the {limit} that queue {demand.queue} may use"
    if block.obstacle is Obstacle.RESERVED:
        return f"would delay job {block.behind}, which is ahead of it"
    return "needs more than this machine gives to jobs"


def _cores(number: int) -> str:
    return f"{number} core{'s'[: number != 1]}"


def explain(store: Store, machine: MachineResources, key: JobKey, when: float) -> JobExplanation:
    """Hold what a job needs against what there is at `when` (seconds since 1970)."""
    jobs = read_jobs(store, [key])
    job = next((each for each in jobs if each.state is JobState.WAITING), jobs[0])
    if job.state is not JobState.WAITING:
        return JobExplanation(job=job, summary=_not_waiting(job, jobs))
    now = queue_snapshot(store, machine, when)
    candidates = [
        PlacementCheck(place=f"queue {job.queue}", requirements=list(_before(store, machine, job, key, now))),
        PlacementCheck(place="this machine", requirements=list(_machine(machine, job, key.job, now))),
    ]
    why = reasons(now).get(key.job, _NEXT)
    return JobExplanation(job=job, summary=f"Job {job.id} {_sentence(why)}.", candidates=candidates)


def _sentence(why: str) -> str:
    return why if why.startswith(("waits", "starts", "would", "needs")) else f"waits: {why}"


def _not_waiting(job: Job, jobs: Sequence[Job]) -> str:
    if len(jobs) > 1:
        states = [each.state for each in jobs]
        parts = [f"{states.count(state)} {state}" for state in dict.fromkeys(states)]
        return f"No element of array {job.id.partition('_')[0]} waits: {', '.join(parts)}."
    if job.state is JobState.RUNNING:
        return f"Job {job.id} runs."
    return f"Job {job.id} has ended: {job.state}{f', {job.reason}' if job.reason else ''}."


def _before(
    store: Store, machine: MachineResources, job: Job, key: JobKey, now: QueueSnapshot
) -> Iterator[Requirement]:
    for dependency in dependencies_of(store, key.job):
        progress = dependency_progress(store, dependency)
        yield Requirement(
            name="dependency",
            required=f"job {dependency.key} {dependency.type.required}",
            provided=progress.provided,
            fits=progress.met,
        )
    if (begin := now.begins.get(key.job)) is not None:
        yield Requirement(name="begin", required=_moment(begin), provided="not yet", fits=False)
    limits = machine.queues.get(str(job.queue))
    used = sum(
        allocation.demand.queue_cores for allocation in now.running if allocation.demand.queue == job.queue
    )
    if limits is not None and limits.cores is not None:
        free = limits.cores - used
        yield Requirement(
            name="cores of the queue",
            required=str(job.cores),
            provided=f"{max(0, free)} of {limits.cores} free",
            fits=job.cores <= free,
        )
    if limits is not None and limits.time_s is not None:
        (asked,) = store.one("SELECT time_limit FROM jobs WHERE id=?", (key.job,))
        yield Requirement(
            name="time", required=f"{asked:g} s", provided=f"{limits.time_s:g} s", fits=asked <= limits.time_s
        )


def _machine(machine: MachineResources, job: Job, number: int, now: QueueSnapshot) -> Iterator[Requirement]:
    pending_job = next((pending_job for pending_job in now.pending if pending_job.job == number), None)
    cores = pending_job.demand.cores if pending_job else job.cores
    memory = pending_job.demand.memory_bytes if pending_job else job.memory_bytes or 0
    free_cores = max(0, machine.cores - sum(allocation.demand.cores for allocation in now.running))
    free_memory = max(
        0, machine.memory_bytes - sum(allocation.demand.memory_bytes for allocation in now.running)
    )
    yield Requirement(
        name="cores",
        required=str(cores),
        provided=f"{free_cores} of {machine.cores} free",
        fits=cores <= free_cores,
    )
    yield Requirement(
        name="memory",
        required=format_bytes(memory),
        provided=f"{format_bytes(free_memory)} of {format_bytes(machine.memory_bytes)} free",
        fits=memory <= free_memory,
    )
    if pending_job is None:
        return
    block = _decide(now).blocks.get(number)
    ahead = [each.job for each in now.pending if each.rank < pending_job.rank]
    shown = ", ".join(map(str, ahead[:5])) + (f" and {len(ahead) - 5} more" if len(ahead) > 5 else "")
    reserved = block is not None and block.obstacle is Obstacle.RESERVED
    yield Requirement(
        name="priority",
        required="no job ahead that it would delay",
        provided=f"would delay job {block.behind}" if block and reserved else f"ahead: {shown or 'none'}",
        fits=not reserved,
    )
