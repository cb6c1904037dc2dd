"""A running job: its processes, its limits, and how it is ended.

It runs until its first process has ended; what that left running is killed; then its directories are
removed, and only then it has a final state. Over a limit, or cancelled, it is ended first.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Sequence

from gridwright.schedulers.job import JobState
from gridwright.schedulers.local.identifiers import JobKey
from gridwright.schedulers.local.job_row import JobRow
from gridwright.schedulers.local.launch import LaunchFailure
from gridwright.schedulers.local.processes import (
    Process,
    is_running,
    prefer_for_oom_kill,
    process_stat,
    send_signal,
    with_descendants,
)
from gridwright.schedulers.process_tree import resident_bytes
from gridwright.units import format_bytes

GRACE_S = 5.0
"""Between SIGTERM and SIGKILL for a job over its time or cancelled."""
GONE_S = 10.0
"""A process that outlives SIGKILL by this much hangs in the kernel; the job ends without it."""


class RunningJob:
    """One attempt of a job; times are of the monotonic clock."""

    def __init__(self, row: JobRow, key: JobKey, directories: Sequence[bytes]) -> None:
        self.row = row
        self.key = key
        self.pid = 0
        """Of its first process."""
        self.directories = list(directories)
        self.exit_status: int | None = None
        self.signal: int | None = None
        self.has_ended = False
        """Whether its first process has."""
        self.ended_at: float | None = None
        """When it did, in seconds since 1970."""
        self.outcome_noted = False
        """Whether the store has been told."""
        self.remover: int | None = None
        """The process that removes its directories, where that takes long."""
        self.removals = 0
        self.is_removed = False
        self.user_s: float | None = None
        self.system_s: float | None = None
        self.peak_bytes = 0
        """The most memory that it was seen to use."""
        self.is_over = False
        """Whether it has its final state."""
        self._began = time.monotonic()
        self._seen: dict[int, Process] = {}
        self._ended_by: JobState | None = None
        self._why: str | None = None
        self._kill_at: float | None = None
        self._killed_at: float | None = None

    @property
    def ends(self) -> float:
        """When its time limit ends it."""
        limit = self.row.time_limit_s
        return float("inf") if limit is None else self._began + limit

    @property
    def outcome(self) -> JobState:
        """Its final state, once its first process has ended."""
        if self._ended_by is not None:
            return self._ended_by
        return JobState.COMPLETED if self.exit_status == 0 else JobState.FAILED

    @property
    def reason(self) -> str | None:
        """Why it did not complete, in words."""
        reasons = [self._why]
        if self.is_over:
            if left := self.survivors():
                numbers = ", ".join(str(process.pid) for process in left)
                reasons.append(f"processes that cannot be ended: {numbers}")
            if self.directories:
                # They are taken out of the list as they are removed.
                reasons.append(f"left: {', '.join(map(os.fsdecode, self.directories))}")
        return "; ".join(reason for reason in reasons if reason) or None

    def knows(self, process: Process) -> bool:
        """Whether a process was seen to be one of its own."""
        return self._seen.get(process.pid) == process

    def measure(self, orphans: Iterable[int]) -> None:
        """Find its processes (`orphans` have lost their parents); end it where it exceeds a limit."""
        used = self._find(orphans)
        self.peak_bytes = max(self.peak_bytes, used)
        if used > self.row.memory_bytes and self._ended_by is None and not self.has_ended:
            limit = format_bytes(self.row.memory_bytes)
            self._why = f"used {format_bytes(used)} of memory, and may use {limit}"
            self._ended_by = JobState.OUT_OF_MEMORY
            self._kill_at = time.monotonic()
        elif time.monotonic() >= self.ends:
            self.end(JobState.TIMED_OUT, f"ran longer than {self.row.time_limit_s:g} s")

    def _find(self, orphans: Iterable[int]) -> int:
        """Find all its processes; how many bytes of memory they use."""
        used = 0
        found: dict[int, Process] = {}
        for pid in with_descendants([*([] if self.has_ended else [self.pid]), *orphans]):
            seen = self._seen.get(pid)
            if seen is None and (now := process_stat(pid)):
                seen = now.process
                prefer_for_oom_kill(pid)
            if seen is not None:
                found[pid] = seen
            used += resident_bytes(pid)
        # One that changed its parent meanwhile was not met.
        missed = {pid: each for pid, each in self._seen.items() if pid not in found and is_running(each)}
        self._seen = found | missed
        return used

    def end(self, state: JobState, why: str) -> None:
        """Ask it to end (SIGTERM); it has a moment to do so. Does nothing where it is ending already."""
        if self._ended_by is not None or self.has_ended:
            return
        self._ended_by, self._why = state, why
        self._kill_at = time.monotonic() + GRACE_S
        self._find(())
        found = self.survivors()
        send_signal(found, signal.SIGTERM)
        # One that is stopped could not heed it.
        send_signal(found, signal.SIGCONT)

    def record_exit(self, status: int) -> None:
        """Note how its first process has ended."""
        self.has_ended = True
        self.ended_at = time.time()
        code = os.waitstatus_to_exitcode(status)
        if code >= 0:
            self.exit_status = code
        else:
            self.signal = -code
            if self._ended_by is None:
                self._why = f"ended by signal {-code} ({_signal_name(-code)})"
        if self.exit_status and self._why is None:
            self._why = f"exit status {self.exit_status}"
        if self._kill_at is None:
            self._kill_at = time.monotonic()

    def record_launch_failure(self, failure: LaunchFailure) -> None:
        """Note that it could not be started."""
        self.has_ended = True
        self.ended_at = time.time()
        self.exit_status, self._why = failure.exit_status, failure.why

    def survivors(self) -> list[Process]:
        """Its processes that have not ended."""
        return [process for process in self._seen.values() if is_running(process)]

    def kill_if_due(self, orphans: Sequence[int]) -> bool:
        """Kill what is to be killed by now; whether all its processes have ended, or will never."""
        now = time.monotonic()
        if self._kill_at is None:
            return False
        if orphans:
            self._find(orphans)
        left = self.survivors() if self._seen else []
        if now >= self._kill_at:
            send_signal(left, signal.SIGKILL)
            if not self.has_ended:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)
            self._killed_at = self._killed_at if self._killed_at is not None else now
        if not self.has_ended:
            return False
        if not left and not orphans:
            return True
        return self._killed_at is not None and now - self._killed_at > GONE_S

    @property
    def is_ending(self) -> bool:
        """Whether something is to be done about it soon."""
        return self._kill_at is not None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
