"""Directories of one user's jobs below the state directory, which keep users of a file system apart."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable
from pathlib import Path

from gridwright.errors import GridwrightError, environment_error

KEPT_S = 86_400.0
"""How long traces of runs are kept."""


def this_user() -> str:
    """The name of the user that runs this; the number where it has none."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def make_user_directory(state: Path, kind: str, names: Iterable[str]) -> Path:
    """The directory of this user for a kind of scheduler, with those in it, made where they are not there.

    Raises GridwrightError (ENVIRONMENT).
    """
    shared = state / kind
    base = shared / this_user()
    try:
        if not shared.is_dir():
            shared.mkdir(parents=True, exist_ok=True)
            # Other users of the grid have directories of their own beside this one, as in /tmp.
            shared.chmod(0o1777)
        for each in (base, *(base / name for name in names)):
            each.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise unusable_state(error, state) from error
    return base


def unusable_state(error: OSError, path: Path) -> GridwrightError:
    """The error of a state directory that cannot be written; `path` where the system names no file."""
    return environment_error(
        f"the state directory cannot be used: {error.strerror}",
        where=str(error.filename or path),
        remedy="make it, writable for all who submit jobs, or name another with state: in the spec",
    )
