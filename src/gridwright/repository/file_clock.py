"""The clock of a library's file system: which ctimes tell that a file was not touched since it was looked at.

A change within one tick of another has the same ctime. So a ctime that is as young as the look at it proves
nothing: it is known as `UNKNOWN`, and the next scan looks at the content. That is Git's rule for racy entries
(Documentation/technical/racy-git.txt). The time is the file system's own: a server's clock is not this one.

Sources: Linux, Documentation/filesystems/multigrain-ts.rst (from 6.13 on ext4, XFS, Btrfs and tmpfs give a
change after a look another ctime); ctimes of Lustre are whole seconds of the client that writes.
"""

from __future__ import annotations

import ctypes
import errno
import os
import time
from typing import TYPE_CHECKING

from gridwright.repository.below import c_library
from gridwright.repository.object_format import LATEST_NS

if TYPE_CHECKING:
    from gridwright.repository.walking import FileStatus

UNKNOWN = 0
"""The ctime of a row that the next scan has to look at."""
TICK_NS = 20_000_000
"""Clocks of kernels tick every 1 to 10 ms."""
SECOND_NS = 10**9
SHARED_NS = 2 * SECOND_NS
"""How far clocks of clients and servers of one shared file system may be apart."""
_NO_CLOCK_NS = 3600 * SECOND_NS
"""The same where its clock cannot be read, as on a mount that is read only."""
_OFTEN_NS = 100_000_000
"""A reading of the clock serves for so long: an older one only finds more ctimes too young."""
_CHANGES, _FINE_NS, _TRIES = 8, 500_000, 3
_OMIT = (1 << 30) - 2
"""UTIME_OMIT of utimensat(2)."""
_OF_THIS_KERNEL = frozenset({0xEF53, 0x58465342, 0x9123683E, 0x01021994, 0x2FC12FC1, 0xCA451A4E})
"""Whose times this kernel gives: ext4, XFS, Btrfs, tmpfs, ZFS, bcachefs (statfs(2))."""


class _Time(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class FileClock:
    """The clock of the file system of one open directory; it is first read when it is asked for."""

    def __init__(self, directory: int, *, looks: bool = False) -> None:
        """`directory` stays open as long as this is used; who only `looks` has this machine's clock do."""
        self._directory = directory
        self._looks = looks
        self._now_ns: int | None = None
        self._read_at_ns = 0
        self._window_ns = SHARED_NS
        self._is_fine = False

    def recorded_ctime(self, status: FileStatus) -> int:
        """The ctime to be known of a file that has just been looked at: UNKNOWN for one that is too young."""
        now_ns = self._now_ns
        if now_ns is None:
            self.read()
        # A reading after the look would say nothing of it.
        is_old = now_ns is not None and status.st_ctime_ns < now_ns - self._window_ns
        return bounded_ns(status.st_ctime_ns) if is_old or self._is_fine else UNKNOWN

    def settled(self, descriptor: int) -> os.stat_result:
        """The status of an open file, once its ctime is old enough where that is a matter of a tick."""
        self.read()
        status = os.fstat(descriptor)
        if self.recorded_ctime(status) == UNKNOWN and self._window_ns == TICK_NS:
            time.sleep(2 * TICK_NS / SECOND_NS)
            self.read(at_once=True)
            status = os.fstat(descriptor)
        return status

    def read(self, *, at_once: bool = False) -> None:
        """Read the clock, if that was not done just now: before what is judged by it is looked at."""
        is_first, moment = self._now_ns is None, time.monotonic_ns()
        if not is_first and (self._is_fine or (not at_once and moment - self._read_at_ns < _OFTEN_NS)):
            return
        self._read_at_ns = moment
        try:
            if self._looks:
                raise OSError(errno.EROFS, "nothing is changed")
            self._now_ns = self._ctime_after_change()
            if is_first:
                self._measure()
        except OSError:
            self._now_ns = time.time_ns() - (0 if _is_of_this_kernel(self._directory) else _NO_CLOCK_NS)

    def _measure(self) -> None:
        if self._ctime_after_change() % SECOND_NS and _is_of_this_kernel(self._directory):
            self._window_ns = TICK_NS
            self._is_fine = any(self._tells_all_apart() for _ in range(_TRIES))

    def _tells_all_apart(self) -> bool:
        """Whether changes with a look between them have other ctimes, faster than any tick."""
        begun = time.monotonic_ns()
        times = [self._ctime_after_change() for _ in range(_CHANGES)]
        return len(set(times)) == _CHANGES and time.monotonic_ns() - begun < _FINE_NS

    def _ctime_after_change(self) -> int:
        """The ctime of the directory after a change of nothing else. Raises OSError."""
        accessed, nanoseconds = divmod(os.fstat(self._directory).st_atime_ns, SECOND_NS)
        times = (_Time * 2)(_Time(accessed, nanoseconds), _Time(0, _OMIT))
        if c_library().futimens(self._directory, times) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return os.fstat(self._directory).st_ctime_ns


def _is_of_this_kernel(descriptor: int) -> bool:
    """Whether this kernel gives the times of an open file's file system."""
    # `struct statfs` begins with `f_type`, and has 120 bytes on 64-bit Linux.
    found = ctypes.create_string_buffer(256)
    is_told = c_library().fstatfs(descriptor, found) == 0
    return is_told and ctypes.c_ulong.from_buffer(found).value in _OF_THIS_KERNEL


_GRAINS = (100, 1000, SECOND_NS)
"""Nanoseconds of SMB, of microseconds, and of whole seconds: ext4 with small inodes, Lustre."""


def bounded_ns(time_ns: int) -> int:
    """A time, or the nearest one that a row can have: files may have times until the year 2446 and later."""
    return time_ns if -LATEST_NS <= time_ns <= LATEST_NS else max(-LATEST_NS, min(LATEST_NS, time_ns))


def is_stored_as(wanted_ns: int, kept_ns: int) -> bool:
    """Whether a file that was given a time can have this one: file systems keep whole steps of their own."""
    kept_ns = bounded_ns(kept_ns)
    return wanted_ns == kept_ns or any(bounded_ns(wanted_ns // each * each) == kept_ns for each in _GRAINS)
