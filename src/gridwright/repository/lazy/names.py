"""All files below a directory that are names only, found by their attribute."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

from gridwright.repository.keys import shown
from gridwright.repository.references import StateError, attribute_name, read_state

_SKIPPED = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})


def names_below(directory: str | bytes) -> Iterator[int]:
    """A descriptor for each file that is a name only, closed when the next one is asked for.

    Other file systems that are mounted below are left out. What cannot be read counts as a name, which keeps
    readers off. Raises OSError.
    """
    attribute = attribute_name()
    device = Path(os.fsdecode(directory)).stat().st_dev
    for _, directories, files, parent in os.fwalk(directory, follow_symlinks=False, onerror=_raise):
        if os.fstat(parent).st_dev != device:
            directories.clear()
            continue
        for file in files:
            try:
                descriptor = os.open(
                    file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent
                )
            except OSError as error:
                # Symbolic links, sockets, and what was removed just now.
                if error.errno in _SKIPPED or error.errno == errno.ENXIO:
                    continue
                raise
            try:
                if _has(descriptor, attribute) and _is_name(descriptor):
                    yield descriptor
            finally:
                os.close(descriptor)


def _has(descriptor: int, attribute: str) -> bool:
    try:
        os.getxattr(descriptor, attribute)
    except OSError as error:
        if error.errno in (errno.ENODATA, errno.EOPNOTSUPP, errno.EPERM):
            return False
        raise
    return True


def _is_name(descriptor: int) -> bool:
    try:
        state = read_state(descriptor)
    except StateError:
        return True
    return state is not None and state.is_name_only


def _raise(error: OSError) -> None:
    raise error


def path_of(descriptor: int) -> str:
    """The path of an open file, for people."""
    try:
        return shown(os.fsencode(Path(f"/proc/self/fd/{descriptor}").readlink()))
    except OSError:
        return "a file"
