"""What a failed call of the system says of the environment, where no verb has said it."""

from __future__ import annotations

import errno
import os

from gridwright.errors import Problem
from gridwright.refusals import REMEDIES


def environment_fault(error: Exception) -> Problem | None:
    """What is wrong with the environment; None where the error may be our own."""
    if not isinstance(error, OSError):
        return None
    if error.errno == errno.ENOENT and not _is_somewhere():
        return Problem("the working directory is gone", remedy="go to a directory that is there: cd DIR")
    if error.errno not in REMEDIES:
        return None
    where = None if error.filename is None else os.fsdecode(error.filename)
    return Problem(error.strerror or str(error), where=where, remedy=REMEDIES[error.errno])


def _is_somewhere() -> bool:
    try:
        os.getcwd()  # noqa: PTH109 - asked for its error
    except FileNotFoundError:
        return False
    return True
