"""Writes files where the user says: whole or not at all, and through no link of another user."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from gridwright.beneath import owner_of, pinned
from gridwright.trusted import user_name

_MOST_LINKS = 40
"""As in path_resolution(7)."""
_LARGE = 1 << 15
"""Bytes from which a file is written past the cache: it is flushed anyway."""
_ALIGNED = 1 << 16
"""A multiple of every block size of a disk, and of every page size of Linux."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def naming(path: Path | str) -> Iterator[None]:
    """Have errors of the system name this file; those of a descriptor, such as of a full disk, name none."""
    try:
        yield
    except OSError as error:
        if not isinstance(error.filename, str) or not error.filename.startswith("/"):
            error.filename = os.fspath(path)
        raise


def write_atomically(
    path: Path | str,
    content: str | bytes,
    mode: int = 0o666,
    *,
    directory: int | None = None,
    replaces: bool = True,
) -> None:
    """Write to a temporary name beside `path`, flush to disk, and rename. Raises OSError.

    `path` is one name in the open `directory`, where that is given. Others may write to the directory, such
    as that of a run that somebody handed over: a link that stands at `path` is replaced, none that is another
    user's is followed, and the temporary name is not known before. `mode` is what the umask
    takes from. FileExistsError where `path` is there and not to be replaced.
    """
    data = memoryview(content.encode() if isinstance(content, str) else content)
    path = Path(path)
    temporary = f".{path.name[:100]}.{secrets.randbelow(10**18)}.part"
    opened = open_place(path.parent) if directory is None else os.dup(directory)
    try:
        descriptor = os.open(temporary, _NEW, mode, dir_fd=opened)
        try:
            with naming(path), open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor
                if len(data) < _LARGE or not _written_past_cache(descriptor, data):
                    file.write(data)
                    file.flush()
                os.fsync(file.fileno())
            if replaces:
                os.rename(temporary, path.name, src_dir_fd=opened, dst_dir_fd=opened)
            else:
                # A link fails where a rename would replace a file that appeared meanwhile.
                os.link(temporary, path.name, src_dir_fd=opened, dst_dir_fd=opened)
                os.unlink(temporary, dir_fd=opened)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=opened)
            raise
        os.fsync(opened)
    finally:
        os.close(opened)


def _written_past_cache(descriptor: int, data: memoryview) -> bool:
    """Write by direct I/O (open(2), O_DIRECT); False, and nothing is written, where the file system has none.

    A mount whose server is gone keeps its dirty pages. At vm.dirty_ratio of them each buffered write of the
    node, to whatever disk, waits up to a second for each page (balance_dirty_pages of mm/page-writeback.c).
    """
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_DIRECT)
    except OSError:
        return False
    # Memory of mmap is aligned as any disk wants it.
    with mmap.mmap(-1, -(-len(data) // _ALIGNED) * _ALIGNED) as buffer:
        buffer[: len(data)] = data
        written = 0
        try:
            while written < len(data):
                with memoryview(buffer) as whole, whole[written:] as rest:
                    written += os.write(descriptor, rest)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
        finally:
            fcntl.fcntl(descriptor, fcntl.F_SETFL, flags)
    os.ftruncate(descriptor, min(written, len(data)))
    if written < len(data):
        os.lseek(descriptor, 0, os.SEEK_SET)
    return written >= len(data)


def open_place(path: str | Path) -> int:
    """A descriptor of a directory, whoever may write there, to which no link of another user's leads.

    For files that are named one by one. Each name on the way is opened, and followed where it is a link of
    root's or of this user's, as fs.protected_symlinks has it in sticky directories (sysctl/fs in Linux's
    documentation). Raises OSError: ELOOP for a link of another user's, and for too many.
    """
    text = os.fspath(path)
    names = text.split("/")[::-1]
    pin = os.O_PATH | os.O_CLOEXEC
    here = os.open("/" if text.startswith("/") else ".", pin | os.O_DIRECTORY)
    links = 0
    try:
        while names:
            name = names.pop()
            if name in ("", "."):
                continue
            try:
                # O_DIRECTORY makes an automounter mount what is to be there.
                there = os.open(name, pin | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
            except NotADirectoryError:
                with pinned(here, name) as link:
                    status = os.fstat(link)
                    if not stat.S_ISLNK(status.st_mode):
                        raise
                    target = os.readlink("", dir_fd=link)
            else:
                os.close(here)
                here = there
                continue
            links += 1
            if links > _MOST_LINKS or (owner := owner_of(status)) not in (0, os.geteuid()):
                why = f"{name} is a link of {user_name(owner)}'s" if owner else None
                raise OSError(errno.ELOOP, why or os.strerror(errno.ELOOP), text)
            names += target.split("/")[::-1]
            if target.startswith("/"):
                os.close(here)
                here = os.open("/", pin | os.O_DIRECTORY)
        return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=here)
    except OSError as error:
        raise OSError(error.errno, error.strerror, text) from error
    finally:
        os.close(here)


def open_log(path: Path) -> BinaryIO:
    """A file to append to, made where it is not there, as `open_place` goes there. Raises OSError."""
    directory = open_place(path.parent)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        return open(os.open(path.name, flags, 0o666, dir_fd=directory), "ab")  # noqa: PTH123
    finally:
        os.close(directory)
