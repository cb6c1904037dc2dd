"""Leases of the kernel: they tell whether others have a file open, and have whoever opens it wait.

They hold on one machine: what other clients of a shared file system do is not seen.
"""

from __future__ import annotations

import errno
import fcntl
import signal

_UNKNOWN = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK})


def take_lease(descriptor: int, lease: int = fcntl.F_WRLCK) -> bool:
    """Take a lease on an open file; False where others have it open, for writing where it is F_RDLCK.

    Until the descriptor is closed, or the lease given back, whoever opens the file waits, at most as long as
    `/proc/sys/fs/lease-break-time` says. Raises OSError, also where the file system has no leases.
    """
    # The signal to a holder whose lease somebody breaks is SIGIO, which ends a process; this one is ignored.
    fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, lease)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EBUSY):
            return False
        if error.errno in _UNKNOWN:
            raise OSError(error.errno, "this file system cannot tell whether it is open") from error
        raise
    return True


def has_lease(descriptor: int) -> bool:
    """Whether a write lease that was taken holds, and nobody waits to open the file."""
    return bool(fcntl.fcntl(descriptor, fcntl.F_GETLEASE) == fcntl.F_WRLCK)


def give_lease_back(descriptor: int) -> None:
    """Let those who wait open the file. Raises OSError."""
    fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)


def is_open_elsewhere(descriptor: int) -> bool:
    """Whether anybody else has the file of this descriptor open. Needs root."""
    return _is_refused(descriptor, fcntl.F_WRLCK)


def is_open_for_writing(descriptor: int) -> bool:
    """Whether anybody has the file of a read-only descriptor open for writing, or mapped so. Needs root."""
    return _is_refused(descriptor, fcntl.F_RDLCK)


def _is_refused(descriptor: int, lease: int) -> bool:
    if not take_lease(descriptor, lease):
        return True
    give_lease_back(descriptor)
    return False
