"""Contents on their way into files: under a temporary name, flushed many at a time, then in their place."""

from __future__ import annotations

import ctypes
import os
import queue
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from gridwright.repository.below import c_library, held_at_most, remove_part, sync_beside_others
from gridwright.repository.content import write_back
from gridwright.repository.known_file import KnownFile
from gridwright.repository.store import FetchedFile

FLUSHED_FILES, FLUSHED_BYTES = 192, 64 << 20
"""Files that are whole, or their bytes, from which on a flush is worth while; fewer where few may be open."""
ALONE_BYTES = 1 << 20
"""Bytes of files, in the mean, that are flushed one by one: that takes no longer than to write them."""
_HOLE = 64 << 10
"""Bytes of zeros that become a hole in a file that had holes."""


class HeldDirectory:
    """An open directory, closed when the last one of those that hold it lets go. One thread uses it."""

    def __init__(self, path: bytes, descriptor: int) -> None:
        """Hold a copy of the descriptor."""
        self.path = path
        self.descriptor = os.dup(descriptor)
        self._held = 1

    def hold(self) -> HeldDirectory:
        """Hold it once more."""
        self._held += 1
        return self

    def let_go(self) -> None:
        """Hold it once less."""
        self._held -= 1
        if not self._held:
            os.close(self.descriptor)


@dataclass(frozen=True, slots=True)
class BeforeName:
    """A new file just before it gets its name, after which users may change it."""

    status: os.stat_result
    is_held: bool
    """By a lease: whoever opens it waits."""


@dataclass(slots=True)
class Fetching:
    """One file whose content is on its way."""

    row: KnownFile
    part: bytes
    """Its name until it is whole; empty for a file without one."""
    held: HeldDirectory
    name: bytes
    descriptor: int
    """-1 for one that is made as its content comes."""
    before: os.stat_result | None
    """What had its name when it was begun."""
    future: Future[str | None] | Future[FetchedFile] | None = None
    before_name: BeforeName | None = None
    """What it was when it got its name."""
    attempt: int = 1
    failure: OSError | None = None
    """Why it is not on disk, though it was flushed."""
    is_closed: bool = False

    @property
    def directory(self) -> int:
        """Where it lies."""
        return self.held.descriptor

    def drop(self) -> None:
        """Leave nothing of it, unless it was closed; while its content may come, the file stays open.

        It is closed before its name goes: FUSE and NFS keep one that is open until then, which would give the
        directory a new time.
        """
        is_over = self.future is None or self.future.done()
        if is_over:
            self._close_file()
        if self.part and not self.is_closed:
            with suppress(OSError):
                remove_part(self.directory, self.part)
        if is_over:
            self.close()

    def fetched(self) -> str | None:
        """Wait until the content is there; its CRC-64/NVME. Raises StoreError, OSError."""
        found = self.future.result() if self.future is not None else None
        if isinstance(found, tuple):
            made, crc64 = found
            self.descriptor = -1 if made is None else made
            return crc64
        return found

    def close(self) -> None:
        """Close what it holds open, once: its numbers may be those of other files afterwards."""
        if self.is_closed:
            return
        self.is_closed = True
        self._close_file()
        self.held.let_go()

    def _close_file(self) -> None:
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


@dataclass(slots=True)
class Flushed:
    """Files that a flush is for; `future` has its OSError where it failed of all."""

    files: list[Fetching]
    future: Future[None]


Arrived = queue.SimpleQueue[Fetching | Flushed]


class Flushing:
    """Has whole files flushed in a thread of its own while others are fetched: one flush at a time.

    One flush of the file system for many small files: a flush for each would take most of the time. Large
    ones are flushed each: a flush of the file system waits for whatever others write there, and for the
    ranges that are just coming, too.
    """

    def __init__(self, descriptor: int, arrived: Arrived) -> None:
        """`descriptor` is of any file there; what was flushed goes to `arrived`."""
        self._descriptor = descriptor
        self._arrived = arrived
        self.most_held = held_at_most()
        self._thread = ThreadPoolExecutor(1, "flush")
        self.whole: list[Fetching] = []
        """Fetched and checked, and waiting for a flush."""
        self._bytes = 0
        self._is_flushing = False

    def add(self, fetching: Fetching) -> None:
        """Have one flushed with others."""
        self.whole.append(fetching)
        self._bytes += fetching.row.size

    def must_wait(self, under_way: int) -> bool:
        """Whether nothing may be begun before the flush has ended."""
        return self._is_flushing and (
            len(self.whole) + under_way >= self.most_held or self._bytes >= 4 * FLUSHED_BYTES
        )

    def begin(self, *, even_few: bool = False) -> bool:
        """Begin a flush if it is worth while, or there is anything; whether one is under way."""
        many = min(FLUSHED_FILES, self.most_held // 2)
        is_worth = len(self.whole) >= many or self._bytes >= FLUSHED_BYTES
        if not self._is_flushing and self.whole and (is_worth or even_few):
            self._is_flushing = True
            files, size = self.whole, self._bytes
            self.whole, self._bytes = [], 0
            future = self._thread.submit(self._flush, files, size)
            future.add_done_callback(lambda done: self._arrived.put(Flushed(files, done)))
        return self._is_flushing

    def _flush(self, files: Sequence[Fetching], size: int) -> None:
        are_written = size < len(files) * ALONE_BYTES and sync_beside_others(self._descriptor)
        for each in files:
            try:
                if are_written:
                    # What could not be, each file tells: kernels before 5.8 told nothing until now.
                    write_back(each.descriptor)
                else:
                    os.fsync(each.descriptor)
            except OSError as error:
                each.failure = error

    def ended(self) -> None:
        """What `arrived` had was taken: the next flush may begin."""
        self._is_flushing = False

    def close(self) -> None:
        """Wait for the thread; what it was to flush is in `arrived` then."""
        self._thread.shutdown()


@contextmanager
def flushing(descriptor: int, arrived: Arrived) -> Iterator[Flushing]:
    """Flush files; what is whole where that is broken off is the caller's to drop."""
    found = Flushing(descriptor, arrived)
    try:
        yield found
    finally:
        found.close()


def dig_holes(descriptor: int, size: int) -> None:
    """Free what is only zeros in a file that had holes, in pieces of 64 KiB."""
    library = c_library()
    keep_size, punch_hole = 1, 2
    zeros = bytes(_HOLE)
    for offset in range(0, size, _HOLE):
        if os.pread(descriptor, _HOLE, offset) == zeros[: min(_HOLE, size - offset)]:
            length = ctypes.c_int64(min(_HOLE, size - offset))
            library.fallocate64(descriptor, keep_size | punch_hole, ctypes.c_int64(offset), length)
