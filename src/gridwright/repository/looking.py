"""What is known of a repository, for whoever only looks: a copy, so that nothing changes."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote

from gridwright.errors import GridwrightError
from gridwright.own_directories import temporary_directory
from gridwright.repository.state_directory import FILE, StateDirectory, open_state
from gridwright.trusted import open_file

_COPY_S = 30.0


def copy_of(state: StateDirectory, file: str) -> sqlite3.Connection:
    """A copy of a data base of a state directory, for this process alone; empty where there is none.

    It is a temporary file of SQLite's own. Raises GridwrightError, OSError and sqlite3.Error.
    """
    copy = sqlite3.connect("", isolation_level=None)
    source = _source(state, file)
    try:
        if source is not None:
            with closing(_readable(source)) as found:
                found.backup(copy)
    except sqlite3.OperationalError:
        _copy_with_journal(source or state.path, copy)
    return copy


def facts_of(directory: Path) -> dict[str, str] | None:
    """The facts of the repository in a directory, as the last command has left them; None where none has.

    What cannot be read is none, either: commands that work on it say why.
    """
    with suppress(GridwrightError, OSError, sqlite3.Error):
        state = open_state(directory, looks=True)
        try:
            if (source := _source(state, FILE)) is not None:
                with closing(_readable(source)) as found:
                    rows = found.execute("SELECT name, value FROM facts").fetchall()
                return {str(name): str(value) for name, value in rows}
        finally:
            state.close()
    return None


def _source(state: StateDirectory, file: str) -> Path | None:
    """Where a data base is read; None for none. Raises GridwrightError and OSError."""
    if state.former is not None and state.former.name == file:
        return state.former
    if state.descriptor is None:
        return None
    try:
        os.close(open_file(state.descriptor, file))
    except FileNotFoundError:
        return None
    return state.path / file


def _readable(source: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(str(source))}?mode=ro", uri=True, timeout=_COPY_S)


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
