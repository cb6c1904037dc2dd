"""Files below one directory, reached name by name: no symbolic link on the way leads out of it."""

from __future__ import annotations

import ctypes
import os
import stat
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import TracebackType

PART = b".gridwright-part-"
"""How names of files begin that are not whole yet."""
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_IMPLIED_MODE = 0o755


class PathsBelow:
    """Opens what lies below a directory. One thread uses it."""

    def __init__(self, directory: Path) -> None:
        """Raises OSError where it is no directory."""
        self.directory = directory
        self.root = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._names: list[bytes] = []
        self._opened: list[int] = []

    def __enter__(self) -> PathsBelow:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _where: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all that is open."""
        self._leave(0)
        os.close(self.root)

    def parent(self, path: bytes, *, make: bool = False) -> tuple[int, bytes]:
        """The open directory that a path lies in, and its name there; valid until the next call.

        With `make`, directories that are missing are made. Raises OSError: ENOTDIR or ELOOP where something
        else than a directory is on the way, such as a symbolic link.
        """
        *names, name = path.split(b"/")
        same = 0
        while same < min(len(names), len(self._names)) and names[same] == self._names[same]:
            same += 1
        self._leave(same)
        for each in names[same:]:
            here = self._opened[-1] if self._opened else self.root
            if make:
                with suppress(FileExistsError):
                    os.mkdir(each, _IMPLIED_MODE, dir_fd=here)
            self._opened.append(os.open(each, _DIRECTORY, dir_fd=here))
            self._names.append(each)
        return (self._opened[-1] if self._opened else self.root), name

    def status(self, path: bytes) -> os.stat_result | None:
        """The status of what a path names, not followed; None where nothing is there. Raises OSError."""
        if not path:
            return os.fstat(self.root)
        try:
            directory, name = self.parent(path)
            return os.stat(name, dir_fd=directory, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def refresh(self) -> None:
        """Forget which directories are open: something was renamed or removed."""
        self._leave(0)

    def _leave(self, depth: int) -> None:
        for each in self._opened[depth:]:
            os.close(each)
        del self._opened[depth:], self._names[depth:]


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


def relative_directory(directory: Path, mount: Path) -> bytes:
    """A directory relative to its mount, without `/` at either end. Raises ValueError for one elsewhere."""
    relative = directory.resolve().relative_to(mount.resolve())
    return b"" if relative == Path() else os.fsencode(relative)


def is_part(name: bytes) -> bool:
    """Whether a name is that of a file that is not whole yet, or was left by a killed command."""
    return name.startswith(PART)


def kind_of(mode: int) -> str:
    """A word for what no object can be made of."""
    return {
        stat.S_IFSOCK: "a socket",
        stat.S_IFIFO: "a pipe",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }.get(stat.S_IFMT(mode), "of an unknown kind")
