"""All that two trees of files may differ in."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def tree_of(root: Path) -> dict[bytes, tuple[object, ...]]:
    """The root and each name below it, with all that a copy has to keep; without Gridwright's own."""
    found: dict[bytes, tuple[object, ...]] = {}
    first_names: dict[int, bytes] = {}
    top = os.fsencode(root)
    for directory, names, files in os.walk(top):
        if directory == top and b".gridwright" in names:
            names.remove(b".gridwright")
        names.sort()  # The walk goes on in this order: the first of several names is the same in both.
        for name in sorted([b".", *names, *files] if directory == top else [*names, *files]):
            path = directory + b"/" + name
            status = os.lstat(path)
            linked = b""
            if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
                linked = first_names.setdefault(status.st_ino, path[len(top) :])
            found[path[len(top) :]] = (
                status.st_mode,
                status.st_uid,
                status.st_gid,
                status.st_mtime_ns,
                status.st_rdev,
                _content(path, status.st_mode),
                linked,
                {each: os.getxattr(path, each, follow_symlinks=False) for each in _xattrs(path)},
            )
    return found


def _content(path: bytes, mode: int) -> bytes:
    if stat.S_ISLNK(mode):
        return os.readlink(path)  # noqa: PTH115 - bytes
    if not stat.S_ISREG(mode):
        return b""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOATIME)
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


def _xattrs(path: bytes) -> list[str]:
    # XFS shows ACLs to root a second time, in its own form.
    not_kept = ("security.", "trusted.SGI_ACL", "trusted.gridwright.", "user.gridwright.")
    return [each for each in os.listxattr(path, follow_symlinks=False) if not each.startswith(not_kept)]


def untouched(root: Path) -> dict[bytes, tuple[int, ...]]:
    """What anybody who reads or writes a tree leaves there, seen without leaving any of it."""
    found: dict[bytes, tuple[int, ...]] = {}
    waiting = [os.fsencode(root)]
    while waiting:
        path = waiting.pop()
        status = os.lstat(path)
        # Linux knows no way to read a symbolic link that leaves its time of access alone.
        accessed = 0 if stat.S_ISLNK(status.st_mode) else status.st_atime_ns
        found[path] = (accessed, status.st_mtime_ns, status.st_ctime_ns)
        if stat.S_ISDIR(status.st_mode):
            descriptor = os.open(path, os.O_RDONLY | os.O_NOATIME)
            waiting += [path + b"/" + os.fsencode(name) for name in os.listdir(descriptor)]  # noqa: PTH208
            os.close(descriptor)
    return found
