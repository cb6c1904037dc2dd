"""Whether others have a file open: the kernel gives a lease only where they have not; it is given back."""

from __future__ import annotations

import errno
import fcntl


def is_open_elsewhere(descriptor: int) -> bool:
    """Whether anybody else has the file of this descriptor open. Needs root."""
    return _is_refused(descriptor, fcntl.F_WRLCK)


def is_open_for_writing(descriptor: int) -> bool:
    """Whether anybody has the file of a read-only descriptor open for writing, or mapped so. Needs root."""
    return _is_refused(descriptor, fcntl.F_RDLCK)


def _is_refused(descriptor: int, lease: int) -> bool:
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, lease)
    except OSError as error:
        if error.errno == errno.EAGAIN:
            return True
        raise
    fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False
