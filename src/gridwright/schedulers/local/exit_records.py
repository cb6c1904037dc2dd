"""Records of running jobs: who guards each, and how it ended, in one file whose room is taken in advance.

The guard of a job writes its record in place (native/guard/src/record.rs); nothing else does. So the end of a
job is known whoever was killed meanwhile, and on a full disk. The first slot is the runner's: what keeps it
from recording jobs, in words.
"""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from gridwright.atomic import naming
from gridwright.schedulers.local.identifiers import JobKey
from gridwright.schedulers.local.processes import Process

FILE = "jobs.records"
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
        self._path = state / FILE
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
