"""How large a stream's file may be: never more than the file system, or memory, can hold."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import psutil

from gridwright.errors import Problem
from gridwright.filesystems.mounts import LibraryMount
from gridwright.iotest.options import IotestOptions
from gridwright.units import format_bytes

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
