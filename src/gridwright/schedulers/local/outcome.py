"""A running job, as the runner sees it, and what became of it, told from the record of its guard.

It runs until its guard has recorded its end; then its directories are removed, and only then it has a
final state.

The guard of a job writes its record in place (native/guard/src/record.rs); nothing else does. So the end
of a job is known whoever was killed meanwhile, and on a full disk. The first slot is the runner's: what
keeps it from recording jobs, in words.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import struct
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from gridwright.atomic import naming
from gridwright.schedulers.job import JobState, exit_reason
from gridwright.schedulers.local.job_table import PRIVATE_PREFIX, JobRow
from gridwright.schedulers.local.processes import Process, is_running, send_signal
from gridwright.schedulers.local.store import JobKey
from gridwright.units import format_bytes

_FILE = "jobs.records"
SLOT = 512
_AHEAD = 8
"""Slots that are made at a time: a page of a disk."""
_MAGIC = b"GWEXIT\0\x01"
_LAYOUT = struct.Struct("<8sI4x18q16s208s")
_NOTE = struct.Struct("<8sI4xq480s")
_SUMMED_FROM = 16


class JobPhase(IntEnum):
    """How far a job is."""

    RUNNING = 1
    ENDED = 2
    """Its first process has; what that left is being ended."""
    OVER = 3
    REFUSED = 4
    """It was not started: the system had no room for it at the moment."""


class EndCause(IntEnum):
    """What ended a job."""

    ITSELF = 0
    ORDERED = 1
    """SIGTERM to its guard."""
    TIME = 2
    MEMORY = 3


@dataclass(frozen=True, slots=True)
class ExitRecord:
    """What the guard of one attempt of a job wrote."""

    key: JobKey
    attempt: int
    phase: JobPhase
    cause: EndCause
    guard: Process
    wait_status: int | None
    """Of the job's first process, as `os.waitpid` gives it."""
    launch_status: int
    """126 or 127 where its program could not be started; `text` says why."""
    errno: int
    """Why the system had no room."""
    excess_bytes: int
    """What it used when that was too much; 0 where the kernel held it to its limit."""
    peak_bytes: int
    """The most that its processes were seen to use together, or one of them alone."""
    started: float
    ended: float
    """Seconds since 1970."""
    began: float
    """Seconds of the monotonic clock of the boot `boot`."""
    user_s: float
    system_s: float
    boot: bytes
    text: str


class ExitRecords:
    """The records in a state directory. Methods raise OSError."""

    def __init__(self, state: Path, *, write: bool = True) -> None:
        """Open the file, or make it; only to read it if not `write`."""
        flags = os.O_RDWR | os.O_CREAT if write else os.O_RDONLY
        self._path = state / _FILE
        self.file = os.open(self._path, flags, 0o600)
        if write:
            self.reserve(1)

    def close(self) -> None:
        """Close the file."""
        os.close(self.file)

    def reserve(self, slot: int) -> None:
        """Take the room of a slot, so that a full disk cannot keep it from being written."""
        size = os.fstat(self.file).st_size
        needed = (slot // _AHEAD + 1) * _AHEAD * SLOT
        if size < needed:
            # Bytes that are there, not a hole: writing them again needs no other ones.
            with naming(self._path):
                os.pwrite(self.file, bytes(needed - size), size)
                os.fsync(self.file)

    def read(self, slot: int) -> ExitRecord | None:
        """What a slot says; None where it says nothing."""
        return decode(os.pread(self.file, SLOT, slot * SLOT))

    def read_all(self) -> dict[int, ExitRecord]:
        """All that slots say."""
        slots = range(1, os.fstat(self.file).st_size // SLOT)
        return {slot: record for slot in slots if (record := self.read(slot)) is not None}

    def put_note(self, text: str) -> None:
        """Say what keeps the runner from its work; an empty text: nothing does."""
        data = text.encode()[:480]
        body = _NOTE.pack(_MAGIC, 0, len(data), data).ljust(SLOT, b"\0")
        os.pwrite(self.file, _summed(body), 0)

    def note(self) -> str:
        """What keeps the runner from its work."""
        data = os.pread(self.file, SLOT, 0)
        if not _is_whole(data):
            return ""
        _, _, length, text = _NOTE.unpack_from(data)
        return str(text[:length].decode(errors="replace"))


@dataclass(frozen=True, slots=True)
class RunnerTrouble:
    """What keeps a runner from its work, in words; empty where nothing does."""

    note: str = ""
    unrecorded: frozenset[str] = frozenset()
    """Jobs that have ended, and that the store cannot take."""


def read_trouble(state: Path) -> RunnerTrouble:
    """The trouble of the runner of a state directory, as it says."""
    with contextlib.suppress(OSError):
        records = ExitRecords(state, write=False)
        try:
            if note := records.note():
                ended = (each for each in records.read_all().values() if each.phase is JobPhase.OVER)
                return RunnerTrouble(note, frozenset(str(each.key) for each in ended))
        finally:
            records.close()
    return RunnerTrouble()


def _summed(body: bytes) -> bytes:
    return body[:8] + struct.pack("<I", zlib.crc32(body[_SUMMED_FROM:])) + body[12:]


def _is_whole(data: bytes) -> bool:
    if len(data) < SLOT or not data.startswith(_MAGIC):
        return False
    (checksum,) = struct.unpack_from("<I", data, 8)
    return bool(checksum == zlib.crc32(data[_SUMMED_FROM:]))


def decode(data: bytes) -> ExitRecord | None:
    """Read a slot; None where it holds no whole record."""
    if not _is_whole(data):
        return None
    _, _, *numbers, boot, text = _LAYOUT.unpack_from(data)
    job, element, attempt, phase, cause, pid, ticks, wait_status, launch_status, errno = numbers[:10]
    excess, peak, started, began, ended, user, system, length = numbers[10:]
    return ExitRecord(
        key=JobKey(job, element),
        attempt=attempt,
        phase=JobPhase(phase),
        cause=EndCause(cause),
        guard=Process(pid, ticks),
        wait_status=None if wait_status < 0 else wait_status,
        launch_status=launch_status,
        errno=errno,
        excess_bytes=excess,
        peak_bytes=peak,
        started=started / 1e9,
        ended=ended / 1e9,
        began=began / 1e9,
        user_s=user / 1e9,
        system_s=system / 1e9,
        boot=boot,
        text=text[:length].decode(errors="replace"),
    )


def boot_identity() -> bytes:
    """Tells this boot of the machine from others; as guards write it (proc_sys_kernel(5), random/boot_id)."""
    try:
        text = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        return bytes.fromhex(text.strip().replace("-", ""))
    except (OSError, ValueError):
        return bytes(16)


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
