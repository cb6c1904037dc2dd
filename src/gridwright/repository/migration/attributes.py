"""Gives what was copied the owner, attributes, mode and times of its source."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from gridwright.beneath import change_mode, change_owner, change_times, change_xattr
from gridwright.refusals import reason_of
from gridwright.repository.extended import decode, read_xattrs

PRIVILEGES = stat.S_ISUID | stat.S_ISGID
"""Who runs the file becomes its owner, or one of its group."""


def are_privileges_void(descriptor: int, status: os.stat_result) -> bool:
    """Whether an open or pinned file has privileges, or is a device, that its mount makes nothing of.

    With `nosuid` and `nodev` its file system is not trusted with either: whoever serves it may make them up.
    """
    if stat.S_ISBLK(status.st_mode) or stat.S_ISCHR(status.st_mode):
        return bool(os.fstatvfs(descriptor).f_flag & os.ST_NODEV)
    if not stat.S_ISREG(status.st_mode) or not status.st_mode & PRIVILEGES:
        return False
    return bool(os.fstatvfs(descriptor).f_flag & os.ST_NOSUID)


def dress(target: int, source: os.stat_result, xattrs: bytes | None, *, void: int = 0) -> bool:
    """Dress an open or pinned file; whether owner and group could be given.

    The set-user-ID bit stays where the owner does; bits of the mode that are `void` are not given. Raises
    OSError: ESTALE where the types differ.
    """
    here = os.fstat(target)
    if stat.S_IFMT(here.st_mode) != stat.S_IFMT(source.st_mode):
        raise OSError(errno.ESTALE, "another file has come in its place")
    if is_dressed(target, source, xattrs, void=void):
        return True
    is_owned = _give(target, here, source)
    _write_xattrs(target, xattrs)
    if not stat.S_ISLNK(source.st_mode):
        # Of whoever makes the copy, a program of another user must not run as him.
        is_privileged = is_owned or stat.S_ISDIR(source.st_mode)
        left = void if is_privileged else PRIVILEGES
        change_mode(target, stat.S_IMODE(source.st_mode) & ~left)
    change_times(target, source.st_atime_ns, source.st_mtime_ns)
    return is_owned


def is_dressed(target: int, source: os.stat_result, xattrs: bytes | None, *, void: int = 0) -> bool:
    """Whether an open or pinned file has these attributes, as far as they are given."""
    here = os.fstat(target)
    return not here.st_mode & void and _all(here) == _all(source) and read_xattrs(target) == xattrs


def can_be_dressed(here: os.stat_result, source: os.stat_result) -> bool:
    """Whether a file that is here may be dressed: its owner may still have it open, to write to it.

    So no file gets another owner, or a set-user-ID bit, after it was made; it is made anew.
    """
    if stat.S_IFMT(here.st_mode) not in (stat.S_IFREG, stat.S_IFDIR):
        return False
    if os.geteuid() != 0 and source.st_uid != os.geteuid():
        return here.st_uid == os.geteuid()
    is_owner = (here.st_uid, here.st_gid) == (source.st_uid, source.st_gid)
    return is_owner and not source.st_mode & ~here.st_mode & PRIVILEGES


def _all(status: os.stat_result) -> tuple[int, ...]:
    # Whoever lists a directory changes when it was last read.
    accessed = 0 if stat.S_ISDIR(status.st_mode) else status.st_atime_ns
    return (status.st_mode, status.st_uid, status.st_gid, accessed, status.st_mtime_ns)


def _give(target: int, here: os.stat_result, source: os.stat_result) -> bool:
    if (here.st_uid, here.st_gid) == (source.st_uid, source.st_gid):
        return True
    try:
        change_owner(target, source.st_uid, source.st_gid)
    except PermissionError:
        if os.geteuid() == 0:
            raise
        return False
    return True


def _write_xattrs(target: int, wanted: bytes | None) -> None:
    """Exactly these: what a directory's default ACL gave a new file goes."""
    present = read_xattrs(target)
    if present == wanted:
        return
    new, old = decode(wanted or b"{}"), decode(present or b"{}")
    for name in old.keys() - new.keys():
        with suppress(OSError):
            change_xattr(target, name, None)
    for name, value in new.items():
        if old.get(name) != value:
            change_xattr(target, name, value)


def why_not(error: OSError) -> str:
    """An error for people."""
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return "a symbolic link or a file is where a directory should be"
    if error.errno == errno.ESTALE:
        return "somebody has put another file in its place meanwhile"
    if error.errno == errno.ENOTSUP:
        return "the library's file system keeps no such extended attributes or ACLs"
    return reason_of(error)
