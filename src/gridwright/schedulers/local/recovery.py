"""Recovery from the death of a runner: the next one ends the jobs that it left, and cleans up after them.

Nothing is started before every process of those jobs is gone, so no job ever runs twice at the same time.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass

from gridwright.schedulers.job import JobState
from gridwright.schedulers.local.attempt import private_directories
from gridwright.schedulers.local.identifiers import JobKey
from gridwright.schedulers.local.job_row import JobRow, read_rows
from gridwright.schedulers.local.processes import (
    Process,
    all_pids,
    identify,
    job_of,
    send_signal,
    with_descendants,
)
from gridwright.schedulers.local.store import Store
from gridwright.schedulers.removal import remove_tree

GONE_S = 10.0
"""A process that outlives SIGKILL by this much hangs in the kernel: its job is not started again."""
_PAUSE_S = 0.02
"""Seconds between two searches: a process shows no environment while it becomes another program."""
LOST = "its runner was killed"


@dataclass(frozen=True, slots=True)
class _Interrupted:
    """An attempt of a job that was running when its runner died."""

    row: JobRow
    key: JobKey
    attempt: int
    cancel: str | None
    outcome: str | None
    reason: str | None


def recover(store: Store) -> None:
    """End what is left of jobs whose runner died, and give them their next state."""
    jobs = [left for row in read_rows(store, "running") for left in _tasks(store, row)]
    if not jobs:
        return
    met, hanging = _end_processes(store)
    remains = {left.key: _remove(store, left) for left in jobs if left.key not in hanging}
    with store.transaction():
        for left in jobs:
            started = left.key in met or left.attempt > 0 or os.path.exists(store.log_of(left.key))  # noqa: PTH110
            _record(store, left, started, left.key in hanging, remains.get(left.key, []))


def _tasks(store: Store, row: JobRow) -> list[_Interrupted]:
    return [
        _Interrupted(row, JobKey(row.id, index), *rest)
        for index, *rest in store.all(
            "SELECT idx, attempt, cancel, outcome, reason FROM tasks WHERE job=? AND state='running'",
            (row.id,),
        )
    ]


def _end_processes(store: Store) -> tuple[set[JobKey], set[JobKey]]:
    """Kill all processes of jobs; of which jobs some were met, and of which some do not end."""
    met: set[JobKey] = set()
    deadline = time.monotonic() + GONE_S
    clean = 0
    while True:
        found = _find(store)
        met.update(found.values())
        clean = 0 if found else clean + 1
        # Twice: a process may have escaped a search by starting another one.
        if clean == 2:
            return met, set()
        if time.monotonic() > deadline:
            return met, set(found.values())
        send_signal(list(found), signal.SIGKILL)
        time.sleep(_PAUSE_S)


def _find(store: Store) -> dict[Process, JobKey]:
    """Processes of jobs of this store, with all that descend from them."""
    owners = {pid: key for pid in all_pids() if (key := job_of(store, pid)) is not None}
    return {
        process: key
        for pid, key in owners.items()
        for process in identify(with_descendants([pid]))
        if process.pid != os.getpid()
    }


def _remove(store: Store, left: _Interrupted) -> list[str]:
    """Remove the private directories of a job; those that could not be removed."""
    if left.row.is_kept and left.outcome is not None:
        return []
    directories = private_directories(store, left.row, left.key, left.attempt)
    return [os.fsdecode(each) for each in directories if not remove_tree(each)]


def _record(store: Store, left: _Interrupted, started: bool, hangs: bool, remains: list[str]) -> None:
    state, reason = _next_state(left, started=started, hangs=hangs)
    if state is JobState.WAITING:
        store.change(
            "UPDATE tasks SET state='waiting', attempt=?, started=NULL, reason=NULL "
            "WHERE job=? AND idx=? AND state='running'",
            (left.attempt + started, *left.key),
        )
        return
    if remains:
        reason = "; ".join(part for part in (reason, f"left: {', '.join(remains)}") if part)
    store.change(
        "UPDATE tasks SET state=?, reason=?, ended=COALESCE(ended, ?) "
        "WHERE job=? AND idx=? AND state='running'",
        (state.value, reason, time.time(), *left.key),
    )


def _next_state(left: _Interrupted, *, started: bool, hangs: bool) -> tuple[JobState, str | None]:
    if left.outcome is not None:
        return JobState(left.outcome), left.reason
    if left.cancel is not None:
        return JobState.CANCELLED, left.cancel
    if hangs:
        return JobState.NODE_FAILED, f"{LOST}, and its processes cannot be ended"
    if left.row.is_restarted or not started:
        return JobState.WAITING, None
    return JobState.NODE_FAILED, LOST
