"""What a failed call of the system says of the environment, where no verb has said it."""

from __future__ import annotations

import errno
import os

from gridwright.errors import Problem

_REMEDIES = {
    **dict.fromkeys(
        (errno.ENOTCONN, errno.ESTALE, errno.EIO, errno.EHOSTDOWN, errno.ETIMEDOUT, errno.EREMOTEIO),
        "see whether its file system is still there (`mount`, `dmesg`), and mount it again",
    ),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "free space there"),
    errno.EROFS: "remount it read-write; one that turned read-only by itself has found an error: see `dmesg`",
    **dict.fromkeys((errno.EACCES, errno.EPERM), "run as a user who may, or change its owner or mode"),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "raise `ulimit -n`"),
    **dict.fromkeys((errno.ENOMEM, errno.EAGAIN), "end other processes, or raise the limits (`ulimit -a`)"),
}
"""Errors that no code of ours makes, see errno(3)."""


def environment_fault(error: Exception) -> Problem | None:
    """What is wrong with the environment; None where the error may be our own."""
    if not isinstance(error, OSError):
        return None
    if error.errno == errno.ENOENT and not _is_somewhere():
        return Problem("the working directory is gone", remedy="go to a directory that is there: cd DIR")
    if error.errno not in _REMEDIES:
        return None
    where = None if error.filename is None else os.fsdecode(error.filename)
    return Problem(error.strerror or str(error), where=where, remedy=_REMEDIES[error.errno])


def _is_somewhere() -> bool:
    try:
        os.getcwd()  # noqa: PTH109 - asked for its error
    except FileNotFoundError:
        return False
    return True
