"""Gives what was copied the owner, attributes, mode and times of its source."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from gridwright.repository.extended import decode, read_xattrs


def dress(target: int | bytes, source: os.stat_result, xattrs: bytes | None) -> bool:
    """Dress an open file, or what a path names, not followed; whether owner and group could be given.

    The set-user-ID bit stays, as the owner does. Raises OSError.
    """
    here = os.fstat(target) if isinstance(target, int) else os.lstat(target)
    if _all(here) == _all(source) and read_xattrs(target) == xattrs:
        return True
    is_owned = _give(target, here, source)
    _write_xattrs(target, xattrs)
    mode = stat.S_IMODE(source.st_mode)
    times = (source.st_atime_ns, source.st_mtime_ns)
    if isinstance(target, int):
        os.fchmod(target, mode)
        os.utime(target, ns=times)
    else:
        if not stat.S_ISLNK(source.st_mode):
            os.chmod(target, mode)  # noqa: PTH101 - bytes
        os.utime(target, ns=times, follow_symlinks=False)
    return is_owned


def _all(status: os.stat_result) -> tuple[int, ...]:
    # Whoever lists a directory changes when it was last read.
    accessed = 0 if stat.S_ISDIR(status.st_mode) else status.st_atime_ns
    return (status.st_mode, status.st_uid, status.st_gid, accessed, status.st_mtime_ns)


def _give(target: int | bytes, here: os.stat_result, source: os.stat_result) -> bool:
    if (here.st_uid, here.st_gid) == (source.st_uid, source.st_gid):
        return True
    try:
        if isinstance(target, int):
            os.fchown(target, source.st_uid, source.st_gid)
        else:
            os.lchown(target, source.st_uid, source.st_gid)
    except PermissionError:
        if os.geteuid() == 0:
            raise
        return False
    return True


def _write_xattrs(target: int | bytes, wanted: bytes | None) -> None:
    """Exactly these: what a directory's default ACL gave a new file goes."""
    present = read_xattrs(target)
    if present == wanted:
        return
    follow = {} if isinstance(target, int) else {"follow_symlinks": False}
    new, old = decode(wanted or b"{}"), decode(present or b"{}")
    for name in old.keys() - new.keys():
        with suppress(OSError):
            os.removexattr(target, name, **follow)
    for name, value in new.items():
        if old.get(name) != value:
            os.setxattr(target, name, value, **follow)


def why_not(error: OSError) -> str:
    """An error for people."""
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return "a symbolic link or a file is where a directory should be"
    if error.errno == errno.ENOTSUP:
        return "the library's file system keeps no such extended attributes or ACLs"
    return error.strerror or str(error)
