"""A running job, as the runner sees it: its guard does the rest.

It runs until its guard has recorded its end; then its directories are removed, and only then it has a final
state.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Sequence

from gridwright.schedulers.local.exit_records import ExitRecord
from gridwright.schedulers.local.identifiers import JobKey
from gridwright.schedulers.local.job_row import JobRow
from gridwright.schedulers.local.outcome import JobOutcome
from gridwright.schedulers.local.processes import Process, is_running, send_signal


class RunningJob:
    """One attempt of a job; times are of the monotonic clock."""

    def __init__(
        self,
        row: JobRow,
        key: JobKey,
        attempt: int,
        *,
        slot: int,
        directories: Sequence[bytes],
        cancel: str | None = None,
    ) -> None:
        self.row = row
        self.key = key
        self.attempt = attempt
        self.slot = slot
        """Of its record."""
        self.directories = list(directories)
        """Those that are still to be removed."""
        self.cancel = cancel
        """Who has cancelled it, in words."""
        self.outcome: JobOutcome | None = None
        """Once its guard has recorded its end."""
        self.guard: int | None = None
        """A file descriptor of its guard, where the launcher of that is gone (pidfd)."""
        self.remover: int | None = None
        """The process that removes its directories, where that takes long."""
        self.removals = 0
        self.is_removed = False
        self.began = time.monotonic()

    @property
    def ends(self) -> float:
        """When its time limit ends it."""
        limit = self.row.time_limit_s
        return float("inf") if limit is None else self.began + limit

    @property
    def reason(self) -> str | None:
        """Why it did not complete, and what could not be removed, in words."""
        why = self.outcome.reason if self.outcome else None
        left = f"left: {', '.join(map(os.fsdecode, self.directories))}" if self.directories else None
        return "; ".join(reason for reason in (why, left) if reason) or None

    def is_of(self, record: ExitRecord | None) -> bool:
        """Whether a record is that of this attempt."""
        return record is not None and (record.key, record.attempt) == (self.key, self.attempt)

    def watch_guard(self, guard: Process) -> bool:
        """Learn of the end of a guard that is nobody's child here; false if it has ended already."""
        try:
            pidfd = os.pidfd_open(guard.pid)
        except OSError:
            return False
        if is_running(guard):
            self.guard = pidfd
            return True
        os.close(pidfd)
        return False

    def guard_has_ended(self) -> bool:
        """Whether a guard that `watch_guard` watches has ended."""
        if self.guard is None:
            return False
        poll = select.poll()
        poll.register(self.guard, select.POLLIN)
        return bool(poll.poll(0))

    def forget_guard(self) -> None:
        """Its guard has ended."""
        if self.guard is not None:
            os.close(self.guard)
            self.guard = None


def tell_guard(record: ExitRecord, number: signal.Signals) -> None:
    """Have a guard end its job: SIGTERM first asks it to, SIGUSR1 kills it."""
    send_signal([record.guard], number)
