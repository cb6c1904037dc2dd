"""The runner's copy of the waiting jobs, in the order in which it tries to start them."""

from __future__ import annotations

import math
import time
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush

from gridwright.schedulers.dependency import DependencyType
from gridwright.schedulers.local.identifiers import JobKey
from gridwright.schedulers.local.job_row import JobRow, read_rows
from gridwright.schedulers.local.machine_resources import MachineResources
from gridwright.schedulers.local.policy import PendingJob, Rank
from gridwright.schedulers.local.queries import (
    DependencyProgress,
    UnmetDependency,
    dependency_progress,
    ended_elements,
    unmet_dependencies,
)
from gridwright.schedulers.local.store import Store


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
