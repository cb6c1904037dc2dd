"""The runner starts jobs, watches them and records their ends; it exits when nothing is left to do.

    python -m gridwright.schedulers.local.runner STATE LOCK

A command starts it; see `runner_lock`. It is one process without threads, so that it can fork, and it keeps
nothing in memory that it could not read again, so that it can be killed at any time: jobs run under guards,
and the next runner goes on with them. Each step is one transaction: it records the jobs that have ended, and
marks those as running that it starts next.

Retention: jobs that ended long ago are deleted, with their logs.

The supervisor of the runner: when that is killed, it starts another, which goes on with its jobs.

All jobs are below it, whatever they do to hide: it is the subreaper of the runner, as the runner is of the
launcher and that of guards (PR_SET_CHILD_SUBREAPER). It does nothing else, and knows nothing of the store.
When both are killed, jobs go on under their guards, and the next command starts another supervisor.

What keeps the runner from its work, told where commands find it and in the runner's own log.

The kind `local`: the scheduler built into Gridwright, for the machine that it runs on.

What local jobs used, out of the store: as long as it remembers them.

The local scheduler behind the protocol that all schedulers share.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import os
import select
import signal
import socket
import sqlite3
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from gridwright.own_directories import state_home
from gridwright.schedulers.job import Job, JobExplanation, JobRequest, JobState, NodeState, read_options
from gridwright.schedulers.kind import SchedulerKind
from gridwright.schedulers.local.job_table import (
    JobRow,
    check_requests,
    find_keys,
    insert,
    queue_snapshot,
    read_jobs,
)
from gridwright.schedulers.local.outcome import ExitRecords, RunnerTrouble, RunningJob, read_trouble
from gridwright.schedulers.local.policy import Allocation, MachineResources, decide, machine_resources
from gridwright.schedulers.local.runner_lock import LOCK, ensure_runner, open_wakeup_pipe, try_lock, unlock
from gridwright.schedulers.local.running_jobs import RunningJobs, record_end
from gridwright.schedulers.local.store import JobKey, Store
from gridwright.schedulers.local.waiting_jobs import WaitingJobs, explain, reasons
from gridwright.schedulers.process_tree import adopt_orphans
from gridwright.schedulers.usage import JobUsage
from gridwright.spec.model import GridSpec
from gridwright.spec.scheduler import REPLACED, SchedulerSection
from gridwright.trusted import user_name

if TYPE_CHECKING:
    from gridwright.schedulers.head_node import HeadNode


class LocalScheduler:
    """Runs jobs on this machine. Every method also starts a runner where there is work and none runs."""

    def __init__(self, spec: GridSpec, state: Path) -> None:
        """`state` is the grid's state directory. Raises GridwrightError for a grid of several machines."""
        self._machine = machine_resources(spec)
        self._section = spec.scheduler
        self._state = state
        self._opened: Store | None = None

    @property
    def _store(self) -> Store:
        if self._opened is None:
            self._opened = Store(self._state)
            if self._opened.site() != self._machine:
                with self._opened.translated_errors(), self._opened.transaction():
                    self._opened.put_setting("site", self._machine.to_json())
        return self._opened

    @property
    def _seen(self) -> Store:
        """The store; nothing is made for who looks."""
        return self._opened or Store(self._state, looks=True)

    def submit(self, requests: Sequence[JobRequest]) -> list[str]:
        """Submit jobs, all or none; see Scheduler."""
        store = self._store
        with store.translated_errors():
            with store.transaction():
                checked = check_requests(requests, self._machine, store, self._section)
                identifiers = insert(store, checked, self._machine)
            ensure_runner(self._state)
        return identifiers

    def jobs(self, identifiers: Collection[str] | None = None) -> list[Job]:
        """How jobs stand; see Scheduler."""
        store = self._seen
        with store.translated_errors():
            keys = None if identifiers is None else find_keys(store, identifiers)
            self._ensure_runner(store)
            jobs = read_jobs(store, keys)
            trouble = read_trouble(self._state)
            why: dict[int, str] = {}
            if not trouble.note and any(job.state is JobState.WAITING for job in jobs):
                why = reasons(queue_snapshot(store, self._machine, time.time()))
        return [_with_reason(job, why, trouble) for job in jobs]

    def cancel(self, identifiers: Collection[str]) -> None:
        """End jobs; see Scheduler."""
        store = self._store
        why = f"cancelled by {user_name(os.getuid())}"
        with store.translated_errors():
            with store.transaction():
                for key in find_keys(store, identifiers):
                    self._cancel(key, why)
                store.put_setting("cancellations", int(store.setting("cancellations")) + 1)
            ensure_runner(self._state)

    def _cancel(self, key: JobKey, why: str) -> None:
        self._store.change(
            "UPDATE tasks SET state='cancelled', reason=?, ended=? "
            "WHERE job=? AND idx BETWEEN ? AND ? AND state='waiting'",
            (why, time.time(), *key.tasks),
        )
        self._store.change(
            "UPDATE tasks SET cancel=? "
            "WHERE job=? AND idx BETWEEN ? AND ? AND state='running' AND cancel IS NULL",
            (why, *key.tasks),
        )

    def explain(self, identifier: str) -> JobExplanation:
        """Hold what a job needs against what there is; see Scheduler."""
        store = self._seen
        with store.translated_errors():
            (key,) = find_keys(store, [identifier])
            self._ensure_runner(store)
            explanation = explain(store, self._machine, key, time.time())
        note = read_trouble(self._state).note
        if note and explanation.job.state is JobState.WAITING:
            return replace(explanation, summary=f"Job {explanation.job.id} waits: {note}.")
        return explanation

    def nodes(self) -> list[NodeState]:
        """The one node there is; see Scheduler."""
        store = self._seen
        with store.translated_errors():
            self._ensure_runner(store)
            running = queue_snapshot(store, self._machine, time.time()).running
        cores = sum(allocation.demand.cores for allocation in running)
        memory = sum(allocation.demand.memory_bytes for allocation in running)
        return [
            NodeState(
                name=socket.gethostname(),
                up=True,
                state="busy" if cores >= self._machine.cores else "mixed" if cores else "idle",
                cores=self._machine.cores,
                memory_bytes=self._machine.memory_bytes,
                free_cores=max(0, self._machine.cores - cores),
                free_memory_bytes=max(0, self._machine.memory_bytes - memory),
            )
        ]

    def _ensure_runner(self, store: Store) -> None:
        if store.has_unfinished():
            ensure_runner(self._state)


def _with_reason(job: Job, why: Mapping[int, str], trouble: RunnerTrouble) -> Job:
    """A job with what keeps it from starting, or from being recorded, in words."""
    if job.state is JobState.WAITING:
        return replace(job, reason=trouble.note or why.get(int(job.id.partition("_")[0]), job.reason))
    if trouble.note and job.state is JobState.RUNNING and job.id in trouble.unrecorded:
        return replace(job, reason=f"has ended, and is recorded later: {trouble.note}")
    return job


_ENDED = """
SELECT t.job, t.idx, j.name, t.state, j.user, j.queue, j.cores, j.memory, j.submitted, t.started, t.ended,
    t.user_s, t.system_s, t.peak_bytes, j.options
FROM tasks t JOIN jobs j ON j.id=t.job
WHERE t.state NOT IN ('waiting', 'running') AND t.ended BETWEEN ? AND ? ORDER BY t.ended
"""


def read_usage(store: Store, since: float, until: float) -> list[JobUsage]:
    """Jobs that ended from `since` to `until`, in seconds since 1970. Raises sqlite3.Error."""
    found = []
    for row in store.all(_ENDED, (since, until)):
        options = read_options(row[14])
        begun = None if options.begin is None else max(options.begin, row[8])
        found.append(
            JobUsage(
                id=str(JobKey(row[0], row[1])),
                name=os.fsdecode(row[2]),
                state=JobState(row[3]),
                user=row[4],
                account=options.account,
                queue=row[5],
                node=socket.gethostname() if row[9] is not None else None,
                cores=row[6],
                memory_bytes=row[7],
                submitted=row[8],
                started=row[9],
                ended=row[10],
                cpu_s=None if row[11] is None else row[11] + (row[12] or 0.0),
                memory_peak_bytes=row[13],
                eligible=begun,
            )
        )
    return found


class LocalSchedulerSection(SchedulerSection):
    """The scheduler built into Gridwright, for one machine."""

    runs_on_one_machine: ClassVar[bool] = True
    remembers_jobs_s: ClassVar[float | None] = 30 * 86_400.0
    job_options: ClassVar[frozenset[str]] = frozenset(
        {"account", "begin", "nice", "stderr", "stdin", "stdout"}
    )
    job_options_instead: ClassVar[Mapping[str, str]] = {
        "gres": "set CUDA_VISIBLE_DEVICES in the command, and --exclusive keeps other jobs away",
        "constraint": "leave it out: there is one machine",
        "reservation": "leave it out: start it at a time with --begin",
    }
    dependency_types: ClassVar[frozenset[str]] = frozenset({"ok", "any", "not-ok", "each"})

    type: Annotated[Literal["local"], REPLACED] = Field(
        default="local",
        description="The kind of scheduler: local is the one built into Gridwright, for one machine.",
    )


class LocalSchedulerKind(SchedulerKind[LocalSchedulerSection]):
    """Runs jobs as processes of this machine, and needs no service."""

    spec_model = LocalSchedulerSection

    def open(self, spec: GridSpec, head: HeadNode) -> LocalScheduler:
        """The queue of this machine; see SchedulerKind."""
        from gridwright.schedulers.state_directory import state_directory

        return LocalScheduler(spec, state_directory(spec))

    def usage(self, spec: GridSpec, head: HeadNode, since: float, until: float) -> list[JobUsage]:
        """Out of the store, which remembers jobs for 30 days; see SchedulerKind."""
        from gridwright.schedulers.local.store import Store
        from gridwright.schedulers.state_directory import state_directory

        store = Store(state_directory(spec), looks=True)
        with store.translated_errors():
            return read_usage(store, since, until)

    def state_directory(self, spec: GridSpec) -> Path:
        """A directory of the user's own, as the XDG Base Directory Specification has it for state.

        Grids of one name whose specs are in different directories have one each.
        """
        name = spec.name if spec.file is None else f"{spec.name}-{_mark(spec.file.parent)}"
        return state_home() / "gridwright" / name


def _mark(directory: Path) -> str:
    """Eight characters that stand for a directory, by whichever path it was reached."""
    return hashlib.sha256(os.fsencode(directory.resolve())).hexdigest()[:8]


KIND = LocalSchedulerKind()


_CLEAR_S = 1.0
"""What was not seen for so long is over."""


class TroubleNote:
    """The trouble of a runner, as commands are told of it."""

    def __init__(self, store: Store, records: ExitRecords) -> None:
        self._store = store
        self._records = records
        self._told: str | None = None
        self._seen = 0.0
        with contextlib.suppress(OSError):
            self._told = records.note() or None

    def note(self, error: Exception | str) -> str:
        """Tell of an error, or of what refuses to start jobs; what it is called."""
        text = error if isinstance(error, str) else self._named(error)
        if f": {os.strerror(28)}" in text:
            text = self._store.full_disk
        self._seen = time.monotonic()
        if text != self._told:
            self._told = text
            with contextlib.suppress(OSError):
                self._records.put_note(text)
            # The disk of the log may be the one that is full.
            with contextlib.suppress(OSError):
                print(f"{time.time():.0f} {text}", file=sys.stderr, flush=True)  # noqa: T201
        return text

    def _named(self, error: Exception) -> str:
        if self._store.is_full(error):
            return self._store.full_disk
        if isinstance(error, OSError):
            return f"{error.strerror}: {error.filename}" if error.filename else str(error)
        return f"the store refused: {error}"

    def clear(self) -> None:
        """Say that nothing keeps it from its work, if nothing has for a moment."""
        if self._told is not None and time.monotonic() - self._seen > _CLEAR_S:
            self._told = None
            with contextlib.suppress(OSError):
                self._records.put_note("")


GIVE_UP = 5
"""So many runners in a row that fail within LASTED_S: the next command tries again."""
LASTED_S = 10.0
_PAUSE_S = 0.02


def supervise(run: Callable[[], None]) -> None:
    """Call `run` in a child process, and again in a new one if that is killed or fails."""
    adopt_orphans()
    failures = 0
    while failures < GIVE_UP:
        began = time.monotonic()
        pid = os.fork()
        if not pid:
            # Returns in the child: what it raises becomes a traceback in the runner's output, and status 1.
            run()
            os._exit(0)
        if _wait(pid) == 0:
            return
        failures = failures + 1 if time.monotonic() - began < LASTED_S else 1
        time.sleep(_PAUSE_S * 2**failures)


def _wait(pid: int) -> int:
    """The status of the runner when it has ended; reaps others meanwhile."""
    while True:
        ended, status = os.wait()
        if ended == pid:
            return status


RETENTION_S = LocalSchedulerSection.remembers_jobs_s or 0.0
"""How long a job is remembered after its end, or the end of the last element of its array."""
_AT_ONCE = 100_000
"""Tasks, so that it takes a second or so however many there are; the rest goes another time."""


def delete_old_jobs(store: Store, now: float) -> int:
    """Delete jobs that ended long before `now` (s since 1970), if none waits or runs; how many tasks."""
    with store.transaction():
        if store.has_unfinished():
            # It may refer to one of them.
            return 0
        old = store.all(
            "SELECT job FROM tasks GROUP BY job HAVING MAX(ended) < ? ORDER BY job", (now - RETENTION_S,)
        )
        forgotten = 0
        for (job,) in old:
            tasks = store.all("SELECT idx FROM tasks WHERE job=?", (job,))
            for (index,) in tasks:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(store.log_of(JobKey(job, index)))  # noqa: PTH108
            for statement in (
                "DELETE FROM dependencies WHERE job=?",
                "DELETE FROM tasks WHERE job=?",
                "DELETE FROM jobs WHERE id=?",
            ):
                store.change(statement, (job,))
            forgotten += len(tasks)
            if forgotten >= _AT_ONCE:
                break
    return forgotten


LINGER_S = 2.0
"""How long it stays when there is nothing to do: commands often come one after another."""
_IDLE_S = 1.0
_SOON_S = 0.01
_BUSY_S = 2.0
_AGAIN_S = 0.2
"""Before it tries again what the store, or the system, refused."""
_REMOVED_S = 1.0
"""How long jobs are waited for whose state directory is gone."""
_WORTH_A_SYNC_S = 1.0
"""A job that ran for so long is recorded on the disk, as its guard does it."""

_COMPLETE = """
UPDATE tasks SET state='completed', exit_status=0, started=?, ended=?
WHERE job=? AND idx=? AND state='waiting'
"""
_RUN = "UPDATE tasks SET state='running', started=? WHERE job=? AND idx=? AND state='waiting'"

Task = tuple[JobRow, JobKey, int]


class Runner:
    """The runner of one state directory."""

    def __init__(self, state: Path, lock: int) -> None:
        self._state = state
        self._lock = lock
        self._store = Store(state, durable=False, busy_s=_BUSY_S)
        self._waiting = WaitingJobs(self._store)
        self._poll = select.poll()
        self._wakeup = open_wakeup_pipe(state)
        self._signals = _listen_to_children()
        for fd in (self._wakeup, self._signals):
            if fd is not None:
                self._poll.register(fd, select.POLLIN)
        self._running = RunningJobs(self._store, self._poll)
        self._trouble = TroubleNote(self._store, self._running.records)
        self._unwritten: list[tuple[RunningJob, str]] = []
        """Jobs that have ended, or were not started for a reason."""
        self._finals: set[int] = set()
        self._seen: int | None = None
        self._machine: MachineResources | None = None
        self._cancellations: object = None
        self._decide = True
        self._all_dependencies = True

    def run(self) -> None:
        """Run until nothing is left."""
        idle_since = looked = time.monotonic()
        if not self._begin():
            return
        while True:
            self._listen()
            if time.monotonic() >= looked + _IDLE_S:
                looked = time.monotonic()
                if not self._is_in_place():
                    self._end_all()
                    return
            self._collect_ends()
            settled = self._step()
            if len(self._running) or len(self._waiting) or not settled:
                idle_since = time.monotonic()
            elif time.monotonic() - idle_since > LINGER_S and self._exit_if_idle():
                return

    def _begin(self) -> bool:
        """Take over what is there, however long the disk is full; false if the state directory is gone."""
        while self._is_in_place():
            try:
                self._running.take_over()
                self._waiting.load()
            except (sqlite3.Error, OSError) as error:
                self._trouble.note(error)
                time.sleep(_IDLE_S)
            else:
                self._all_dependencies = self._decide = True
                return True
        return False

    def _end_all(self) -> None:
        """Kill all jobs: nobody will ask for them."""
        deadline = time.monotonic() + _REMOVED_S
        while len(self._running) and time.monotonic() < deadline:
            self._running.kill_all()
            self._running.poll()
            time.sleep(_AGAIN_S / 10)

    def _exit_if_idle(self) -> bool:
        """Give up the lock and exit; false if there is work again, and no other runner took the lock."""
        if self._store.has_unfinished():
            self._seen = None
            return False
        with contextlib.suppress(sqlite3.Error):
            delete_old_jobs(self._store, time.time())
        self._running.close()
        unlock(self._lock)
        # A command that still saw a runner may have submitted a job meanwhile.
        if not self._store.has_unfinished() or not try_lock(self._lock):
            return True
        return not self._begin()

    def _is_in_place(self) -> bool:
        """Whether its state directory is still the one that it began with."""
        try:
            there, mine = (self._state / LOCK).stat(), os.fstat(self._lock)
        except FileNotFoundError:
            return False
        return (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)

    def _listen(self) -> None:
        """Wait until there is something to do."""
        wait_s = 0.0 if self._unwritten or self._decide else _IDLE_S
        if self._running.has_pending_orders():
            wait_s = min(wait_s, _SOON_S)
        wait_s = min(wait_s, self._waiting.begins_in_s(time.time()))
        for fd, _ in self._poll.poll(wait_s * 1000):
            if fd in (self._wakeup, self._signals):
                with contextlib.suppress(BlockingIOError):
                    os.read(fd, 4096)

    def _collect_ends(self) -> None:
        """Note the jobs that have ended, or were not started."""
        for live, refused in self._running.poll():
            self._unwritten.append((live, refused))
            if refused:
                self._trouble.note(refused)
            self._finals.add(live.key.job)
            self._decide = True

    def _step(self) -> bool:
        """Record ends, decide, and start jobs; whether everything was recorded."""
        try:
            self._read_changes()
            self._decide |= self._waiting.has_begun(time.time())
            if not (self._unwritten or self._decide or self._finals or self._all_dependencies):
                self._trouble.clear()
                return True
            with self._store.transaction(durable=self._is_worth_a_sync()):
                again = self._record_ends()
                changed = None if self._all_dependencies else self._finals
                if changed is None or changed:
                    self._decide |= self._waiting.check_dependencies(changed)
                intended = self._plan_starts() if self._decide else []
        except sqlite3.Error as error:
            # Another process holds the store, or its disk is full: nothing has changed, so read it again.
            self._trouble.note(error)
            with contextlib.suppress(sqlite3.Error):
                self._waiting.load()
            self._all_dependencies = self._decide = True
            time.sleep(_AGAIN_S)
            return False
        self._running.release(live for live, _ in self._unwritten)
        refused = any(why for _, why in self._unwritten)
        self._unwritten.clear()
        self._finals.clear()
        self._all_dependencies = False
        # What was null has ended already, and made room; what waits again may start again.
        self._decide = any(row.is_null for row, _, _ in intended) or bool(again)
        self._finals |= {row.id for row, _, _ in intended if row.is_null}
        for live, attempt in again:
            self._waiting.put_back(live.row, live.key, attempt)
        for row, key, attempt in intended:
            if not row.is_null:
                self._start(row, key, attempt)
        if refused:
            time.sleep(_AGAIN_S)
        else:
            self._trouble.clear()
        return True

    def _is_worth_a_sync(self) -> bool:
        return any(live.outcome and live.outcome.ran_s > _WORTH_A_SYNC_S for live, _ in self._unwritten)

    def _record_ends(self) -> list[tuple[RunningJob, int]]:
        """Record the jobs that have ended; those that wait again, with the number of their next attempt."""
        jobs = (live for live, _ in self._unwritten)
        return [(live, attempt) for live in jobs if (attempt := record_end(self._store, live)) is not None]

    def _read_changes(self) -> None:
        """Read what commands have written to the store."""
        seen = self._store.changed_by_others()
        if seen == self._seen:
            return
        self._machine = self._store.site()
        cancellations = self._store.setting("cancellations")
        if cancellations != self._cancellations:
            self._cancellations = cancellations
            self._waiting.load()
            for job, index, why in self._store.all(
                "SELECT job, idx, cancel FROM tasks "
                "WHERE state IN ('waiting', 'running') AND state='running' AND cancel IS NOT NULL"
            ):
                self._running.cancel(JobKey(job, index), why)
            self._all_dependencies = True
        elif self._waiting.load_new():
            self._all_dependencies = True
        self._decide = True
        self._seen = seen

    def _plan_starts(self) -> list[Task]:
        """Decide what to start, and say so in the store; within a transaction."""
        if (machine := self._machine) is None:
            return []
        now = time.monotonic()
        running = [
            Allocation(each.row.rank, each.row.demand(machine), each.ends) for each in self._running.live
        ]
        decision = decide(machine, running, self._waiting.pending(machine, time.time()), now)
        wall = time.time()
        intended = []
        for job, count in decision.starts:
            for row, key, attempt in list(self._waiting.take(job, count)):
                statement, times = (_COMPLETE, (wall, wall)) if row.is_null else (_RUN, (wall,))
                done = self._store.change(statement, (*times, *key))
                if done:
                    intended.append((row, key, attempt))
        return intended

    def _start(self, row: JobRow, key: JobKey, attempt: int) -> None:
        try:
            self._running.start(row, key, attempt)
        except OSError as error:
            # There is no room for its record: it waits again.
            refused = RunningJob(row, key, attempt, slot=0, directories=[])
            self._unwritten.append((refused, self._trouble.note(error)))


def _listen_to_children() -> int:
    """A file that can be read whenever a child has ended."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    signal.signal(signal.SIGCHLD, _nothing)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    return read


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """Having a handler is what makes the signal be heard."""


def _heed_signals() -> None:
    """Undo what the command's surroundings (nohup, a shell's &) have ignored: jobs would inherit that."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in signal.valid_signals():
        # Python's own, SIGPIPE and SIGXFSZ, subprocess restores.
        if signal.getsignal(number) is signal.SIG_IGN and number not in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
    # A terminal that closes is no reason to end; a handler, unlike SIG_IGN, is not inherited.
    signal.signal(signal.SIGHUP, _nothing)


def main() -> None:
    """Run; the lock is held by the open file that the command handed over."""
    state, lock = Path(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(lock, False)
    _heed_signals()
    supervise(lambda: _run(state, lock))


def _run(state: Path, lock: int) -> None:
    if not try_lock(lock):
        # The one before was killed as it left, and a command has started another.
        return
    adopt_orphans()
    runner = Runner(state, lock)
    # What is there now stays: collections need not look at it.
    gc.freeze()
    runner.run()


if __name__ == "__main__":
    main()
