"""What a repository knows: each file and its object as both were when they were equal, in one SQLite file.

It lies in the state directory of the repository, and is the journal of exports and imports, too: a row is
written when file and object are equal, never before. Who finds no row, or an old one, compares both sides; so
a command that was killed at any step goes on without losing or doubling anything.

What is known of files beside their rows: what others have, what is about to leave, and first names.

The tables of what is known of a repository, in SQLite: those that stay, and those of one run.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from operator import attrgetter
from pathlib import Path
from typing import Any

from gridwright.errors import GridwrightError, environment_error
from gridwright.own_directories import temporary_directory
from gridwright.refusals import reason_of
from gridwright.repository.known_file import (
    COLUMNS,
    FileStamp,
    KnownFile,
    is_path_below,
    is_stamped,
    signed_inode,
    why_malformed,
    why_unfit,
)
from gridwright.repository.state_directory import FILE, VARIABLE, copy_of, identifier_of, open_state
from gridwright.repository.state_failures import REMEDY, damaged, state_failure
from gridwright.trusted import open_file

CHANGE_TABLES = (
    "changelogs (mdt TEXT PRIMARY KEY, user TEXT, read_to INTEGER, taken_s REAL)",
    "pending (path BLOB PRIMARY KEY, is_tree INTEGER)",
    "gone (path BLOB PRIMARY KEY)",
)
"""How far each changelog was taken, paths to be looked at, and paths of rows whose files are gone."""
GONE_BY_CHANGES = "path IN (SELECT path FROM gone) AND inode <> 0"
"""Rows of files that were here and are gone, as changelogs tell it: found without a look at all rows."""


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
    # Paths that another machine's newer manifest has no more, and names whose objects were gone when last
    # looked for (`gone.py`).
    database.execute("CREATE TABLE IF NOT EXISTS dropped (path BLOB PRIMARY KEY) WITHOUT ROWID")
    database.execute("CREATE TABLE IF NOT EXISTS lost (path BLOB PRIMARY KEY) WITHOUT ROWID")
    # Names that an import has forgotten since nothing had them: manifests of other machines may have them.
    database.execute(
        "CREATE TABLE IF NOT EXISTS forgotten "
        "(path BLOB PRIMARY KEY, key TEXT, etag TEXT, stored_ns INTEGER) WITHOUT ROWID"
    )
    # What an export is about to send, and what each file was each time since its row (`unfinished.py`).
    database.execute(
        "CREATE TABLE IF NOT EXISTS sent (path BLOB, stamp BLOB, PRIMARY KEY (path, stamp)) WITHOUT ROWID"
    )
    if database.execute("SELECT 1 FROM sqlite_master WHERE name = 'begun'").fetchone():
        # Of releases before, with one stamp of a path.
        database.execute("INSERT OR IGNORE INTO sent SELECT path, stamp FROM begun")
        database.execute("DROP TABLE begun")
    # Directories that an import may write to while it runs, with their modes (`unfinished.py`).
    database.execute("CREATE TABLE IF NOT EXISTS opened (path BLOB PRIMARY KEY, mode INTEGER) WITHOUT ROWID")
    # Files that imports have seen here since they read a manifest of the fact `present under`.
    database.execute("CREATE TABLE IF NOT EXISTS present (path BLOB PRIMARY KEY) WITHOUT ROWID")
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
    database.execute("CREATE TEMP TABLE first_names (inode INTEGER PRIMARY KEY, path BLOB)")
    database.execute("CREATE TEMP TABLE formers (path BLOB PRIMARY KEY, inode INTEGER) WITHOUT ROWID")
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
    stays = ("files", "facts", "newer", "dropped", "lost", "forgotten", "sent", "opened", "present")
    for table in (*stays, *changes):
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


_INSERT_NEWER = f"INSERT OR REPLACE INTO newer VALUES ({', '.join('?' * len(COLUMNS))})"  # noqa: S608 - names of our own
_SELECT_NEWER = f"SELECT {', '.join(COLUMNS)} FROM newer WHERE path = ?"  # noqa: S608 - names of our own


class NewerObjects:
    """What the manifest says of objects, where files here are others: older, or without what it says of them.

    A library has no owners that its user may not give, and no times finer than its file system has them.
    """

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def __bool__(self) -> bool:
        return self._database.execute("SELECT 1 FROM newer LIMIT 1").fetchone() is not None

    def forget(self) -> None:
        """Forget what the former manifest said, but for what an import could not give the file here."""
        self._database.execute(
            "DELETE FROM newer WHERE NOT EXISTS (SELECT 1 FROM files WHERE files.path = newer.path "
            "AND files.etag = newer.etag AND files.stored_ns = newer.stored_ns AND inode <> 0)"
        )

    def keep(self, rows: Iterable[KnownFile]) -> None:
        """Keep rows of the manifest."""
        with transaction(self._database):
            self._database.executemany(_INSERT_NEWER, map(_values, rows))

    def get(self, path: bytes) -> KnownFile | None:
        """The row of a path; None for none."""
        found = self._database.execute(_SELECT_NEWER, (path,)).fetchone()
        return KnownFile(*found) if found else None


class LeavingFiles:
    """Paths that this run's release has told others of, before it takes them away."""

    CHOSEN = "path IN (SELECT path FROM leaving WHERE is_tried = 0)"
    """The condition of rows that are next."""
    OTHERS = "path NOT IN (SELECT path FROM leaving)"

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def __bool__(self) -> bool:
        return self._database.execute("SELECT 1 FROM leaving LIMIT 1").fetchone() is not None

    def __contains__(self, path: bytes) -> bool:
        """Whether it is about to leave: one that was tried has left, or is here."""
        query = "SELECT 1 FROM leaving WHERE path = ? AND is_tried = 0"
        return self._database.execute(query, (path,)).fetchone() is not None

    def add(self, path: bytes) -> None:
        """Choose one."""
        self._database.execute("INSERT INTO leaving VALUES (?, 0)", (path,))

    def tried(self) -> None:
        """All that were chosen have left, or stay."""
        self._database.execute("UPDATE leaving SET is_tried = 1")

    def clear(self) -> None:
        """What stayed is here again."""
        self._database.execute("DELETE FROM leaving")


class FirstNames:
    """The first name of each file with several that this run has met, and which files it has replaced."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def get(self, inode: int) -> bytes | None:
        """That of a file; None where this run has met none."""
        query = "SELECT path FROM first_names WHERE inode = ?"
        found = self._database.execute(query, (signed_inode(inode),)).fetchone()
        return found[0] if found else None

    def keep(self, inode: int, path: bytes) -> None:
        """Keep it for this run."""
        statement = "INSERT OR REPLACE INTO first_names VALUES (?, ?)"
        self._database.execute(statement, (signed_inode(inode), path))

    def former(self, path: bytes) -> int | None:
        """The inode of the file whose name another one has taken in this run; None where nothing had it."""
        query = "SELECT inode FROM formers WHERE path = ?"
        found = self._database.execute(query, (path,)).fetchone()
        return found[0] if found else None

    def keep_former(self, path: bytes, inode: int) -> None:
        """Keep it for this run."""
        statement = "INSERT OR IGNORE INTO formers VALUES (?, ?)"
        self._database.execute(statement, (path, signed_inode(inode)))


_BATCH, _PENDING = 500, 5000
_BEGUN = 2000
"""Names that are noted at once before they are sent: each time takes as long as the disk does."""
_PENDING_S = 2.0
"""After a kill, what was done in so many seconds is compared again."""
_BUSY_S = 30.0
_LARGE = 64 << 30
"""Bytes of a file that is sent for a minute or more: those of other users do not wait for it."""
_DIRECTORY, _FORMER, _PRESENT_UNDER = "directory", "former libraries", "present under"
LIBRARY = "library"
"""The fact that names the library: by its directory, or by this state alone where that has no attributes."""
_values = attrgetter(*COLUMNS)
GONE = "inode <> 0 AND NOT EXISTS (SELECT 1 FROM seen WHERE seen.path = files.path)"
"""Rows of files that were here, and that the scan of this run has not found."""
NO_DIRECTORY = f"mode & {stat.S_IFMT(0o177777)} <> {stat.S_IFDIR}"
"""Rows of files and links: of what is gone these count, as a directory keeps nothing."""
_SELECT = f"SELECT {', '.join(COLUMNS)} FROM files"  # noqa: S608 - names of our own
_SELECT_TOLD = _SELECT.replace("FROM files", "FROM told")
_INSERT = f"INSERT OR REPLACE INTO files VALUES ({', '.join('?' * len(COLUMNS))})"  # noqa: S608

_TAKEN = "mode, {0}.uid, {0}.gid, {0}.xattrs, {0}.mtime_ns"
_NOT_TAKEN = (
    f"INSERT OR REPLACE INTO newer SELECT {', '.join(f'told.{name}' for name in COLUMNS)} "  # noqa: S608
    "FROM told JOIN files ON files.path = told.path AND files.etag = told.etag "
    "AND files.stored_ns = told.stored_ns WHERE files.inode <> 0 "
    f"AND (files.{_TAKEN.format('files')}) IS NOT (told.{_TAKEN.format('told')}) "
    "AND NOT EXISTS (SELECT 1 FROM newer WHERE newer.path = told.path AND newer.stored_ns >= told.stored_ns)"
)
_BEGIN = (
    "INSERT OR REPLACE INTO sent SELECT path, stamp FROM work "
    "WHERE rowid > ? AND rowid <= ? AND (size >= ?) = ? AND stamp IS NOT NULL"
)


class Known:
    """The rows of one repository. One thread uses it."""

    set_back = (
        "an export deletes nothing that was made since, and where file and object differ, both stay and are "
        "named (--prefer says which one wins)"
    )

    def __init__(self, directory: Path, *, looks: bool = False) -> None:
        """Open it, and make it where it is not; who only `looks` has a copy. Raises GridwrightError."""
        self.directory = directory
        self.looks = looks
        try:
            self.state = open_state(directory, identify=not looks, looks=looks)
        except OSError as error:
            raise environment_error(
                f"there is no place for what is known of the repository: {reason_of(error, named=True)}",
                where=str(directory),
                remedy=f"mend that, or name a directory of your own with {VARIABLE}",
            ) from error
        self.working = temporary_directory("gridwright-look-") if looks else self.state.path
        """Where a command may have files while it runs."""
        self._pending: dict[bytes, KnownFile] = {}
        self._settled: list[tuple[bytes]] = []
        self._present: list[tuple[bytes]] = []
        self._stamps: dict[bytes, bytes | None] = {}
        """What is noted of what is about to be sent: one question for each file would take long."""
        self.gone = GONE
        """Which rows are of files that are gone: `GONE_BY_CHANGES` where nothing was scanned."""
        self.is_named = False  # Whether the library has an identifier that outlasts this run.
        self.is_listed = False  # Whether this run has a listing of the bucket.
        self._notes_present = False
        self._written, self._writes = time.monotonic(), 0
        """How often rows were written or taken away: what was read before may be old."""
        self._changed: set[bytes] = set()
        """Paths of the last writes, those after `_changed_since`."""
        self._changed_since = 0
        self.before_writing: Callable[[], object] = lambda: None
        """What has to be on disk before rows are, such as the files that they tell of."""
        self.advance: Callable[[], None] = lambda: None
        """Gives the library a higher serial, before the first row and after the last one."""
        try:
            self.use_file(FILE)
        except GridwrightError:
            self._leave()
            raise

    def use_file(self, name: str) -> None:
        """Open a file of the state directory, made where it is not. Raises GridwrightError."""
        self.file = self.state.path / name
        try:
            if not self.looks:
                os.close(open_file(self.state.made, name, os.O_RDWR | os.O_CREAT, remedy=REMEDY))
            self.database = copy_of(self.state, name) if self.looks else connected(self.file, _BUSY_S)
            prepare(self.database)
            self.newer, self.leaving = NewerObjects(self.database), LeavingFiles(self.database)
            self.first_names = FirstNames(self.database)
            self._belong()
            self.is_named = bool(self.state.library or self.fact(LIBRARY))
            self._was_empty = self.is_empty()
        except (OSError, sqlite3.Error, ValueError) as error:
            raise state_failure(error, self.file) from error

    def _belong(self) -> None:
        """Forget all where it is of another directory that had this path."""
        state, known = self.state, self.fact(_DIRECTORY)
        before = self.fact(LIBRARY) or identifier_of(known)
        if state.identity is not None and state.identity != known:
            if known is not None and not state.is_of(known):
                self.begin_anew(state.identity)
                state.note = f"{self.directory} is another directory than before: all is compared anew"
                before = ""
            self.database.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (_DIRECTORY, state.identity))
        if state.library and before != state.library:
            self._name_library(before)

    def _name_library(self, before: str) -> None:
        """Have rows name this library as everybody does, where this state alone had another name for it."""
        others = map(identifier_of, self.state.others)
        former = " ".join(dict.fromkeys(filter(None, (*self.former_libraries, before, *others))))
        for name, value in ((LIBRARY, self.state.library), (_FORMER, former)):
            self.database.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))
        for table in ("files", "newer") if before else ():
            query = f"UPDATE {table} SET libraries = replace(libraries, ?, ?)"  # noqa: S608 - names of our own
            self.database.execute(query, (before, self.state.library))

    @property
    def former_libraries(self) -> list[str]:
        """What a manifest may call this library, too."""
        return (self.fact(_FORMER) or "").split()

    def begin_anew(self, identity: str) -> None:
        """Forget all: what was known is of another directory than this one."""
        with self.transaction():
            empty(self.database)
            self.database.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (_DIRECTORY, identity))

    def close(self) -> None:
        """Write what is pending, and close."""
        try:
            self.flush()
            if self._writes:
                self.advance()
        finally:
            self.database.close()
            self._leave()

    def _leave(self) -> None:
        self.state.close()
        if self.looks:
            self.working.rmdir()

    def fact(self, name: str) -> str | None:
        """A fact of the repository, such as when the last export began."""
        row = self.database.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row and row[0] is not None else None

    def moment(self, name: str) -> float | None:
        """A fact that is a time in seconds since 1970; None for none. Raises GridwrightError."""
        try:
            return float(text) if (text := self.fact(name)) else None
        except ValueError as error:
            raise damaged(self.file, f"{name}: {error}") from error

    def set_fact(self, name: str, value: str) -> None:
        """Note a fact."""
        self.flush()
        self.database.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    def note_present_under(self, releases: str) -> bool:
        """Have `put_present` note from now on what is here after no other releases than a manifest tells of.

        Returns whether there were others than when files were noted before, which says nothing any more.
        """
        is_new = releases != (self.fact(_PRESENT_UNDER) or "")
        if is_new:
            self.database.execute("DELETE FROM present")
            self.set_fact(_PRESENT_UNDER, releases)
        self._notes_present = bool(releases)
        return is_new

    def was_present_under(self, releases: str, path: bytes) -> bool:
        """Whether a file was noted so, and the manifest still tells of the same releases."""
        query = "SELECT 1 FROM present WHERE path = ?"
        is_same = bool(releases) and releases == self.fact(_PRESENT_UNDER)
        return is_same and self.database.execute(query, (path,)).fetchone() is not None

    def is_empty(self) -> bool:
        """Whether nothing is known."""
        return self.database.execute("SELECT 1 FROM files LIMIT 1").fetchone() is None

    def count(self, where: str = "1") -> tuple[int, int]:
        """Rows and bytes that fit a condition of our own."""
        self.flush()
        return counts(self.database, f"files WHERE {where}").get("", (0, 0))

    def get(self, path: bytes) -> KnownFile | None:
        """The row of a path."""
        if (pending := self._pending.get(path)) is not None:
            return pending
        if self._was_empty and not self._writes:
            return None
        return self._row(self.database.execute(f"{_SELECT} WHERE path = ?", (path,)).fetchone())

    def stamps(self, paths: Sequence[bytes]) -> dict[bytes, FileStamp]:
        """The stamps of the rows of some thousand paths, in one question."""
        self.flush()
        query = (
            "SELECT path, mode, size, mtime_ns, ctime_ns, inode FROM files "  # noqa: S608
            f"WHERE path IN ({', '.join('?' * len(paths))})"
        )
        found = self.database.execute(query, paths)
        try:
            return {path: (stat.S_IFMT(mode), *values) for path, mode, *values in found}
        except (TypeError, OverflowError) as error:
            raise damaged(self.file, f"a row makes no sense: {error}") from error

    def by_key(self, key: str) -> KnownFile | None:
        """The row of an object."""
        self.flush()
        return self._row(self.database.execute(f"{_SELECT} WHERE key = ?", (key,)).fetchone())

    def by_inode(self, inode: int) -> list[KnownFile]:
        """Rows of files that had an inode; those that are not written yet are left out."""
        found = self.database.execute(f"{_SELECT} WHERE inode = ?", (signed_inode(inode),)).fetchall()
        return [row for each in found if (row := self._row(each)) is not None]

    def rows(self, where: str = "1", *values: object, order: str = "path") -> Iterator[KnownFile]:
        """All rows that fit a condition of our own, a few in memory at a time; rows may change meanwhile."""
        self.flush()
        found = self.database.execute(f"{_SELECT} WHERE {where} ORDER BY {order}", values)
        while some := found.fetchmany(_BATCH):
            writes = self._writes
            for each in some:
                if (row := self._now(each[0], each, writes)) is not None:
                    yield row

    def _now(self, path: bytes, found: tuple[Any, ...] | None, writes: int) -> KnownFile | None:
        """The row of a path that was read after so many writes: as it is now."""
        is_current = writes == self._writes or (writes >= self._changed_since and path not in self._changed)
        if not is_current or path in self._pending:
            return self.get(path)
        return self._row(found)

    def _note_changed(self, paths: Iterable[bytes]) -> None:
        """Note that rows were written or taken away."""
        if not self._writes:
            self.advance()
        if len(self._changed) > _PENDING:
            self._changed, self._changed_since = set(), self._writes
        self._writes += 1
        self._changed.update(paths)

    def has_rows_below(self, path: bytes) -> bool:
        """Whether anything is known that lay in a directory of this path before this run."""
        query = "SELECT 1 FROM files WHERE path > ? AND path < ? LIMIT 1"
        return self.database.execute(query, (path + b"/", path + b"0")).fetchone() is not None

    def has_files(self) -> bool:
        """Whether any row is of a file that was here."""
        self.flush()
        return self.database.execute("SELECT 1 FROM files WHERE inode <> 0 LIMIT 1").fetchone() is not None

    def put(self, row: KnownFile, *, settles: bool = False) -> None:
        """Write a row, together with others; `flush` or any question has it on disk.

        With `settles`, file and object are equal: no change of a changelog is left to be looked at, and
        nothing is under way.
        Raises OSError for what no row can have: it is of one file, and ends nothing else.
        """
        if reason := why_unfit(row):
            raise OSError(errno.EOVERFLOW, reason)
        self._pending[row.path] = row
        if settles:
            self._settled.append((row.path,))
        if len(self._pending) >= _PENDING or time.monotonic() - self._written > _PENDING_S:
            self.flush()

    def put_present(self, row: KnownFile) -> None:
        """Write the row of a file that was just seen here, and to be what its object is. Raises OSError."""
        if self._notes_present and row.inode:
            self._present.append((row.path,))
        self.put(row)

    def mark(self, paths: Iterable[bytes]) -> None:
        """Note that the scan of this run has found these."""
        with self.transaction():
            self.database.executemany("INSERT OR IGNORE INTO seen VALUES (?)", ((path,) for path in paths))

    def was_seen(self, path: bytes) -> bool:
        """Whether this run has found a path, or has no reason to doubt that it is there."""
        table = "gone" if self.gone is GONE_BY_CHANGES else "seen"
        there = self.database.execute(f"SELECT 1 FROM {table} WHERE path = ?", (path,)).fetchone()  # noqa: S608
        return (there is None) is (table == "gone")

    def forget(self, *paths: bytes) -> None:
        """Take rows away, in one transaction."""
        if not paths:
            return
        self.flush()
        self._note_changed(paths)
        with self.transaction():
            self.database.executemany("DELETE FROM files WHERE path = ?", ((path,) for path in paths))

    def tell(self, rows: Iterable[KnownFile]) -> None:
        """Keep what the bucket's manifest says, for this run."""
        with self.transaction():
            self.database.executemany(_INSERT.replace("INTO files", "INTO told"), map(_values, rows))

    def keep_not_taken(self) -> None:
        """Keep what was told of objects whose files are here without all of that: no export sends theirs."""
        self.flush()
        self.database.execute(_NOT_TAKEN)

    def manifest_row(self, key: str) -> KnownFile | None:
        """What the manifest says of an object."""
        return _manifest_row(self.database.execute(f"{_SELECT_TOLD} WHERE key = ?", (key,)).fetchone())

    def manifest_row_of(self, path: bytes) -> KnownFile | None:
        """What was told of a path."""
        return _manifest_row(self.database.execute(f"{_SELECT_TOLD} WHERE path = ?", (path,)).fetchone())

    def manifest_work(self, action: str) -> Iterator[KnownFile]:
        """What was told of the paths of work of one kind, some in memory at a time."""
        columns = ", ".join(f"told.{name}" for name in COLUMNS)
        query = (
            f"SELECT work.rowid, {columns} FROM work JOIN told ON told.path = work.path "  # noqa: S608
            "WHERE work.rowid > ? AND action = ? ORDER BY work.rowid LIMIT ?"
        )
        last = 0
        while some := self.database.execute(query, (last, action, _BATCH)).fetchall():
            for _, *values in some:
                yield KnownFile(*values)
            last = some[-1][0]

    def work_backwards(self, action: str) -> Iterator[bytes]:
        """Paths of work of one kind, what lies in a directory before it."""
        found = self.database.execute("SELECT path FROM work WHERE action = ? ORDER BY path DESC", (action,))
        while some := found.fetchmany(_BATCH):
            for (path,) in some:
                yield path

    def flush(self) -> None:
        """Write what is pending in one transaction."""
        if self._pending:
            pending, self._pending = self._pending, {}
            settled, self._settled = self._settled, []
            present, self._present = self._present, []
            self._written = time.monotonic()
            self._note_changed(pending)
            self.before_writing()
            with self.transaction():
                self.database.executemany(_INSERT, map(_values, pending.values()))
                self.database.executemany("DELETE FROM pending WHERE path = ? AND is_tree = 0", settled)
                self.database.executemany("DELETE FROM sent WHERE path = ?", settled)
                self.database.executemany("INSERT OR IGNORE INTO present VALUES (?)", present)

    def add_work(self, items: Iterable[tuple[bytes, str, int, bytes | None]]) -> None:
        """Keep what is to be done, for this run: path, action, bytes, and the file's `sent_stamp`."""
        with self.transaction():
            self.database.executemany("INSERT INTO work VALUES (?, ?, ?, ?)", items)

    def work(self) -> Iterator[tuple[bytes, str, int, bytes | None]]:
        """What is to be done, in the order in which it was found, some in memory at a time."""
        last = 0
        while some := self.database.execute(
            "SELECT rowid, path, action, size, stamp FROM work WHERE rowid > ? ORDER BY rowid LIMIT ?",
            (last, _BATCH),
        ).fetchall():
            for rowid, path, action, size, stamp in some:
                last = rowid
                yield path, action, size, stamp

    def work_with_rows(self, *, begins: bool = False) -> Iterator[tuple[bytes, str, KnownFile | None]]:
        """Paths and actions of work as it was found, large files last, and what is known of each.

        With `begins`, it is on disk before any of a batch is given that all of it may be sent.
        """
        columns = ", ".join(f"files.{name}" for name in COLUMNS)
        query = (
            f"SELECT work.rowid, work.path, action, stamp, {columns} FROM work LEFT JOIN files "  # noqa: S608
            "ON files.path = work.path WHERE work.rowid > ? AND (work.size >= ?) = ? "
            "ORDER BY work.rowid LIMIT ?"
        )
        for is_large in (False, True):
            last, most = 0, _BEGUN if begins else _BATCH
            while some := self.database.execute(query, (last, _LARGE, is_large, most)).fetchall():
                if begins:
                    self._stamps = {path: stamp for _, path, _, stamp, *_ in some}
                    self.database.execute(_BEGIN, (last, some[-1][0], _LARGE, is_large))
                writes = self._writes
                for _, path, action, _, *values in some:
                    found = tuple(values) if values[0] is not None else None
                    yield path, action, self._now(path, found, writes)
                last = some[-1][0]

    def begin(self, path: bytes, stamp: bytes) -> None:
        """Note on disk what is about to be sent, where it is another file than the scan has found."""
        if self._stamps.get(path) != stamp:
            self.database.execute("INSERT OR REPLACE INTO sent VALUES (?, ?)", (path, stamp))

    def begun(self) -> list[tuple[bytes, bytes]]:
        """Paths and stamps of what was begun to be sent, and has no row since: some thousand."""
        found = self.database.execute("SELECT path, stamp FROM sent").fetchall()
        return [each for each in found if is_stamped(*each)]

    def stamps_of(self, path: bytes) -> list[bytes]:
        """Those of one path."""
        found = self.database.execute("SELECT stamp FROM sent WHERE path = ?", (path,)).fetchall()
        return [stamp for (stamp,) in found if is_stamped(path, stamp)]

    def begun_now(self, *, all_there_is: bool) -> list[bytes]:
        """Their paths, or those of this run's work."""
        query = "SELECT DISTINCT path FROM sent"
        query += "" if all_there_is else " WHERE path IN (SELECT path FROM work)"
        return [path for (path,) in self.database.execute(query)]

    def end(self, paths: Iterable[bytes]) -> None:
        """Note that nothing of these is under way."""
        with self.transaction():
            self.database.executemany("DELETE FROM sent WHERE path = ?", ((path,) for path in paths))

    def note_opened(self, path: bytes, mode: int) -> None:
        """Note on disk that a directory is opened for an import, and its mode before."""
        self.database.execute("INSERT OR IGNORE INTO opened VALUES (?, ?)", (path, mode))

    def opened_up(self) -> list[tuple[bytes, int]]:
        """Directories that are open so, and their modes; rows of an unfit state are none."""
        found = self.database.execute("SELECT path, mode FROM opened").fetchall()
        return [(path, mode) for path, mode in found if is_path_below(path) and mode in range(0o10000)]

    def forget_opened(self, path: bytes) -> None:
        """Note that one is as it was."""
        self.database.execute("DELETE FROM opened WHERE path = ?", (path,))

    def count_work(self) -> dict[str, tuple[int, int]]:
        """How much is to be done, and its bytes, by action."""
        return counts(self.database, "work", "action")

    def list_objects(self, entries: Iterable[tuple[str, int, str, int, str]]) -> None:
        """Keep a listing of the bucket for this run: key, size, ETag, time, storage class."""
        with self.transaction():
            self.database.executemany("INSERT OR REPLACE INTO listed VALUES (?, ?, ?, ?, ?)", entries)

    def unlist(self, keys: Iterable[str | None]) -> None:
        """Take off the listing what was deleted since."""
        self.database.executemany("DELETE FROM listed WHERE key = ?", ((each,) for each in keys))

    def listed(self, key: str) -> tuple[int, str, int, str] | None:
        """Size, ETag, time and storage class of an object, if the listing has it."""
        row = self.database.execute(
            "SELECT size, etag, modified_ns, storage_class FROM listed WHERE key = ?", (key,)
        ).fetchone()
        return None if row is None else (row[0], row[1], row[2], row[3])

    def has_keys_below(self, key: str) -> bool:
        """Whether the listing has keys that begin with a key and `/`; the next character is `0`."""
        query = "SELECT 1 FROM listed WHERE key >= ? AND key < ? LIMIT 1"
        return self.database.execute(query, (f"{key}/", f"{key}0")).fetchone() is not None

    def all_listed(self) -> Iterator[tuple[str, int, str, int, str]]:
        """The listing, in the order of keys, some in memory at a time."""
        last = ""
        while some := self.database.execute(
            "SELECT key, size, etag, modified_ns, storage_class FROM listed WHERE key > ? "
            "ORDER BY key LIMIT ?",
            (last, _BATCH),
        ).fetchall():
            yield from some
            last = some[-1][0]

    def listed_with_manifest(self) -> Iterator[tuple[tuple[str, int, str, int, str], KnownFile | None]]:
        """The listing in the order of keys, and what was told of each; some in memory at a time."""
        columns = ", ".join(f"told.{name}" for name in COLUMNS)
        query = (
            "SELECT listed.key, listed.size, listed.etag, modified_ns, storage_class, "  # noqa: S608
            f"{columns} FROM listed LEFT JOIN told ON told.key = listed.key "
            "WHERE listed.key > ? ORDER BY listed.key LIMIT ?"
        )
        last = ""
        while some := self.database.execute(query, (last, _BATCH)).fetchall():
            for key, size, etag, modified_ns, storage_class, *told in some:
                # Of rows of a manifest that name the same key the first one counts.
                if key != last:
                    last = key
                    row = None if told[0] is None else KnownFile(*told)
                    yield (key, size, etag, modified_ns, storage_class), row

    def count_listed(self) -> tuple[int, int]:
        """Objects and bytes of the listing."""
        return counts(self.database, "listed").get("", (0, 0))

    def transaction(self) -> AbstractContextManager[None]:
        """All or nothing, of what is written within a `with`."""
        return transaction(self.database)

    def _row(self, found: tuple[Any, ...] | None) -> KnownFile | None:
        if found is None:
            return None
        row = KnownFile(*found)
        if reason := why_malformed(row):
            raise damaged(self.file, f"the row of {row.path!a:.80} makes no sense, {reason}")
        row.is_name_only = bool(row.is_name_only)
        return row


def _manifest_row(found: tuple[Any, ...] | None) -> KnownFile | None:
    """A row of this run's own table, into which nothing comes but what was admitted."""
    return None if found is None else KnownFile(*found)
