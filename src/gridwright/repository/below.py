"""What files of a repository have in common: names of unfinished ones, and calls of the kernel."""

from __future__ import annotations

import ctypes
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

PART = b".gridwright-part-"
"""How names of files begin that are not whole yet."""
ASIDE = PART + b"aside-"
"""How names of directories begin in which a release keeps files for a moment."""
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
        raise OSError(number, os.strerror(number))


@contextmanager
def same_times(directory: int) -> Iterator[None]:
    """Give an open directory its times back: that Gridwright's own names in it change is no change."""
    status = os.fstat(directory)
    try:
        yield
    finally:
        os.utime(directory, ns=(status.st_atime_ns, status.st_mtime_ns))


def relative_directory(directory: Path, mount: Path) -> bytes:
    """A directory relative to its mount, without `/` at either end. Raises ValueError for one elsewhere."""
    relative = directory.resolve().relative_to(mount.resolve())
    return b"" if relative == Path() else os.fsencode(relative)


def is_part(name: bytes) -> bool:
    """Whether a name is that of a file that is not whole yet, or was left by a killed command."""
    return name.startswith(PART)


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
