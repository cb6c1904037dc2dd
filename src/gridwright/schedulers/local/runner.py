"""The runner starts jobs, watches them and records their ends; it exits when nothing is left to do.

    python -m gridwright.schedulers.local.runner STATE LOCK

A command starts it; see `runner_lock`. It is one process without threads, so that it can fork, and it keeps
nothing in memory that it could not read again, so that it can be killed at any time: jobs run under guards,
and the next runner goes on with them. Each step is one transaction: it records the jobs that have ended, and
marks those as running that it starts next.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import sqlite3
import sys
import time
from pathlib import Path
from types import FrameType

from gridwright.schedulers.local.identifiers import JobKey
from gridwright.schedulers.local.job_row import JobRow
from gridwright.schedulers.local.machine_resources import MachineResources
from gridwright.schedulers.local.policy import Allocation, decide
from gridwright.schedulers.local.queries import capacity_of
from gridwright.schedulers.local.recovery import record_end
from gridwright.schedulers.local.retention import delete_old_jobs
from gridwright.schedulers.local.runner_lock import LOCK, open_wakeup_pipe, try_lock, unlock
from gridwright.schedulers.local.running_job import RunningJob
from gridwright.schedulers.local.running_jobs import RunningJobs
from gridwright.schedulers.local.store import Store
from gridwright.schedulers.local.supervisor import supervise
from gridwright.schedulers.local.trouble import TroubleNote
from gridwright.schedulers.local.waiting_jobs import WaitingJobs
from gridwright.schedulers.process_tree import adopt_orphans

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
        if self._running.has_untold():
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
        decision = decide(capacity_of(machine), running, self._waiting.pending(machine, time.time()), now)
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
