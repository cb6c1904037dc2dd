"""What a failure of the state of a repository means: a full disk is no damaged data base."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterable
from pathlib import Path

from gridwright.errors import GridwrightError, environment_error
from gridwright.refusals import reason_of

REMEDY = "remove that file: the next command makes it anew from manifest and files"
KNOWN = "what is known of the repository"
_AGAIN = "run the command again: it goes on"
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_LEAST_BYTES = 64 << 10
"""A file system with less room than that takes no transaction."""
_REASONS = {
    sqlite3.SQLITE_READONLY: ("it cannot be written", f"have it mounted for writing, and {_AGAIN}"),
    sqlite3.SQLITE_CANTOPEN: (
        "it cannot be opened",
        "look at the directory that it lies in, and who may write it",
    ),
    sqlite3.SQLITE_IOERR: (
        "its disk fails, or a quota is used up",
        f"look at the disk and at quotas, and {_AGAIN}",
    ),
    sqlite3.SQLITE_BUSY: ("another command writes it", "wait until that has ended"),
    sqlite3.SQLITE_LOCKED: ("another command writes it", "wait until that has ended"),
    sqlite3.SQLITE_NOMEM: ("there is not enough memory", _AGAIN),
}
"""Of what is no damage: what is wrong, and what to do."""


def damaged(file: Path, why: str, remedy: str = REMEDY, what: str = KNOWN) -> GridwrightError:
    """The error of what is known and cannot be used."""
    return environment_error(f"{what} cannot be read: {why}", where=str(file), remedy=remedy)


def state_failure(
    error: Exception,
    file: Path,
    *,
    remedy: str = REMEDY,
    beside: Iterable[Path] = (),
    what: str = KNOWN,
) -> GridwrightError:
    """The error of a data base of the state, or of a file beside it, that could not be read or written.

    `remedy` is for one that is damaged; `beside` are other places that the same command writes to.
    """
    code = getattr(error, "sqlite_errorcode", None)
    kind = code & 0xFF if code is not None else None
    number = error.errno if isinstance(error, OSError) else None
    if kind in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR) or number in FULL:
        others = list(beside)
        full = _full_place([file.parent, *others, *_temporary()])
        if isinstance(error, OSError) and full is None and others:
            # A target of a file system that has room, or a quota: what the call was about is known alone.
            return environment_error(
                f"{reason_of(error, named=True)}; {what} is as it was before",
                where=os.fsdecode(error.filename)
                if isinstance(error.filename, str | bytes)
                else str(others[0]),
                remedy=f"make room there, on each of its targets where it has several, and {_AGAIN}",
            )
        if full is not None or kind == sqlite3.SQLITE_FULL or number in FULL:
            return environment_error(
                f"the file system of {full or file.parent} is full, or a quota of it is used up: "
                f"{what} cannot be written, and is as it was before",
                where=str(full or file.parent),
                remedy=f"make room there, and {_AGAIN}",
            )
    if kind in _REASONS:
        why, mend = _too_many_open(kind) or _REASONS[kind]
        return environment_error(f"{what} cannot be kept, {why}: {error}", where=str(file), remedy=mend)
    if number is not None:
        return environment_error(
            f"{what} cannot be kept: {reason_of(error, named=True)}", where=str(file), remedy=_AGAIN
        )
    return damaged(file, str(error), remedy, what)


def _too_many_open(kind: int) -> tuple[str, str] | None:
    """The reason and the remedy where no file can be opened because of how many are: SQLite does not say."""
    if kind == sqlite3.SQLITE_CANTOPEN:
        try:
            os.close(os.dup(0))
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                return reason_of(error), f"raise the limit of open files (ulimit -n), and {_AGAIN}"
    return None


def _temporary() -> list[Path]:
    """Where SQLite has the tables of one run when they are large (sqlite.org/tempfiles.html, 5)."""
    named = [os.environ.get(name, "") for name in ("SQLITE_TMPDIR", "TMPDIR")]
    return [Path(each) for each in (*named, "/var/tmp", "/usr/tmp", "/tmp") if each][:1]  # noqa: S108


def _full_place(places: Iterable[Path]) -> Path | None:
    """The first of some directories whose file system has no room left."""
    for each in places:
        try:
            room = os.statvfs(each)
        except OSError:
            continue
        if room.f_bavail * room.f_frsize < _LEAST_BYTES or (room.f_files and not room.f_favail):
            return each
    return None
