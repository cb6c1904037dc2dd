"""Tells a library that was set back to a snapshot: it has an older serial than what is known of it.

Each command that notes something of files gives the library's directory a higher serial, before its first
row and after its last one, and notes it, too. A snapshot has that of its time. Of a library that was set back
nothing that is known holds: what was made since would be taken for removed, and old content for an edit. So
its directory gets another identifier, and is another library with the same bucket from then on: files and
objects are compared anew, both sides stay, and where they differ they are named (`publishing.py`).

The serial is an extended attribute of the directory, one for each state, so that machines that share a
library have one each. It is on disk before what is known has it: after a kill the library's is the newer one.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from gridwright.beneath import change_xattr
from gridwright.repository.state_directory import (
    StateDirectory,
    identifier_of,
    made_identity,
    renew_identity,
)

_ID, _SERIAL = "serial of", "serial"
_KINDS = ("trusted", "user")


class SerialStore(Protocol):
    """What is known of a library, in a data base of its state: of a repository, or of a migration."""

    directory: Path
    looks: bool
    state: StateDirectory
    database: sqlite3.Connection
    set_back: str
    """What follows for the user where the library was set back."""

    def fact(self, name: str) -> str | None:
        """A fact; None or nothing where there is none."""

    def set_fact(self, name: str, value: str) -> None:
        """Note a fact."""

    def begin_anew(self, identity: str) -> None:
        """Forget all, which was of another directory."""


def check_serial(known: SerialStore, root: int) -> None:
    """Forget all of a library that was set back, whose open directory is `root`, and say so.

    Who only looks does so for itself alone.
    """
    noted = known.fact(_SERIAL)
    if not noted or not identifier_of(known.state.identity):
        return
    here = _read(root, known.fact(_ID) or "")
    if here >= int(noted):
        return
    bucket = known.fact("bucket")
    known.state.identity = (
        made_identity(root) if known.looks else renew_identity(known.directory, known.state)
    )
    known.state.library, known.state.others = identifier_of(known.state.identity), ()
    known.begin_anew(known.state.identity)
    if bucket:
        known.set_fact("bucket", bucket)
    known.state.note = (
        f"{known.directory} was set back to an earlier state (serial {here}, where {noted} is known): all "
        f"is compared anew, as of another library; {known.set_back}"
    )


def advance(known: SerialStore, root: int) -> None:
    """Give the library a higher serial, and note it. Where it takes none, nothing is noted."""
    if known.looks or not identifier_of(known.state.identity):
        return
    name = known.fact(_ID)
    if not name:
        name = secrets.token_hex(8)
        known.set_fact(_ID, name)
    # No other command of this state comes in between: the library would have an older one than is known.
    known.database.execute("BEGIN IMMEDIATE")
    try:
        serial = max(int(known.fact(_SERIAL) or 0), _read(root, name)) + 1
        if _write(root, name, serial):
            statement = "INSERT OR REPLACE INTO facts VALUES (?, ?)"
            known.database.execute(statement, (_SERIAL, str(serial)))
    except BaseException:
        if known.database.in_transaction:
            known.database.execute("ROLLBACK")
        raise
    known.database.execute("COMMIT")


def _read(root: int, name: str) -> int:
    """The highest serial that the library has for a state; 0 for none."""
    found = [0]
    for kind in _KINDS:
        with suppress(OSError, ValueError):
            found.append(int(os.getxattr(root, _attribute(kind, name))))
    return max(found)


def _write(root: int, name: str, serial: int) -> bool:
    """Write it, and wait until it is on disk; whether the library takes it."""
    for kind in _KINDS:
        with suppress(OSError):
            change_xattr(root, _attribute(kind, name), str(serial).encode())
            os.fsync(root)
            return True
    return False


def _attribute(kind: str, name: str) -> str:
    return f"{kind}.gridwright.serial.{name}"
