"""What became of an attempt of a job, told from the record of its guard; pure."""

from __future__ import annotations

import errno
import os
import signal
from dataclasses import dataclass

from gridwright.schedulers.job import JobState
from gridwright.schedulers.local.attempt import PRIVATE_PREFIX
from gridwright.schedulers.local.exit_records import EndCause, ExitRecord
from gridwright.schedulers.local.job_row import JobRow
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
    if code > 0:
        return f"exit status {code}"
    return f"ended by signal {-code} ({_signal_name(-code)})" if code else None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
