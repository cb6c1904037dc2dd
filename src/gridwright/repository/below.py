"""What files of a repository have in common: names of unfinished ones, and calls of the kernel."""

from __future__ import annotations

import ctypes
import itertools
import os
import re
import resource
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

PART = b".gridwright-part-"
"""How names of files begin that are not whole yet."""
ASIDE = PART + b"aside-"
"""How names of directories begin in which a release keeps files for a moment."""
RELEASING = "releasing"
"""The fact that has the secret name of the directories in these, noted before the first one is made; 0 where
none is left. Older releases noted 1."""
MOST_HELD = 320
"""Files that a command holds at once, where so many may be open."""
_OTHERS_OPEN = 200
"""Descriptors of connections, directories and databases."""
_MOST_OPEN = 1024
"""As many as select(2) tells apart: no limit is raised beyond it."""
_OWN = PART + secrets.token_hex(8).encode()
_NUMBERS = itertools.count()
_OWN_PART = re.compile(re.escape(PART) + rb"[0-9a-f]{16}-[0-9a-f]+")


def is_there(directory: int, name: bytes) -> bool:
    """Whether anything has a name in an open directory. Raises OSError."""
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def at(directory: int, name: bytes) -> bytes:
    """A path of a name in an open directory, for calls that take no `dir_fd`."""
    return f"/proc/self/fd/{directory}/".encode() + name


@cache
def c_library() -> ctypes.CDLL:
    """The C library, for calls that Python has no name for; a call of it sets `ctypes.get_errno()`."""
    return ctypes.CDLL(None, use_errno=True)


def sync_file_system(descriptor: int) -> None:
    """Wait until all that was written to the file system of an open file is on disk. Raises OSError."""
    if c_library().syncfs(descriptor) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), os.fsdecode(path_of(descriptor)))


def sync_beside_others(descriptor: int) -> bool:
    """As `sync_file_system`; False where some file has lost what was written to it, which may be anybody's.

    syncfs(2) tells that once of each descriptor, since Linux 5.8; fsync(2) of a file tells whether it is that
    one. Raises OSError where it fails again.
    """
    try:
        sync_file_system(descriptor)
    except OSError:
        sync_file_system(descriptor)
        return False
    return True


def held_at_most(each: int = 2, most: int = MOST_HELD, others: int = _OTHERS_OPEN) -> int:
    """How many files may be held, 8 at least: `each` takes so many descriptors, all else `others`.

    Two by default: as many as are held may be worked on beside them.
    A soft limit of open files (getrlimit(2), RLIMIT_NOFILE) is raised where the hard one allows it.
    """
    soft, hard = (
        _MOST_OPEN if limit == resource.RLIM_INFINITY else limit
        for limit in resource.getrlimit(resource.RLIMIT_NOFILE)
    )
    if soft < (wanted := min(hard, _MOST_OPEN)):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        soft = wanted
    return max(8, min(most, (soft - others) // each))


def path_of(directory: int) -> bytes:
    """The path that an open directory has now. Raises OSError."""
    return os.readlink(f"/proc/self/fd/{directory}".encode())  # noqa: PTH115 - of bytes


class StepJournal:
    """In which directory a step is under way, and its times before it, in a file that outlives a kill."""

    under_way: StepJournal | None = None
    """That of the import that runs."""

    def __init__(self, descriptor: int) -> None:
        """`descriptor` is of the open file."""
        self._descriptor = descriptor
        self._is_begun = False

    def begin(self, directory: int, status: os.stat_result, making: bytes) -> bool:
        """Note a step, which may make a directory; False within another one, which may be in the trash.

        Raises OSError.
        """
        if self._is_begun:
            return False
        values = status.st_dev, status.st_ino, status.st_atime_ns, status.st_mtime_ns, time.time_ns()
        path = path_of(directory)
        os.pwrite(self._descriptor, b"%d %d %d %d %d %s\0%s\0" % (*values, path, making), 0)
        self._is_begun = True
        return True

    def end(self) -> None:
        """Note that there is none. Raises OSError."""
        self._is_begun = False
        os.pwrite(self._descriptor, b"\0", 0)

    def left(self) -> tuple[list[int], bytes, bytes] | None:
        """The step in which a command was killed: device, inode, times and moment in ns; path and name."""
        noted, making, *_ = *os.pread(self._descriptor, 1 << 16, 0).split(b"\0"), b"", b""
        *values, path = noted.split(b" ", 5)
        return (list(map(int, values)), path, making) if len(values) == 5 else None


@contextmanager
def same_times(directory: int, making: bytes = b"") -> Iterator[None]:
    """Give an open directory its times back: what Gridwright itself does in it is no change anybody made.

    Around one step each, as what somebody else does meanwhile is not told apart. That of another user keeps
    the new ones: only its owner may set times (utimensat(2)). `making` names a directory that is made.
    """
    status, journal, is_noted = os.fstat(directory), StepJournal.under_way, False
    with suppress(OSError):  # A full disk keeps none.
        is_noted = journal is not None and journal.begin(directory, status, making)
    try:
        yield
    finally:
        with suppress(OSError):
            os.utime(directory, ns=(status.st_atime_ns, status.st_mtime_ns))
        with suppress(OSError):
            if journal is not None and is_noted:
                journal.end()


def remove_part(directory: int, part: bytes) -> None:
    """Remove a file that is not whole from an open directory, where it is there. Raises OSError."""
    if is_there(directory, part):
        with suppress(FileNotFoundError), same_times(directory):
            os.unlink(part, dir_fd=directory)


def relative_directory(directory: Path, mount: Path) -> bytes:
    """A directory relative to its mount, without `/` at either end. Raises ValueError for one elsewhere."""
    relative = directory.resolve().relative_to(mount.resolve())
    return b"" if relative == Path() else os.fsencode(relative)


def is_part(name: bytes) -> bool:
    """Whether a name is that of a file that is not whole yet, or was left by a killed command."""
    return name.startswith(PART)


def part_name() -> bytes:
    """A name for a file that is not whole yet, which nothing else has."""
    return b"%s-%x" % (_OWN, next(_NUMBERS))


def is_own_part(name: bytes) -> bool:
    """Whether a name is one that Gridwright gives, and no user's own that only begins so."""
    return _OWN_PART.fullmatch(name) is not None


def kind_of(mode: int) -> str:
    """A word for what no object can be made of."""
    return {
        stat.S_IFSOCK: "a socket",
        stat.S_IFIFO: "a pipe",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }.get(stat.S_IFMT(mode), "of an unknown kind")


def steps(path: bytes) -> list[bytes]:
    """A directory, after those that it lies in."""
    names = path.split(b"/")
    return [b"/".join(names[: count + 1]) for count in range(len(names))]
