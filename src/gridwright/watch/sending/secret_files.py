"""Secrets of receivers: the first line of a file that only its owner and its group can read."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from gridwright.errors import GridwrightError, Problem, environment_error
from gridwright.handed_files import open_file

_MOST = 4096


def read_secret(path: str) -> str:
    """The first line. Raises GridwrightError (ENVIRONMENT)."""
    for problem in secret_problem(path, path):
        raise environment_error(problem.what, where=problem.where, remedy=problem.remedy)
    try:
        with open_file(Path(path)) as file:
            return file.read(_MOST).decode().partition("\n")[0].strip()
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, str(getattr(error, "strerror", None) or "it is no text")) from error


def secret_problem(path: str, where: str) -> list[Problem]:
    """Why a file is not taken for a secret: it is not there, empty, or everybody can read it."""
    try:
        found = os.stat(path)  # noqa: PTH116 - path and errors as they are
        if not os.access(path, os.R_OK):
            return [Problem(f"{path} may not be read", where=where, remedy="let the watch's user read it")]
    except OSError as error:
        return [
            Problem(f"{path}: {error.strerror}", where=where, remedy="make it, with the secret as its line")
        ]
    if not stat.S_ISREG(found.st_mode) or not found.st_size:
        return [Problem(f"{path} holds no secret", where=where, remedy="write it, as the first line")]
    if found.st_mode & stat.S_IRWXO:
        return [Problem(f"everybody can read {path}", where=where, remedy=f"chmod o= {path}")]
    return []


def _unreadable(path: str, why: str) -> GridwrightError:
    return environment_error(f"the secret cannot be read: {why}", where=path)
