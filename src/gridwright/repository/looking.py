"""What is known of a repository, for whoever only looks: a copy, so that nothing changes."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote

from gridwright.own_directories import temporary_directory
from gridwright.repository.state_directory import StateDirectory
from gridwright.trusted import open_file

_COPY_S = 30.0


def copy_of(state: StateDirectory, file: str) -> sqlite3.Connection:
    """A copy of a data base of a state directory, for this process alone; empty where there is none.

    It is a temporary file of SQLite's own. Raises GridwrightError, OSError and sqlite3.Error.
    """
    copy = sqlite3.connect("", isolation_level=None)
    source = state.former if state.former is not None and state.former.name == file else state.path / file
    try:
        if source != state.former:
            if state.descriptor is None:
                return copy
            os.close(open_file(state.descriptor, file))
        where = f"file:{quote(str(source))}?mode=ro"
        with closing(sqlite3.connect(where, uri=True, timeout=_COPY_S)) as found:
            found.backup(copy)
    except FileNotFoundError:
        pass
    except sqlite3.OperationalError:
        _copy_with_journal(source, copy)
    return copy


def _copy_with_journal(file: Path, copy: sqlite3.Connection) -> None:
    """Copy a data base that a killed command has left: SQLite settles that only where it may write."""
    place = temporary_directory("gridwright-look-")
    parts = [place / file.name, place / f"{file.name}-journal"]
    try:
        for part in parts:
            with suppress(FileNotFoundError):
                shutil.copyfile(file.with_name(part.name), part)
        with closing(sqlite3.connect(parts[0])) as found:
            found.backup(copy)
    finally:
        for part in parts:
            part.unlink(missing_ok=True)
        place.rmdir()
