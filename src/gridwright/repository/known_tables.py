"""The tables of what is known of a repository, in SQLite: those that stay, and those of one run."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gridwright.repository.changelog.tables import CHANGE_TABLES
from gridwright.repository.known_file import COLUMNS

FORMAT = 3
"""1 had no `stored_ns`, 2 no `libraries`."""
_TYPES = {
    "path": "BLOB PRIMARY KEY", "key": "TEXT", "etag": "TEXT", "version_id": "TEXT", "crc64": "TEXT",
    "target": "BLOB", "xattrs": "BLOB", "link_of": "BLOB",
    "libraries": "TEXT",
}  # fmt: skip


def connected(file: Path, timeout_s: float) -> sqlite3.Connection:
    """A connection that begins no transaction by itself. Raises sqlite3.Error."""
    return sqlite3.connect(file, timeout=timeout_s, isolation_level=None)


def prepare(database: sqlite3.Connection) -> None:
    """Make the tables that are not there, and those of this run. Raises sqlite3.Error."""
    columns = ", ".join(f"{name} {_TYPES.get(name, 'INTEGER')}" for name in COLUMNS)
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if version not in range(FORMAT + 1):
        raise sqlite3.DatabaseError(f"it has format {version}, and this release reads {FORMAT}")
    if version == 1:
        database.execute("ALTER TABLE files ADD COLUMN stored_ns INTEGER DEFAULT 0")
    if version in (1, 2):
        database.execute("ALTER TABLE files ADD COLUMN libraries TEXT DEFAULT ''")
    database.execute(f"PRAGMA user_version = {FORMAT}")
    database.execute("PRAGMA synchronous = FULL")
    database.execute(f"CREATE TABLE IF NOT EXISTS files ({columns}) WITHOUT ROWID")
    database.execute("CREATE INDEX IF NOT EXISTS inodes ON files (inode)")
    database.execute("CREATE INDEX IF NOT EXISTS keys ON files (key)")
    database.execute("CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT)")
    # What other libraries have exported, where an older file is here that came from there, too.
    database.execute(f"CREATE TABLE IF NOT EXISTS newer ({columns}) WITHOUT ROWID")
    # Names that another machine's newer manifest has no more, and those whose objects were gone when last
    # looked for (`gone.py`).
    database.execute("CREATE TABLE IF NOT EXISTS dropped (path BLOB PRIMARY KEY) WITHOUT ROWID")
    database.execute("CREATE TABLE IF NOT EXISTS lost (path BLOB PRIMARY KEY) WITHOUT ROWID")
    # What an export is about to send, and what each file was then (`unfinished.py`).
    database.execute("CREATE TABLE IF NOT EXISTS begun (path BLOB PRIMARY KEY, stamp BLOB) WITHOUT ROWID")
    database.execute("CREATE TEMP TABLE published (path BLOB PRIMARY KEY) WITHOUT ROWID")
    for each in CHANGE_TABLES:
        database.execute(f"CREATE TABLE IF NOT EXISTS {each} WITHOUT ROWID")
    database.execute(f"CREATE TEMP TABLE told ({columns}) WITHOUT ROWID")
    database.execute("CREATE INDEX told_keys ON told (key)")
    # What a release is about to take away.
    database.execute("CREATE TEMP TABLE leaving (path BLOB PRIMARY KEY, is_tried INTEGER) WITHOUT ROWID")
    database.execute("CREATE TEMP TABLE seen (path BLOB PRIMARY KEY) WITHOUT ROWID")
    # What is to be done, and what the bucket's listing says; this run's alone.
    database.execute("CREATE TEMP TABLE work (path BLOB, action TEXT, size INTEGER, stamp BLOB)")
    database.execute(
        "CREATE TEMP TABLE times (path BLOB PRIMARY KEY, atime_ns INTEGER, mtime_ns INTEGER) WITHOUT ROWID"
    )
    database.execute("CREATE TEMP TABLE first_names (inode INTEGER PRIMARY KEY, path BLOB)")
    database.execute(
        "CREATE TEMP TABLE listed (key TEXT PRIMARY KEY, size INTEGER, etag TEXT, "
        "modified_ns INTEGER, storage_class TEXT) WITHOUT ROWID"
    )


def counts(database: sqlite3.Connection, source: str, group: str = "''") -> dict[str, tuple[int, int]]:
    """Rows and the sum of their sizes, by group, of a table of our own with a condition of our own.

    Both halves of sizes are summed, which users choose: with two of 2^62 SQLite's sum overflows.
    """
    halves = "coalesce(sum(size >> 32), 0), coalesce(sum(size & 4294967295), 0)"
    found = database.execute(f"SELECT {group}, count(*), {halves} FROM {source} GROUP BY 1")  # noqa: S608
    return {name: (count, (high << 32) + low) for name, count, high, low in found}


def empty(database: sqlite3.Connection) -> None:
    """Forget all that stays. Raises sqlite3.Error."""
    changes = (each.partition(" ")[0] for each in CHANGE_TABLES)
    for table in ("files", "facts", "newer", "dropped", "lost", "begun", *changes):
        database.execute(f"DELETE FROM {table}")  # noqa: S608 - names of our own


@contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    """All or nothing, of what is written within a `with`."""
    database.execute("BEGIN")
    try:
        yield
    except BaseException:
        # SQLite has taken back all itself where the disk is full or fails.
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")
