"""Recovery from the death of a runner: the next one goes on with the jobs that it finds.

Guards outlive their runner, so jobs go on and their ends are recorded. Only where a guard was killed, or the
machine stopped, a job was interrupted: what is left of it is ended before it gets its next state, so that no
job ever runs twice at the same time.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection, Iterable

from gridwright.beneath import remove_tree
from gridwright.schedulers.job import JobState
from gridwright.schedulers.local.control_groups import GroupPlaces, end_group
from gridwright.schedulers.local.exit_records import ExitRecord, ExitRecords, JobPhase, boot_identity
from gridwright.schedulers.local.identifiers import JobKey
from gridwright.schedulers.local.job_row import private_directories, read_rows
from gridwright.schedulers.local.launcher import group_name, is_launcher
from gridwright.schedulers.local.outcome import (
    GUARD_KILLED,
    MACHINE_STOPPED,
    JobOutcome,
    RunningJob,
    outcome_of,
)
from gridwright.schedulers.local.processes import (
    Process,
    all_pids,
    identify,
    job_of,
    send_signal,
    with_descendants,
)
from gridwright.schedulers.local.store import Store
from gridwright.schedulers.process_tree import children

GONE_S = 10.0
"""A process that outlives SIGKILL by this much hangs in the kernel: its job is not started again."""
_PAUSE_S = 0.02
"""Seconds between two searches: a process shows no environment while it becomes another program."""

_OVER = """
UPDATE tasks SET exit_status=?, signal=?, reason=?, started=COALESCE(?, started), ended=?, state=?,
    user_s=?, system_s=?, peak_bytes=?
WHERE job=? AND idx=? AND state='running'
"""
_AGAIN = """
UPDATE tasks SET state='waiting', attempt=?, started=NULL, reason=NULL
WHERE job=? AND idx=? AND state='running'
"""
_CANCELLED = """
UPDATE tasks SET state='cancelled', reason=cancel, ended=?
WHERE job=? AND idx=? AND state='waiting' AND cancel IS NOT NULL
"""


def record_end(store: Store, live: RunningJob) -> int | None:
    """Record what became of an attempt, within a transaction; the number of the next one if it waits again.

    It does where it was not started, and where it was interrupted and is to be restarted.
    """
    outcome = live.outcome
    if outcome is None:
        return _record_wait(store, live, live.attempt)
    if outcome.is_interrupted and live.row.is_restarted and live.cancel is None:
        return _record_wait(store, live, live.attempt + 1)
    ended = time.time() if outcome.ended is None else outcome.ended
    times = (outcome.user_s, outcome.system_s, outcome.peak_bytes)
    status = (outcome.exit_status, outcome.signal, live.reason, outcome.started)
    store.change(_OVER, (*status, ended, outcome.state.value, *times, *live.key))
    return None


def _record_wait(store: Store, live: RunningJob, attempt: int) -> int | None:
    """Have a job wait for its next attempt, unless a command has cancelled it meanwhile."""
    store.change(_AGAIN, (attempt, *live.key))
    return None if store.change(_CANCELLED, (time.time(), *live.key)) else attempt


def recover(store: Store, records: ExitRecords, places: GroupPlaces) -> list[RunningJob]:
    """Give jobs that were running their next state, where nobody guards them any more; the others.

    No job may be about to start (`take_launch_lock`). Raises sqlite3.Error: nothing is recorded then.
    """
    found = {(record.key, record.attempt): (slot, record) for slot, record in records.read_all().items()}
    boot = boot_identity()
    same_boot = store.setting("boot") == boot.hex()
    survivors: list[RunningJob] = []
    settled: list[tuple[RunningJob, ExitRecord | None]] = []
    for live in _running(store):
        live.slot, record = found.get((live.key, live.attempt), (0, None))
        if record is not None and record.boot == boot and live.watch_guard(record.guard):
            live.began = record.began
            survivors.append(live)
        else:
            settled.append((live, record))
    lost = [
        live
        for live, record in settled
        if record is None or record.phase in (JobPhase.RUNNING, JobPhase.ENDED)
    ]
    hanging = end_lost(store, lost, places, ()) if lost else set()
    for live, _ in settled:
        if live.key not in hanging:
            live.directories = [directory for directory in live.directories if not remove_tree(directory)]
    with store.transaction(durable=True):
        for live, record in settled:
            started = not same_boot and (live.attempt > 0 or os.path.exists(store.log_of(live.key)))  # noqa: PTH110
            live.outcome = _settled(live, record, started=started, hangs=live.key in hanging)
            record_end(store, live)
        store.put_setting("boot", boot.hex())
    return survivors


def _running(store: Store) -> list[RunningJob]:
    """The jobs that the store says to be running."""
    found = []
    for row in read_rows(store, "running"):
        for index, attempt, cancel in store.all(
            "SELECT idx, attempt, cancel FROM tasks WHERE job=? AND state='running'", (row.id,)
        ):
            key = JobKey(row.id, index)
            directories = [] if row.is_kept else private_directories(store, row, key, attempt)
            found.append(RunningJob(row, key, attempt, slot=0, directories=directories, cancel=cancel))
    return found


def end_lost(
    store: Store, lost: Collection[RunningJob], places: GroupPlaces, known: Collection[int]
) -> set[JobKey]:
    """Kill all processes of jobs whose guards were killed; of which jobs some do not end.

    They are found by their control groups, by their descent from this process or its parent, who have adopted
    what is left (`known` are children of these that are to stay), and by token and log.
    """
    deadline = time.monotonic() + GONE_S
    keys = {live.key for live in lost}
    clean = 0
    while True:
        groups = [end_group(places, group_name(live.slot)) for live in lost if live.slot]
        found = _find(store, keys)
        strays = _strays(store, known)
        clean = 0 if found or strays or not all(groups) else clean + 1
        # Twice: a process may have escaped a search by starting another one.
        if clean == 2:
            return set()
        if time.monotonic() > deadline:
            return set(found.values())
        send_signal([*found, *strays], signal.SIGKILL)
        time.sleep(_PAUSE_S)


def _find(store: Store, keys: Collection[JobKey]) -> dict[Process, JobKey]:
    """Processes of some jobs, by what they show, with all that descend from them."""
    owners = {pid: key for pid in all_pids() if (key := job_of(store, pid)) is not None and key in keys}
    return {
        process: key
        for pid, key in owners.items()
        for process in identify(with_descendants([pid]))
        if process.pid != os.getpid()
    }


def _strays(store: Store, known: Collection[int]) -> list[Process]:
    """What has come to this process, or to its supervisor, when its own parents ended."""
    here, above = os.getpid(), os.getppid()
    adopted: Iterable[int] = children(here)
    if _is_supervisor(above):
        adopted = [*adopted, *children(above)]
    tops = [pid for pid in adopted if pid not in known and pid != here and not is_launcher(pid, store.state)]
    return identify(with_descendants(tops))


def _is_supervisor(pid: int) -> bool:
    """Whether a process is the supervisor of this one, whose command line is the same."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as its, open("/proc/self/cmdline", "rb") as mine:  # noqa: PTH123
            return its.read() == mine.read()
    except OSError:
        return False


def _settled(live: RunningJob, record: ExitRecord | None, *, started: bool, hangs: bool) -> JobOutcome | None:
    """What became of a job that nobody guards; None: it was not started.

    `started` is whether one without a record was: the machine may have stopped before that was on the disk.
    """
    if record is None:
        if hangs or started:
            return _interrupted(MACHINE_STOPPED, live, hangs=hangs)
        return None
    if record.phase is JobPhase.REFUSED:
        return None
    if record.phase is JobPhase.OVER:
        return outcome_of(record, live.row, live.cancel)
    return lost_outcome(live, record, hangs=hangs)


def lost_outcome(live: RunningJob, record: ExitRecord, *, hangs: bool) -> JobOutcome:
    """What became of a job whose guard ended before it was done."""
    if record.wait_status is not None:
        return outcome_of(record, live.row, live.cancel)
    why = GUARD_KILLED if record.boot == boot_identity() else MACHINE_STOPPED
    return _interrupted(why, live, hangs=hangs)


def _interrupted(why: str, live: RunningJob, *, hangs: bool) -> JobOutcome:
    if hangs:
        why = f"{why}, and its processes cannot be ended"
    if live.cancel is not None:
        return JobOutcome(JobState.CANCELLED, reason=live.cancel)
    return JobOutcome(JobState.NODE_FAILED, reason=why, is_final=hangs)
