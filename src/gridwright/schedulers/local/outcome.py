"""A running job, as the runner sees it, and what became of it, told from the record of its guard.

It runs until its guard has recorded its end; then its directories are removed, and only then it has a final
state.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass

from gridwright.schedulers.exit_reason import exit_reason
from gridwright.schedulers.job import JobState
from gridwright.schedulers.local.exit_records import EndCause, ExitRecord
from gridwright.schedulers.local.identifiers import JobKey
from gridwright.schedulers.local.job_row import PRIVATE_PREFIX, JobRow
from gridwright.schedulers.local.processes import Process, is_running, send_signal
from gridwright.units import format_bytes

GUARD_KILLED = "its guard was killed"
GUARD_TOLD_TO_END = "its guard was told to end (SIGTERM)"
MACHINE_STOPPED = "the machine stopped while it ran"


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """The final state of an attempt."""

    state: JobState
    exit_status: int | None = None
    signal: int | None = None
    reason: str | None = None
    ended: float | None = None
    """Seconds since 1970; None where nobody saw it."""
    started: float | None = None
    user_s: float | None = None
    system_s: float | None = None
    peak_bytes: int | None = None
    is_final: bool = False
    """Whether the job must not be started again: something of it still runs."""

    @property
    def is_interrupted(self) -> bool:
        """Whether the job was ended by what is no fault of its own, and may be started again."""
        return self.state is JobState.NODE_FAILED and not self.is_final

    @property
    def ran_s(self) -> float:
        """How long it ran; 0 where nobody saw it."""
        return self.ended - self.started if self.ended is not None and self.started is not None else 0.0


def outcome_of(record: ExitRecord, row: JobRow, cancel: str | None) -> JobOutcome:
    """The outcome of a job whose record says that it has ended; `cancel`: who has cancelled it, in words."""
    state, reason = _judge(record, row, cancel)
    exit_status, ended_by = record.launch_status or None, None
    if record.wait_status is not None:
        code = os.waitstatus_to_exitcode(record.wait_status)
        exit_status, ended_by = (code, None) if code >= 0 else (None, -code)
    reasons = [reason, None if record.launch_status else record.text]
    return JobOutcome(
        state=state,
        exit_status=exit_status,
        signal=ended_by,
        reason="; ".join(each for each in reasons if each) or None,
        ended=record.ended,
        started=record.started,
        user_s=record.user_s,
        system_s=record.system_s,
        peak_bytes=record.peak_bytes,
    )


def _judge(record: ExitRecord, row: JobRow, cancel: str | None) -> tuple[JobState, str | None]:
    if record.launch_status:
        return JobState.FAILED, _with_remedy(record.text, row)
    match record.cause:
        case EndCause.TIME:
            return JobState.TIMED_OUT, f"ran longer than {row.time_limit_s or 0:g} s"
        case EndCause.MEMORY:
            return JobState.OUT_OF_MEMORY, _too_much(record, row)
        case EndCause.ORDERED if cancel:
            return JobState.CANCELLED, cancel
        case EndCause.ORDERED:
            return JobState.NODE_FAILED, GUARD_TOLD_TO_END
    why = _why_failed(os.waitstatus_to_exitcode(record.wait_status or 0))
    return (JobState.FAILED, why) if why else (JobState.COMPLETED, None)


def _with_remedy(text: str, row: JobRow) -> str:
    """Why a job was not started, and how a library is opened in which it may make no directory of its own."""
    if text.endswith(os.strerror(errno.EACCES)):
        for library in map(os.fsdecode, row.libraries.values()):
            if f"{library}/{PRIVATE_PREFIX}" in text:
                return f"{text}; jobs make directories there: have its owner open it, chmod 1777 {library}"
    return text


def _too_much(record: ExitRecord, row: JobRow) -> str:
    limit = format_bytes(row.memory_bytes)
    if record.excess_bytes:
        return f"used {format_bytes(record.excess_bytes)} of memory, and may use {limit}"
    return f"needed more memory than the {limit} that it may use"


def _why_failed(code: int) -> str | None:
    return f"exit status {code}" if code > 0 else exit_reason(None, -code)


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
