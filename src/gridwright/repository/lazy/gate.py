"""The directory of a repository is closed to users whenever nobody would load what they read.

Without a holder of its events the kernel gives a reader of a name the zeros of a file without content. So the
directory belongs to root and has no permissions from the first name on, and is opened while names are served.
What it had is kept in an attribute of it.
"""

from __future__ import annotations

import errno
import json
import os
import stat

ATTRIBUTE = "trusted.gridwright.closed"


def close(directory: int) -> bool:
    """Close an open directory; False where it was closed. Raises OSError."""
    if is_closed(directory):
        return False
    status = os.fstat(directory)
    # What a kill left behind is older, and right: root may own it already.
    if not _has_attribute(directory):
        keep(directory, status.st_mode, status.st_uid, status.st_gid)
    os.fchown(directory, 0, 0)
    os.fchmod(directory, 0)
    os.fsync(directory)
    return True


def open_again(directory: int) -> bool:
    """Give an open directory back what it had; False where it was not closed. Raises OSError."""
    try:
        value = json.loads(os.getxattr(directory, ATTRIBUTE))
    except OSError as error:
        if error.errno == errno.ENODATA:
            return False
        raise
    os.fchown(directory, value["uid"], value["gid"])
    os.fchmod(directory, value["mode"])
    os.removexattr(directory, ATTRIBUTE)
    os.fsync(directory)
    return True


def is_closed(directory: int) -> bool:
    """Whether it was closed by this. Raises OSError."""
    # A kill may have come between the attribute and the permissions.
    return _has_attribute(directory) and stat.S_IMODE(os.fstat(directory).st_mode) == 0


def attributes_of(directory: int) -> tuple[int, int, int]:
    """Permissions, user and group of an open directory, also while it is closed. Raises OSError."""
    if os.geteuid() == 0 and is_closed(directory):
        value = json.loads(os.getxattr(directory, ATTRIBUTE))
        return value["mode"], value["uid"], value["gid"]
    status = os.fstat(directory)
    return stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid


def keep(directory: int, mode: int, uid: int, gid: int) -> bool:
    """What a closed directory will have when it is opened again. Raises OSError."""
    value = {"mode": stat.S_IMODE(mode), "uid": uid, "gid": gid}
    os.setxattr(directory, ATTRIBUTE, json.dumps(value).encode())
    return True


def _has_attribute(directory: int) -> bool:
    try:
        os.getxattr(directory, ATTRIBUTE)
    except OSError as error:
        if error.errno == errno.ENODATA:
            return False
        raise
    return True
