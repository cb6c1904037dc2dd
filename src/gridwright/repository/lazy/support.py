"""Whether a directory's contents can be loaded when somebody reads them, tried on the spot."""

from __future__ import annotations

import errno
import os
import tempfile

from gridwright.repository.lazy import fanotify
from gridwright.repository.references import can_have_state


def why_not(directory: str) -> str | None:
    """Why this kernel, this file system or this user cannot have it; None where it works.

    Leaves nothing behind.
    """
    if os.geteuid() != 0:
        return "only root may hold back who reads"
    try:
        group = fanotify.new_group()
    except OSError as error:
        if error.errno == errno.EINVAL:
            return f"Linux {os.uname().release} has no pre-content events (6.14 and newer have)"
        return f"the kernel refuses pre-content events: {error.strerror}"
    try:
        with tempfile.TemporaryFile(dir=directory) as file:
            fanotify.mark(group, file.fileno())
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.EOPNOTSUPP, errno.ENODEV):
            return "its file system has no pre-content events (ext4, XFS and Btrfs have)"
        return f"a file for the trial was not made: {error.strerror}"
    finally:
        os.close(group)
    return None if can_have_state(directory) else "its file system has no trusted extended attributes"
