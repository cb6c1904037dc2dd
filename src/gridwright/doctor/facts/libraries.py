"""What a node sees of a library: its file system, its room, whether it can be written to and locked."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from pathlib import Path

from gridwright.beneath import owner_of
from gridwright.doctor.facts.node_facts import LibraryFacts
from gridwright.filesystems.mounts import describe_mount, is_closed
from gridwright.trusted import user_name

_PREFIX = ".gridwright-check-"
LEFT_S = 60.0
"""A look ends after seconds: a file of one that is older was left behind."""
_MOST_ENTRIES = 20_000
"""Names that are looked through for such files."""
_HELD, _FREE, _BROKEN = 0, 1, 2


def library(path: Path) -> LibraryFacts:
    """Look at a library; one empty file is made in it, and its name removed at once. Raises OSError."""
    if not path.is_dir():
        path.stat()
        raise NotADirectoryError(errno.ENOTDIR, "Not a directory", str(path))
    mount = describe_mount(path)
    status = os.statvfs(path)
    refused, off = _written(path)
    owner = path.stat()
    return LibraryFacts(
        str(path),
        refused=refused,
        reader=user_name(os.geteuid()) if refused and is_closed(path) else None,
        is_roots=owner_of(owner) == 0 and not owner.st_mode & (stat.S_IWGRP | stat.S_IWOTH),
        read_only=bool(status.f_flag & os.ST_RDONLY),
        filesystem_type=mount.filesystem_type,
        source=mount.source,
        mount_point=mount.mount_point,
        device=mount.device,
        options=mount.options,
        total_bytes=mount.total_bytes,
        available_bytes=mount.available_bytes,
        inodes=status.f_files or None,
        inodes_free=status.f_favail if status.f_files else None,
        file_times_off_s=off,
    )


def _written(path: Path) -> tuple[str | None, float | None]:
    """Why no file can be made; where one can, how far its time is from this node's clock, in seconds."""
    before = time.time()
    try:
        with _nameless(path) as (file, _):
            made, after = os.fstat(file).st_mtime, time.time()
    except OSError as error:
        return error.strerror, None
    # File systems keep whole seconds, or the time of the last tick of the clock.
    return None, min(made - before + 1.0, 0.0) + max(made - after, 0.0)


@contextmanager
def _nameless(path: Path) -> Iterator[tuple[int, int]]:
    """A new file that is open twice and has no name any more.

    The name goes before anything asks for data or attributes: with a storage target of Lustre away these
    hang, while names are the metadata server's.
    """
    name = path / f"{_PREFIX}{time.time():.0f}-{os.urandom(6).hex()}"
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    with ExitStack() as opened:
        first = os.open(name, flags | os.O_CREAT | os.O_EXCL, 0o600)
        opened.callback(os.close, first)
        try:
            second = os.open(name, flags)
            opened.callback(os.close, second)
        finally:
            name.unlink()
        yield first, second


def remove_left(path: Path) -> int:
    """Remove files that looks which were killed have left in a library, and say how many there were.

    Those of others that look right now are kept: they are younger than LEFT_S. Raises OSError.
    """
    removed = 0
    with os.scandir(path) as entries:
        for entry in islice(entries, _MOST_ENTRIES):
            if entry.name.startswith(_PREFIX) and _made_s(entry) < time.time() - LEFT_S:
                with suppress(OSError):
                    Path(entry.path).unlink()
                    removed += 1
    return removed


def _made_s(entry: os.DirEntry[str]) -> float:
    """When a file was made, in seconds since 1970: by its name; of older releases, by its times."""
    named = re.fullmatch(r"(\d{1,12})-[0-9a-f]+", entry.name.removeprefix(_PREFIX))
    return float(named[1]) if named else entry.stat(follow_symlinks=False).st_ctime


def locks(path: Path) -> dict[str, str | None]:
    """Whether flock(2) and fcntl(2) locks exclude others on this node; an error's text where they do not."""
    return {"flock": _excludes(path, _flock), "fcntl": _excludes(path, _fcntl)}


def _flock(file: int) -> None:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _fcntl(file: int) -> None:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _excludes(path: Path, lock: Callable[[int], None]) -> str | None:
    """Take a lock, and have another process try the same; None where it is kept out."""
    try:
        with _nameless(path) as (file, second):
            lock(file)
            other = os.fork()
            if other == 0:
                _try(second, lock)
            outcome = os.waitstatus_to_exitcode(os.waitpid(other, 0)[1])
    except OSError as error:
        return error.strerror or str(error)
    if outcome == _FREE:
        return "two processes hold it at the same time"
    return None if outcome == _HELD else "a second process cannot try it"


def _try(file: int, lock: Callable[[int], None]) -> None:
    """In another process, by an open of its own: by the holder's it would be the holder."""
    outcome = _BROKEN
    try:
        lock(file)
        outcome = _FREE
    except OSError as error:
        outcome = _HELD if error.errno in (errno.EACCES, errno.EAGAIN) else _BROKEN
    finally:
        os._exit(outcome)
