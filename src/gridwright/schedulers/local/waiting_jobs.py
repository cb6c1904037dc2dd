"""The runner's copy of the waiting jobs, in the order in which it tries to start them."""

from __future__ import annotations

import math
import time
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from gridwright.schedulers.local.identifiers import JobKey
from gridwright.schedulers.local.job_row import JobRow, read_rows
from gridwright.schedulers.local.machine_resources import MachineResources
from gridwright.schedulers.local.policy import PendingJob, Rank
from gridwright.schedulers.local.queries import dependency_progress, unmet_dependencies
from gridwright.schedulers.local.store import Store


@dataclass(slots=True)
class WaitingGroup:
    """A job, or the elements of an array that wait: index and attempt of each."""

    row: JobRow
    tasks: deque[tuple[int, int]]


class WaitingJobs:
    """All waiting jobs of a store. What others write becomes known by `load` and `load_new`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._groups: dict[int, WaitingGroup] = {}
        self._order: list[Rank] = []
        self._unmet: dict[int, list[JobKey]] = {}
        self._newest = 0

    def __len__(self) -> int:
        return len(self._groups)

    def load(self) -> None:
        """Read all anew."""
        self._groups.clear()
        self._order.clear()
        self._unmet.clear()
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
            self._groups[row.id] = WaitingGroup(row, deque(tasks))
            self._newest = row.id
            if row.id in waits:
                self._unmet[row.id] = waits[row.id]
            else:
                insort(self._order, row.rank)
        return bool(rows)

    def pending(self, machine: MachineResources) -> Iterator[PendingJob]:
        """Those that could start, in order: not those that wait for other jobs."""
        for rank in self._order:
            group = self._groups[rank[1]]
            limit = group.row.time_limit_s
            time_s = math.inf if limit is None else limit
            yield PendingJob(rank, group.row.demand(machine), time_s, len(group.tasks))

    def take(self, job: int, count: int) -> Iterator[tuple[JobRow, JobKey, int]]:
        """Take tasks of a job out: row, key and attempt of each."""
        group = self._groups[job]
        for _ in range(count):
            index, attempt = group.tasks.popleft()
            yield group.row, JobKey(job, index), attempt
        if not group.tasks:
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
            states: dict[JobKey, tuple[int, str | None]] = {}
            for job, keys in list(self._unmet.items()):
                for key in [key for key in keys if changed is None or key.job in changed]:
                    if key not in states:
                        states[key] = dependency_progress(self._store, key)
                    left, failed = states[key]
                    if failed is not None:
                        self._cancel(job, key, failed)
                        cancelled.add(job)
                        break
                    if not left:
                        keys.remove(key)
                if not keys and job not in cancelled:
                    del self._unmet[job]
                    insort(self._order, self._groups[job].row.rank)
                    released = True
            if not cancelled:
                return released
            changed = cancelled

    def _cancel(self, job: int, key: JobKey, state: str) -> None:
        self._store.change(
            "UPDATE tasks SET state='cancelled', reason=?, ended=? WHERE job=? AND state='waiting'",
            (f"job {key}, which it waited for, did not complete: {state}", time.time(), job),
        )
        self._drop(job)
