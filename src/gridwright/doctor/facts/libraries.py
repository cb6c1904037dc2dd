"""What a node sees of a library: its file system, its room, whether it can be written to and locked."""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from gridwright.doctor.facts.node_facts import LibraryFacts
from gridwright.filesystems.mounts import describe_mount

_PREFIX = ".gridwright-check-"
_HELD, _FREE, _BROKEN = 0, 1, 2


def library(path: Path) -> LibraryFacts:
    """Look at a library; one empty file is made in it, and removed at once. Raises OSError."""
    if not path.is_dir():
        path.stat()
        raise NotADirectoryError(errno.ENOTDIR, "Not a directory", str(path))
    mount = describe_mount(path)
    status = os.statvfs(path)
    refused, off = _written(path)
    return LibraryFacts(
        str(path),
        refused=refused,
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
        with tempfile.TemporaryFile(dir=path, prefix=_PREFIX) as file:
            made, after = os.fstat(file.fileno()).st_mtime, time.time()
    except OSError as error:
        return error.strerror, None
    # File systems keep whole seconds, or the time of the last tick of the clock.
    return None, min(made - before + 1.0, 0.0) + max(made - after, 0.0)


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
        with tempfile.NamedTemporaryFile(dir=path, prefix=_PREFIX) as file:
            lock(file.fileno())
            other = os.fork()
            if other == 0:
                _try(file.name, lock)
            outcome = os.waitstatus_to_exitcode(os.waitpid(other, 0)[1])
    except OSError as error:
        return error.strerror or str(error)
    if outcome == _FREE:
        return "two processes hold it at the same time"
    return None if outcome == _HELD else "a second process cannot try it"


def _try(name: str, lock: Callable[[int], None]) -> None:
    outcome = _BROKEN
    try:
        # A descriptor of its own: with the inherited one it would be the holder.
        file = os.open(name, os.O_RDWR | os.O_CLOEXEC)
        try:
            lock(file)
            outcome = _FREE
        except OSError as error:
            outcome = _HELD if error.errno in (errno.EACCES, errno.EAGAIN) else _BROKEN
    finally:
        os._exit(outcome)
