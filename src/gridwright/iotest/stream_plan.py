"""The streams of a phase: how many are tried, how large their files may be, and which file is whose.

It is the same on one node and on many.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from gridwright.errors import Problem
from gridwright.filesystems.mounts import LibraryMount
from gridwright.iotest.engine import StreamPlan
from gridwright.iotest.options import IotestOptions, LibraryTarget
from gridwright.iotest.outcome import Outcome
from gridwright.iotest.scratch import METADATA, MIXED, SHARED, STREAM
from gridwright.runs.phase_record import Op, Sweep, SweepPoint
from gridwright.units import format_bytes

SWEPT: tuple[Op, ...] = ("write", "read")
KNEE = 0.95
"""The knee is the smallest number of streams that reaches this part of the peak."""


def stream_counts(cores: int) -> list[int]:
    """Streams to try: 1, 2, 4 … up to 4 per core, that last one included."""
    most = 4 * cores
    powers = [1]
    while powers[-1] * 2 <= most:
        powers.append(powers[-1] * 2)
    return powers if powers[-1] == most else [*powers, most]


def knee(points: Sequence[tuple[int, float | None]]) -> tuple[int | None, float | None]:
    """Find the knee among (streams, rate) points, and the peak rate."""
    known = [(streams, rate) for streams, rate in points if rate is not None]
    if not known:
        return None, None
    peak = max(rate for _, rate in known)
    return min(streams for streams, rate in known if rate >= KNEE * peak), peak


def summarise_sweep(op: Op, points: Sequence[tuple[int, float | None]], target: LibraryTarget) -> Sweep:
    """Build the record of a sweep."""
    cores = target.total_cores
    rows = [SweepPoint(streams, rate, rate / cores if rate is not None else None) for streams, rate in points]
    return Sweep(op, rows, *knee(points))


TIMED_SHARE = 0.5
"""A phase that ends by time uses at most this part of the free space."""
MEMORY_SHARE = 0.25
"""And at most this part of the memory that is available, where the file system is memory."""
RESERVE_SHARE = 0.01
"""Left free in every case; a full file system harms everyone on it."""
SMALL_FILE = 4096
MAX_SMALL_FILES = 100_000


@dataclass(frozen=True, slots=True)
class SpacePlan:
    """Bytes per stream's file, and files per stream in the metadata phase."""

    file_bytes: int
    small_files: int


@dataclass(frozen=True, slots=True)
class Room:
    """What a file system has to spare, as a node sees it: bytes, and inodes where it counts them."""

    usable_bytes: int
    inodes: int | None


class NotEnoughSpace(Exception):
    """The test would not fit; carries what to tell the user."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.what)
        self.problem = problem


def plan_space(
    directory: Path, mount: LibraryMount, options: IotestOptions, *, library: str, streams: int
) -> SpacePlan:
    """Decide file sizes for `streams` streams; files of the mixed phase come on top.

    Raises NotEnoughSpace, and OSError if the file system does not say what is free.
    """
    return divide(
        usable_room(directory, mount, options), directory, options, library=library, streams=streams
    )


def usable_room(directory: Path, mount: LibraryMount, options: IotestOptions) -> Room:
    """See what may be used. Raises OSError if the file system does not say."""
    status = os.statvfs(directory)
    free = status.f_bavail * status.f_frsize
    usable = int(free - RESERVE_SHARE * status.f_blocks * status.f_frsize)
    if status.f_blocks == 0:
        # ramfs and some file systems of FUSE do not say: what is free shows when it is written.
        usable = 2**62
    if mount.memory_backed:
        usable = min(usable, int(psutil.virtual_memory().available * MEMORY_SHARE))
    if options.engine == "null":
        usable = 2**62
    return Room(usable, status.f_favail if status.f_files else None)


def divide(room: Room, directory: Path, options: IotestOptions, *, library: str, streams: int) -> SpacePlan:
    """Divide a file system's room among `streams` streams, of all nodes that share it.

    Raises NotEnoughSpace.
    """
    usable = room.usable_bytes
    inodes = room.inodes if room.inodes is not None else MAX_SMALL_FILES * streams
    block = options.block_bytes
    files = streams + (-(-streams // 2) if "mixed" in options.phases else 0)
    if options.size_bytes is not None:
        file_bytes = -(-options.size_bytes // block) * block
        needed = file_bytes * files
    else:
        file_bytes = int(usable * TIMED_SHARE / files) // block * block
        needed = block * files
    if file_bytes < block or needed > usable:
        raise NotEnoughSpace(_refusal(library, directory, needed, usable, files))
    small = min(MAX_SMALL_FILES, int(usable * TIMED_SHARE / streams / SMALL_FILE), inodes // 2 // streams)
    return SpacePlan(file_bytes, small)


def _refusal(library: str, directory: Path, needed: int, usable: int, files: int) -> Problem:
    return Problem(
        what=(
            f"library {library}: no space is left for the test (ENOSPC): {files} files need "
            f"{format_bytes(needed)}, {format_bytes(max(0, usable))} may be used"
        ),
        where=str(directory),
        remedy="free space, or give a smaller --size or fewer --streams",
    )


MIXED_FILES = 1_000_000
"""Numbers stamped into files of the mixed phase begin here, above those of the write phase."""


def shared_name(number: int) -> str:
    """The name of the shared file of phase `number`."""
    return f"{SHARED}-{number}.dat"


@dataclass(frozen=True, slots=True)
class Place:
    """Where the streams of one node work.

    `first` is the number of its first stream among those of all nodes. `shared` is the path of the file
    that all streams have parts of; None where each has a file of its own.
    """

    directory: str
    first: int = 0
    shared: str | None = None

    def writers(self, streams: int, file_bytes: int) -> list[StreamPlan]:
        """The streams of a write phase."""
        return [self._writer(number, file_bytes, STREAM, 0) for number in range(streams)]

    def mixed_writers(self, streams: int, file_bytes: int) -> list[StreamPlan]:
        """The streams of a mixed phase that write."""
        return [self._writer(number, file_bytes, MIXED, MIXED_FILES) for number in range(streams)]

    def metadata(self, streams: int) -> list[StreamPlan]:
        """The streams of a metadata phase."""
        return [
            StreamPlan("metadata", f"{self.directory}/{METADATA}-{number}", self.first + number, 0)
            for number in range(streams)
        ]

    def reused_readers(self, sizes: Sequence[int], block: int, first_file: int) -> list[StreamPlan]:
        """Readers of a kept set, of whole blocks."""
        return [
            StreamPlan(
                "read", f"{self.directory}/{STREAM}-{number}.dat", first_file + number, size // block * block
            )
            for number, size in enumerate(sizes)
            if size >= block
        ]

    def _writer(self, number: int, file_bytes: int, own: str, above: int) -> StreamPlan:
        of_all = self.first + number
        if self.shared is None:
            return StreamPlan("write", f"{self.directory}/{own}-{number}.dat", above + of_all, file_bytes)
        base = of_all * file_bytes
        return StreamPlan("write", self.shared, above, file_bytes, base, shared=True)


def readable(written: Sequence[StreamPlan], outcome: Outcome, block: int) -> list[StreamPlan]:
    """Readers of what a write phase has written: whole blocks of every file that holds any."""
    return [
        replace(stream, role="read", file_bytes=size)
        for stream, done in zip(written, outcome.streams, strict=True)
        if (size := done.file_bytes // block * block) > 0
    ]
