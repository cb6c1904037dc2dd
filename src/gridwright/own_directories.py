"""Directories of the user's own, as the XDG Base Directory Specification 0.8 has them, and temporary ones."""

from __future__ import annotations

import fcntl
import os
import pwd
import tempfile
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from gridwright.beneath import DIRECTORY, remove_tree
from gridwright.errors import environment_error
from gridwright.trusted import sudo_callers, untrusted, why_untrusted_path

_YOUNG_S = 60.0
"""A directory that is as young as this may be one that its process is about to hold."""


_SETTINGS = (".aws", ".oci", ".terraformrc", ".terraform.d")
"""What AWS's and Oracle's libraries, and OpenTofu, read below HOME."""


def state_home() -> Path:
    """Where programs keep state of the user who runs this.

    Raises as `home_directory`, and for root where another user can write it or what leads there.
    """
    return _named_or_below_home("XDG_STATE_HOME", ".local/state")


def cache_home() -> Path:
    """Where programs keep what can be made anew, for the user who runs this. Raises as `state_home`."""
    return _named_or_below_home("XDG_CACHE_HOME", ".cache")


def _named_or_below_home(variable: str, below: str) -> Path:
    """The directory of a variable; a relative one is ignored, as the specification has it."""
    named = Path(os.environ.get(variable, ""))
    place = named if named.is_absolute() else home_directory() / below
    _hold_for_root(place, variable)
    return place


def hold_settings_of_home() -> None:
    """Before a program reads its settings below HOME, which say what it runs and where it goes.

    Those of whoever called sudo are believed. Raises GridwrightError (ENVIRONMENT) for root with the HOME of
    another user.
    """
    if os.geteuid() != 0:
        return
    named = os.environ.get("HOME", "/")
    if not Path(named).is_absolute():
        raise untrusted(named, "HOME is no absolute path", "set HOME to root's own, as sudo -H does")
    home, owners = home_directory(), sudo_callers()
    for place in (home, *(home / setting for setting in _SETTINGS)):
        _hold_for_root(place, owners=owners)


def _hold_for_root(place: Path, variable: str = "", owners: Collection[int] = ()) -> None:
    if os.geteuid() == 0 and (reason := _why_untrusted(place, owners)):
        names = " or ".join(filter(None, (variable, "HOME")))
        raise untrusted(place, reason, f"{names} is a user's: use sudo -H and no -E, or root's own login")


def _why_untrusted(place: Path, owners: Collection[int] = ()) -> str | None:
    """Why nothing below a directory is believed: what is there is run, or says which machines are known."""
    try:
        return why_untrusted_path(place, is_shared=True, owners=owners)
    except OSError as error:
        return str(error.strerror)


def home_directory() -> Path:
    """The home directory: HOME where it is an absolute path, else that of the user's account.

    Raises GridwrightError (ENVIRONMENT) for a user without an account, where HOME is not set.
    """
    named = Path(os.environ.get("HOME", ""))
    if named.is_absolute():
        return named
    with suppress(KeyError):
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    raise environment_error(
        f"user {os.getuid()} has no account, and so no home directory",
        where="HOME",
        remedy="set HOME to a directory of this user; jobs also go by state: in the grid spec",
    )


def temporary_directory(prefix: str, place: str | None = None) -> Path:
    """Make a directory for this process alone, whose path nobody else can lead elsewhere.

    It is made in `place`, or where temporary files are. Raises GridwrightError (ENVIRONMENT) where other
    users may rename there what is not theirs, and OSError.
    """
    place = place or tempfile.gettempdir()
    if reason := _why_untrusted(Path(place)):
        raise untrusted(place, reason, "set TMPDIR to a directory of your own, or to one with the sticky bit")
    return Path(tempfile.mkdtemp(prefix=prefix, dir=place))


def held_directory(prefix: str, place: str | None = None) -> tuple[Path, int]:
    """A temporary directory, and the descriptor by which this process holds it until it ends.

    Those of this user that nobody holds any more, since their processes were killed, are removed. Raises as
    `temporary_directory`.
    """
    _remove_left(prefix, place or tempfile.gettempdir())
    made = temporary_directory(prefix, place)
    held = os.open(made, DIRECTORY)
    # Where the file system has no locks, it is left when it is killed.
    with suppress(OSError):
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return made, held


def _remove_left(prefix: str, place: str) -> None:
    with suppress(OSError):
        for each in [each.path for each in os.scandir(place) if each.name.startswith(prefix)]:
            with suppress(OSError):
                opened = os.open(each, DIRECTORY)
                try:
                    status = os.fstat(opened)
                    is_old = time.time() - status.st_mtime > _YOUNG_S
                    if is_old and status.st_uid == os.geteuid():
                        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        remove_tree(each)
                finally:
                    os.close(opened)
