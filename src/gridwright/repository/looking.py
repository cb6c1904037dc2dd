"""What is known of a repository, for whoever only looks: a copy, so that nothing changes."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing, suppress
from operator import itemgetter
from pathlib import Path
from urllib.parse import quote

from gridwright.errors import GridwrightError
from gridwright.own_directories import temporary_directory
from gridwright.repository.keys import bucket_of, prefix_of
from gridwright.repository.state_directory import FILE, OF_BUCKETS, StateDirectory, open_state
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


def facts_of(directory: Path, bucket_url: str) -> dict[str, str] | None:
    """The facts of a directory and a bucket, as the last command has left them; None where none has.

    Of buckets of one name and several stores it is the one that was worked on last. What cannot be read is
    none, either: commands that work on it say why.
    """
    place = f"{bucket_of(bucket_url)}/{prefix_of(bucket_url).strip('/')}"
    found: list[tuple[int, dict[str, str]]] = []
    with suppress(GridwrightError, OSError, sqlite3.Error):
        state = open_state(directory, looks=True)
        try:
            for name in sorted({FILE, *(each.name for each in state.path.glob(OF_BUCKETS))}):
                if (source := _source(state, name)) is not None:
                    with closing(_readable(source)) as database:
                        rows = database.execute("SELECT name, value FROM facts").fetchall()
                    facts = {str(name): str(value) for name, value in rows}
                    if facts.get("bucket", f"/{place}").partition("/")[2] == place:
                        found.append((source.stat().st_mtime_ns, facts))
        finally:
            state.close()
    return max(found, key=itemgetter(0), default=(0, None))[1]


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
