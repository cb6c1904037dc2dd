"""Which lock holds for everybody who can open a file, by kind of file system, and the lease of the kernel.

A file is only freed, or another one put in its place, while nobody has it open. A lease (`F_SETLEASE`) tells
that for the processes of one kernel: other clients of a shared file system are not seen by it.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import signal
from dataclasses import dataclass
from enum import StrEnum

from gridwright.repository.below import c_library

_UNKNOWN = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK})
_STATFS_BYTES = 256
"""More than `struct statfs` has on any 64-bit Linux; its first word is `f_type`."""


class HoldsForAll(StrEnum):
    """The lock that holds for everybody who can open a file."""

    KERNEL = "F_SETLEASE"
    HSM = "HSM release at the MDS"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class FileSystemLock:
    """What is known of a kind of file system."""

    name: str
    lock: HoldsForAll
    source: str
    """Where that is said."""
    remedy: str = "keep contents here, or move the library to a file system with such a lock"
    """What to do where no lock holds."""


_ONE_KERNEL = "fcntl(2), Leases; all who open it are processes of this kernel (knfsd asks for leases, too)"
_LOCAL_ALONE = "fcntl(2), Leases: this kernel alone knows of them"
_ON_SERVER = "run it on the file server, on the file system that is exported"
LOCKS = {
    0xEF53: FileSystemLock("ext4", HoldsForAll.KERNEL, _ONE_KERNEL),
    0x58465342: FileSystemLock("XFS", HoldsForAll.KERNEL, _ONE_KERNEL),
    0x9123683E: FileSystemLock("Btrfs", HoldsForAll.KERNEL, _ONE_KERNEL),
    0x01021994: FileSystemLock("tmpfs", HoldsForAll.KERNEL, _ONE_KERNEL),
    0x794C7630: FileSystemLock("overlayfs", HoldsForAll.KERNEL, _ONE_KERNEL),
    0x0BD00BD0: FileSystemLock(
        "Lustre",
        HoldsForAll.HSM,
        "mdt_hsm_release() of lustre/mdt/mdt_open.c refuses other versions of the data than the archive's",
        "give the repository an archive of Lustre's HSM (hsm_archive, or --hsm-archive)",
    ),
    0x6969: FileSystemLock("NFS", HoldsForAll.NONE, _LOCAL_ALONE, _ON_SERVER),
    0xFE534D42: FileSystemLock("SMB", HoldsForAll.NONE, _LOCAL_ALONE, _ON_SERVER),
    0x65735546: FileSystemLock("FUSE (MooseFS and others)", HoldsForAll.NONE, _LOCAL_ALONE),
    0x00C36400: FileSystemLock("CephFS", HoldsForAll.NONE, _LOCAL_ALONE),
    0x47504653: FileSystemLock(
        "Spectrum Scale",
        HoldsForAll.NONE,
        _LOCAL_ALONE,
        "have its AFM carry the library, which evicts by itself",
    ),
}
"""By `f_type` of statfs(2): linux/magic.h, and gpfs.h for Scale."""


def lock_of(descriptor: int) -> FileSystemLock:
    """What holds on the file system that an open file is on, as it is mounted. Raises OSError."""
    magic = _file_system_type(descriptor)
    unknown = FileSystemLock(f"a file system of type {magic:#x}", HoldsForAll.NONE, "nothing is known of it")
    return LOCKS.get(magic, unknown)


def _file_system_type(descriptor: int) -> int:
    found = ctypes.create_string_buffer(_STATFS_BYTES)
    if c_library().fstatfs(descriptor, found) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return ctypes.c_long.from_buffer(found).value & 0xFFFFFFFF


def take_lease(descriptor: int, lease: int = fcntl.F_WRLCK) -> bool:
    """Take a lease on an open file; False where others have it open, for writing where it is F_RDLCK.

    Until the descriptor is closed, or the lease given back, whoever opens the file waits, at most as long as
    `/proc/sys/fs/lease-break-time` says. Raises OSError, also where a lease does not hold for all.
    """
    known = lock_of(descriptor)
    if known.lock is not HoldsForAll.KERNEL:
        raise OSError(errno.ENOLCK, f"on {known.name} nothing tells whether another client has it open")
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


def has_lease(descriptor: int, lease: int = fcntl.F_WRLCK) -> bool:
    """Whether a lease that was taken holds, and nobody waits to open the file."""
    return bool(fcntl.fcntl(descriptor, fcntl.F_GETLEASE) == lease)


def give_lease_back(descriptor: int) -> None:
    """Let those who wait open the file. Raises OSError."""
    fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)


def is_open_elsewhere(descriptor: int) -> bool:
    """Whether anybody else has the file of this descriptor open. Needs root, or the file's owner."""
    if not take_lease(descriptor):
        return True
    give_lease_back(descriptor)
    return False
