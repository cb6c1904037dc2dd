"""The runner: starts jobs, watches them, records what comes of them; and ends when nothing is left to do.

    python -m gridwright.schedulers.local.runner STATE LOCK

A command starts it; see `attendance`. It is one process without threads, so that it can fork, and it keeps
nothing in memory that it could not read again: it may be killed at any point. Each turn is one transaction,
in which what has ended is recorded and what is to start is said to be running, before it is started.
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
from typing import Any

from gridwright.schedulers.job import JobState
from gridwright.schedulers.local.forgetting import forget_old
from gridwright.schedulers.local.heartbeat import LOCK, hang_bell, release, take
from gridwright.schedulers.local.names import Key
from gridwright.schedulers.local.orders import JobRow
from gridwright.schedulers.local.policy import Held, decide
from gridwright.schedulers.local.queries import capacity_of
from gridwright.schedulers.local.recovery import recover
from gridwright.schedulers.local.running_jobs import Nursery
from gridwright.schedulers.local.site import Site
from gridwright.schedulers.local.store import Store
from gridwright.schedulers.local.supervisor import keep
from gridwright.schedulers.local.waiting import Waiting
from gridwright.schedulers.process_tree import adopt_orphans

LINGER_S = 2.0
"""How long it stays when there is nothing to do: commands often come one after another."""
_IDLE_S = 1.0
_BUSY_S = 2.0
_AGAIN_S = 0.2
"""Before it tries again what the store, or the system, refused."""

_OVER = """
UPDATE tasks SET exit_status=?, signal=?, reason=?, ended=?, state=?
WHERE job=? AND idx=? AND state='running'
"""
_ENDED = """
UPDATE tasks SET exit_status=?, signal=?, reason=?, ended=?, outcome=?
WHERE job=? AND idx=? AND state='running'
"""
_COMPLETE = """
UPDATE tasks SET state='completed', exit_status=0, started=?, ended=?
WHERE job=? AND idx=? AND state='waiting'
"""
_RUN = "UPDATE tasks SET state='running', started=? WHERE job=? AND idx=? AND state='waiting'"

Task = tuple[JobRow, Key, int]


class Runner:
    """The runner of one state directory."""

    def __init__(self, state: Path, lock: int) -> None:
        self._state = state
        self._lock = lock
        self._store = Store(state, durable=False, busy_s=_BUSY_S)
        self._waiting = Waiting(self._store)
        self._nursery = Nursery(self._store)
        self._pending: list[tuple[str, tuple[Any, ...]]] = []
        self._finals: set[int] = set()
        self._seen: int | None = None
        self._site: Site | None = None
        self._cancellations: object = None
        self._decide = True
        self._all_dependencies = True
        self._poll = select.poll()
        self._bell = hang_bell(state)
        self._signals = _listen_to_children()
        for fd in (self._bell, self._signals):
            if fd is not None:
                self._poll.register(fd, select.POLLIN)

    def run(self) -> None:
        """Run until nothing is left."""
        idle_since = looked = time.monotonic()
        self._begin()
        while True:
            self._listen()
            if time.monotonic() >= looked + _IDLE_S:
                looked = time.monotonic()
                if not self._is_in_place():
                    self._nursery.kill_all()
                    return
            self._take_ends()
            settled = self._turn()
            if self._nursery.live or len(self._waiting) or not settled:
                idle_since = time.monotonic()
            elif time.monotonic() - idle_since > LINGER_S and self._leave():
                return

    def _begin(self) -> None:
        recover(self._store)
        self._waiting.load()
        self._all_dependencies = self._decide = True

    def _leave(self) -> bool:
        """Give up the place of the runner; false if there is work again, and nobody else took it."""
        if self._store.has_unfinished():
            self._seen = None
            return False
        with contextlib.suppress(sqlite3.Error):
            forget_old(self._store, time.time())
        release(self._lock)
        # A job may have come after the look, from a command that still saw a runner.
        if not self._store.has_unfinished() or not take(self._lock):
            return True
        self._begin()
        return False

    def _is_in_place(self) -> bool:
        """Whether its state directory is still the one that it began with."""
        try:
            there, mine = (self._state / LOCK).stat(), os.fstat(self._lock)
        except FileNotFoundError:
            return False
        return (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)

    def _listen(self) -> None:
        """Wait until there is something to do."""
        wait_s = 0.0 if self._pending or self._decide else self._nursery.pause_s(_IDLE_S)
        for fd, _ in self._poll.poll(wait_s * 1000):
            with contextlib.suppress(BlockingIOError):
                os.read(fd, 4096)

    def _take_ends(self) -> None:
        """Hear of jobs that have ended, look after those that run, and note what is to be recorded."""
        for live in self._nursery.tend():
            values = (live.exit_status, live.signal, live.reason, live.ended_at, live.outcome.value)
            self._pending.append(
                (
                    _OVER if live.is_over else _ENDED,
                    (*values, *live.key),
                )
            )
            if live.is_over:
                self._finals.add(live.key.job)
                self._decide = True

    def _turn(self) -> bool:
        """Record, decide, start; whether nothing is left to be recorded."""
        try:
            self._notice()
            if not (self._pending or self._decide or self._finals or self._all_dependencies):
                return True
            with self._store.changing():
                for statement, values in self._pending:
                    self._store.change(statement, values)
                changed = None if self._all_dependencies else self._finals
                if changed is None or changed:
                    self._decide |= self._waiting.check_dependencies(changed)
                intended = self._intend() if self._decide else []
        except sqlite3.Error as error:
            # Another process holds the store, or its disk is full: nothing has changed, so read it again.
            print(f"{time.time():.0f} the store refused: {error}", file=sys.stderr, flush=True)  # noqa: T201
            with contextlib.suppress(sqlite3.Error):
                self._waiting.load()
            self._all_dependencies = self._decide = True
            time.sleep(_AGAIN_S)
            return False
        self._pending.clear()
        self._finals.clear()
        self._all_dependencies = False
        # What was null has ended already, and made room.
        self._decide = any(row.is_null for row, _, _ in intended)
        self._finals |= {row.id for row, _, _ in intended if row.is_null}
        for row, key, attempt in intended:
            if not row.is_null:
                self._start(row, key, attempt)
        return True

    def _notice(self) -> None:
        """See what commands have written."""
        seen = self._store.changed_by_others()
        if seen == self._seen:
            return
        self._site = self._store.site()
        cancellations = self._store.setting("cancellations")
        if cancellations != self._cancellations:
            self._cancellations = cancellations
            self._waiting.load()
            for job, index, why in self._store.all(
                "SELECT job, idx, cancel FROM tasks "
                "WHERE state IN ('waiting', 'running') AND state='running' AND cancel IS NOT NULL"
            ):
                if live := self._nursery.find(Key(job, index)):
                    live.end(JobState.CANCELLED, why)
            self._all_dependencies = True
        elif self._waiting.load_new():
            self._all_dependencies = True
        self._decide = True
        self._seen = seen

    def _intend(self) -> list[Task]:
        """Decide what to start, and say so in the store; within a transaction."""
        if (site := self._site) is None:
            return []
        now = time.monotonic()
        running = [
            Held(each.row.rank, each.row.demand(site), each.ends) for each in self._nursery.live.values()
        ]
        decision = decide(capacity_of(site), running, self._waiting.claims(site), now)
        wall = time.time()
        intended = []
        for job, count in decision.starts:
            for row, key, attempt in list(self._waiting.take(job, count)):
                statement, times = (_COMPLETE, (wall, wall)) if row.is_null else (_RUN, (wall,))
                done = self._store.change(statement, (*times, *key))
                if done:
                    intended.append((row, key, attempt))
        return intended

    def _start(self, row: JobRow, key: Key, attempt: int) -> None:
        try:
            self._nursery.start(row, key, attempt)
        except (BlockingIOError, MemoryError) as error:
            # No more processes, or no memory, at the moment.
            print(f"{time.time():.0f} job {key} not started: {error}", file=sys.stderr, flush=True)  # noqa: T201
            self._pending.append(
                (
                    "UPDATE tasks SET state='waiting', started=NULL "
                    "WHERE job=? AND idx=? AND state='running'",
                    tuple(key),
                )
            )
            self._waiting.put_back(row, key, attempt)
            time.sleep(_AGAIN_S)


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
    keep(lambda: _run(state, lock))


def _run(state: Path, lock: int) -> None:
    if not take(lock):
        # The one before was killed as it left, and a command has started another.
        return
    adopt_orphans()
    runner = Runner(state, lock)
    # What is there now stays: collections need not look at it.
    gc.freeze()
    runner.run()


if __name__ == "__main__":
    main()
