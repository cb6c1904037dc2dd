"""What a launch moves to and from each library, kept in memory that can be read while it runs.

The figures are unsigned 64-bit words in a memory file that both processes map: they outlive a
launch that is killed, and cost no message.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from gridwright.runs.launch_record import LibraryTraffic

LIBRARIES = ("data", "work", "util")
Way = Literal["read", "write"]
_WORDS_PER_LIBRARY = 6
"""Bytes read, bytes written, nanoseconds waited in reads, and in writes, calls that read, and that wrote."""
_WORD = struct.Struct("=Q")
SIZE = len(LIBRARIES) * _WORDS_PER_LIBRARY * _WORD.size


class LaunchTraffic:
    """The counters of one launch; one thread writes, any process reads."""

    def __init__(self, fd: int) -> None:
        """Map the counters in the memory file `fd`, which stays the caller's. Raises OSError."""
        self._map = mmap.mmap(fd, SIZE)

    @staticmethod
    def create() -> int:
        """Make a memory file of counters at zero; returns its file descriptor. Raises OSError."""
        fd = os.memfd_create("gridwright-traffic", os.MFD_CLOEXEC)
        os.ftruncate(fd, SIZE)
        return fd

    def add(self, library: str, way: Way, moved: int, waited_ns: int, calls: int = 1) -> None:
        """Count bytes moved to or from a library in so many calls, and the time waited for it."""
        base = LIBRARIES.index(library) * _WORDS_PER_LIBRARY + (way == "write")
        self._increase(base, moved)
        self._increase(base + 2, max(0, waited_ns))
        self._increase(base + 4, calls)

    def totals(self) -> dict[str, LibraryTraffic]:
        """The figures so far, by library."""
        found = {}
        for number, library in enumerate(LIBRARIES):
            read, written, read_ns, write_ns, reads, writes = struct.unpack_from(
                "=6Q", self._map, number * _WORDS_PER_LIBRARY * _WORD.size
            )
            found[library] = LibraryTraffic(read, written, read_ns / 1e9, write_ns / 1e9, reads, writes)
        return found

    def waited_ns(self) -> int:
        """Nanoseconds waited so far, over all libraries."""
        return sum(round((total.read_wait_s + total.write_wait_s) * 1e9) for total in self.totals().values())

    def close(self) -> None:
        """Unmap the counters."""
        self._map.close()

    def _increase(self, word: int, by: int) -> None:
        place = word * _WORD.size
        _WORD.pack_into(self._map, place, _WORD.unpack_from(self._map, place)[0] + by)


@contextmanager
def blocked_time() -> Iterator[list[int]]:
    """Measure how long this thread neither ran nor was runnable; one element, nanoseconds, at the end.

    That is the time inside, less its CPU time, less its time on a run queue
    (proc_pid_schedstat(5)).
    """
    found = [0]
    delay, used, began = _run_delay_ns(), time.thread_time_ns(), time.perf_counter_ns()
    try:
        yield found
    finally:
        wall = time.perf_counter_ns() - began
        used = time.thread_time_ns() - used
        found[0] = max(0, wall - used - (_run_delay_ns() - delay))


def _run_delay_ns() -> int:
    try:
        with open("/proc/thread-self/schedstat", "rb", buffering=0) as file:  # noqa: PTH123 - 5 µs count
            return int(file.read().split()[1])
    except (OSError, IndexError, ValueError):
        # A kernel without CONFIG_SCHED_INFO: waiting for a core then counts as waiting for the call.
        return 0
