"""Whether a repository's disk has room for contents."""

from __future__ import annotations

import os

from gridwright.errors import GridwrightError, environment_error
from gridwright.repository.settings import OpenRepository
from gridwright.units import format_bytes


def check_room(opened: OpenRepository, size: int) -> None:
    """Raise GridwrightError where the disk has no room for so many bytes."""
    room = os.fstatvfs(opened.below.root)
    free = (room.f_bfree if os.geteuid() == 0 else room.f_bavail) * room.f_frsize
    if size > free:
        raise environment_error(
            f"the contents are {format_bytes(size)}, and the disk has {format_bytes(free)}: nothing was done",
            where=str(opened.settings.directory),
            remedy=f"make room, name fewer paths, or {_left(opened)}",
        )


def disk_is_full(opened: OpenRepository) -> GridwrightError:
    """The error of a disk that is full."""
    return environment_error(
        f"the disk is full; files that were brought are whole, and {_others(opened)} as before",
        where=str(opened.settings.directory),
        remedy="make room, and run the command again: it goes on",
    )


def _left(opened: OpenRepository) -> str:
    """What to do without contents; only a file system that guards them has names of such files."""
    return "leave them names only" if opened.is_guarded else "leave the others in the bucket"


def _others(opened: OpenRepository) -> str:
    return "the others are names only" if opened.is_guarded else "the others are in the bucket alone"
