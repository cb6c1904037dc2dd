"""What a migration has made, in one SQLite file of its state: nothing else in the library is touched.

A row is begun before its file is made, and ended after the file is on disk. So after a kill at any step it is
known what is of the migration, and what somebody else has made or changed since.

Decides what becomes of a name of the source: from its status, its row, and what is in the library.

A dry run has the same in memory: what the run would have made by then.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from enum import Enum
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from gridwright.beneath import DIRECTORY, Beneath
from gridwright.errors import GridwrightError
from gridwright.repository.below import is_part
from gridwright.repository.file_clock import bounded_ns, is_stored_as
from gridwright.repository.keys import shown
from gridwright.repository.known import NO_DIRECTORY
from gridwright.repository.known_file import signed_inode
from gridwright.repository.settings import RepositoryReport, is_chosen
from gridwright.repository.state_directory import MIGRATION, advance, check_serial, copy_of, open_state
from gridwright.repository.state_failures import state_failure
from gridwright.repository.walking import FileStatus
from gridwright.trusted import open_file

if TYPE_CHECKING:
    from gridwright.repository.walking import FileStatus


_PENDING, _PENDING_S = 2000, 2.0
_PAGE = 500
_LINK = "link"


@dataclass(slots=True)
class MigratedFile:
    """A name that the migration has made, as both sides were then; times in nanoseconds since 1970."""

    path: bytes
    mode: int
    source_inode: int
    source_size: int
    source_mtime_ns: int
    source_ctime_ns: int
    inode: int
    """0 for one that has never been ended."""
    size: int
    mtime_ns: int
    is_begun: bool
    is_made: bool
    """False for a directory that was there before."""

    def is_same_source(self, status: FileStatus) -> bool:
        """Whether nobody has touched the source since."""
        times = bounded_ns(status.st_mtime_ns), bounded_ns(status.st_ctime_ns)
        return not self.is_begun and (
            self.source_inode, self.source_size, self.source_mtime_ns, self.source_ctime_ns,
        ) == (status.st_ino, status.st_size, *times)  # fmt: skip

    def is_of_migration(self, here: FileStatus, source: FileStatus | None = None) -> bool:
        """Whether what lies in the library is what the migration has made, and nobody has changed since."""
        if stat.S_ISDIR(here.st_mode):
            return stat.S_ISDIR(self.mode)
        if stat.S_ISDIR(self.mode):
            return False
        found = (here.st_ino, here.st_size, bounded_ns(here.st_mtime_ns))
        if found == (self.inode, self.size, self.mtime_ns):
            return True
        # It was killed between the file and its row.
        new = [(self.source_size, self.source_mtime_ns)]
        new += [(source.st_size, bounded_ns(source.st_mtime_ns))] if source else []
        is_new = any(
            size == here.st_size and is_stored_as(time_ns, here.st_mtime_ns) for size, time_ns in new
        )
        return self.is_begun and is_new


STRANGER = "something else is here already; it was not overwritten (move it away, and it is copied)"


class MigrationDecision(Enum):
    """What to do, or why nothing is done."""

    SAME = "nothing has changed"
    COPY = "the source is new or has changed"
    COMPARE = "the contents tell"
    DIRECTORY = "it is a directory"
    CHANGED_HERE = "it was changed here, and the source was not"
    CHANGED_ON_BOTH_SIDES = (
        "it was changed at the source and here, and not overwritten (removed, it is copied)"
    )
    STRANGER = STRANGER
    AGAIN = "a directory is here, and the source has none; --cut-over removes what the source no longer has"
    EXCHANGED = "another directory is here than the migration made or met; it was left as it is"
    OF_ANOTHER = (
        "another directory is at the source than before; this one stays closed while it holds files of that"
        " one (--cut-over removes what the migration has made of them)"
    )
    SOCKET = "nobody listens to a copy of it"


def decide(source: FileStatus, row: MigratedFile | None, here: os.stat_result | None) -> MigrationDecision:
    """What to do about a name; `here` is None where the library has none. Hard links are not looked at."""
    if stat.S_ISSOCK(source.st_mode):
        return MigrationDecision.SOCKET
    if stat.S_ISDIR(source.st_mode):
        is_free = here is None or stat.S_ISDIR(here.st_mode)
        is_ours = row is not None and here is not None and row.is_of_migration(here, source)
        return MigrationDecision.DIRECTORY if is_free or is_ours else MigrationDecision.STRANGER
    if here is None:
        return MigrationDecision.COPY
    return _beside_stranger(source, here) if row is None else _beside(source, row, here)


def rank_of(decision: MigrationDecision, row: MigratedFile | None) -> int:
    """Which of several names of a file is copied, rather than made another name: the lowest.

    First comes one that has the content here already, and last one that may have to be left.
    """
    if decision is MigrationDecision.SAME or (decision is MigrationDecision.COMPARE and row is not None):
        return 0
    return 1 if decision in (MigrationDecision.COPY, MigrationDecision.COMPARE) else 2


def may_dress(
    source: FileStatus, row: MigratedFile | None, here: os.stat_result, writers: set[int | None]
) -> bool:
    """Whether a directory that is here may get the attributes of its source, and copies.

    It is that of an earlier pass, or nobody else can have put it there: `writers` are who may rename what
    others have on the way to it.
    """
    if row is not None and row.inode == here.st_ino:
        return True
    trusted = {0, os.geteuid()}
    if row is not None and not row.inode:
        # A pass that was killed has made it, and nobody else could enter it since.
        return here.st_uid in trusted and not here.st_mode & 0o077
    if here.st_uid == source.st_uid:
        # Whoever exchanges directories of his own gives nobody anything.
        trusted.add(here.st_uid)
    return here.st_uid in trusted and writers <= trusted


def is_replaced(source: FileStatus, row: MigratedFile | None) -> bool:
    """Whether a directory that is here may hold what came from another one of the source.

    Who may rename directories there gives another owner to what the library has, otherwise.
    """
    if row is None:
        return False
    return row.source_inode != source.st_ino or (row.is_begun and row.inode != 0)


def _beside_stranger(source: FileStatus, here: os.stat_result) -> MigrationDecision:
    is_alike = (stat.S_IFMT(here.st_mode), here.st_size) == (stat.S_IFMT(source.st_mode), source.st_size)
    return (
        MigrationDecision.COMPARE
        if is_alike and not stat.S_ISDIR(here.st_mode)
        else MigrationDecision.STRANGER
    )


def _beside(source: FileStatus, row: MigratedFile, here: os.stat_result) -> MigrationDecision:
    if stat.S_ISDIR(here.st_mode) and stat.S_ISDIR(row.mode):
        return MigrationDecision.AGAIN
    if not row.is_of_migration(here, source):
        return (
            MigrationDecision.CHANGED_HERE
            if row.is_same_source(source)
            else MigrationDecision.CHANGED_ON_BOTH_SIDES
        )
    if row.is_same_source(source):
        return MigrationDecision.SAME
    same = (row.source_size, row.source_mtime_ns) == (source.st_size, bounded_ns(source.st_mtime_ns))
    same = same and stat.S_IFMT(row.mode) == stat.S_IFMT(source.st_mode)
    return MigrationDecision.COMPARE if same else MigrationDecision.COPY


_COLUMNS = tuple(field.name for field in fields(MigratedFile))
_values_of = attrgetter(*_COLUMNS)
_INSERT = f"VALUES ({', '.join('?' * len(_COLUMNS))})"
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM files"  # noqa: S608 - names of our own


class MigrationJournal:
    """The rows of one library. One thread uses it."""

    set_back = (
        "what differs from the source stays and is named, and a cut-over removes nothing that was made before"
    )

    def __init__(self, directory: Path, sync: Callable[[], None], *, dry_run: bool = False) -> None:
        """`sync` has all files on disk when it returns. A dry run makes no file.

        Raises GridwrightError, and OSError where the library cannot be opened.
        """
        self.directory, self.looks = directory, dry_run
        self.state = state = open_state(directory, identify=not dry_run, file=MIGRATION, looks=dry_run)
        self.file = state.path / MIGRATION
        self._has_written = False
        self._sync = sync
        self._pending: dict[bytes, MigratedFile] = {}
        self._written = time.monotonic()
        try:
            if dry_run:
                self.database = copy_of(state, MIGRATION)
            else:
                os.close(open_file(state.made, MIGRATION, os.O_RDWR | os.O_CREAT))
                self.database = sqlite3.connect(self.file, timeout=30, isolation_level=None)
            self._prepare()
            self._belong(state.identity)
            self._of_library(check_serial)
        except BaseException as error:
            state.close()
            if isinstance(error, sqlite3.Error):
                raise self.failure(error) from error
            raise

    @property
    def note(self) -> str | None:
        """What became of what was known."""
        return self.state.note

    def failure(self, error: sqlite3.Error) -> GridwrightError:
        """The error of a journal that cannot be read or written."""
        return state_failure(
            error,
            self.file,
            remedy="remove it: files that are equal on both sides are then taken as they are",
            what="the journal of the migration",
        )

    def _prepare(self) -> None:
        columns = ", ".join(
            "path BLOB PRIMARY KEY" if name == "path" else f"{name} INTEGER" for name in _COLUMNS
        )
        for statement in (
            "PRAGMA synchronous = FULL",
            f"CREATE TABLE IF NOT EXISTS files ({columns}) WITHOUT ROWID",
            "CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT)",
            "CREATE TEMP TABLE seen (path BLOB PRIMARY KEY) WITHOUT ROWID",
            "CREATE TEMP TABLE names (inode INTEGER, rank INTEGER, path BLOB)",
            "CREATE TEMP TABLE later (path BLOB, why TEXT, first BLOB)",
        ):
            self.database.execute(statement)

    def _belong(self, identity: str | None) -> None:
        """Forget all where it is of another directory that had this path."""
        known = self.fact("directory")
        if identity is None or identity == known:
            return
        if known and not self.state.is_of(known):
            self.begin_anew(identity)
        self.set_fact("directory", identity)

    def begin_anew(self, identity: str) -> None:
        """Forget all: what was known is of another directory than this one."""
        self.database.execute("DELETE FROM files")
        self.database.execute("DELETE FROM facts")
        self.set_fact("directory", identity)

    def _of_library(self, what: Callable[[MigrationJournal, int], None]) -> None:
        root = os.open(self.directory, DIRECTORY)
        try:
            what(self, root)
        finally:
            os.close(root)

    def close(self) -> None:
        """Close; what is pending is not written."""
        try:
            if self._has_written:
                self._of_library(advance)
        finally:
            self.database.close()
            self.state.close()

    def fact(self, name: str) -> str:
        """A fact of the migration; empty for none."""
        row = self.database.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return row[0] if row else ""

    def set_fact(self, name: str, value: str) -> None:
        """Note a fact."""
        self.database.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    def is_empty(self) -> bool:
        """Whether nothing was ever made."""
        return self.database.execute("SELECT 1 FROM files LIMIT 1").fetchone() is None

    def count(self) -> int:
        """How many names the migration has made, without directories."""
        self.flush()
        query = f"SELECT count(*) FROM files WHERE is_made AND {NO_DIRECTORY}"  # noqa: S608 - names of our own
        return int(self.database.execute(query).fetchone()[0])

    def has_seen(self) -> bool:
        """Whether this run has met anything at the source."""
        return self.database.execute("SELECT 1 FROM seen LIMIT 1").fetchone() is not None

    def get(self, path: bytes) -> MigratedFile | None:
        """The row of a path."""
        if (pending := self._pending.get(path)) is not None:
            return pending
        return _row(self.database.execute(f"{_SELECT} WHERE path = ?", (path,)).fetchone())

    def see(self, paths: Iterable[bytes]) -> None:
        """Note that the source has these."""
        self._many("INSERT OR IGNORE INTO seen VALUES (?)", ((path,) for path in paths))

    def is_seen(self, path: bytes) -> bool:
        """Whether this run has met a path at the source."""
        return self.database.execute("SELECT 1 FROM seen WHERE path = ?", (path,)).fetchone() is not None

    def begin(self, rows: Sequence[MigratedFile]) -> None:
        """Note, before anything is made, that these will be. What is pending comes first."""
        if rows:
            self.flush()
            self._write(f"INSERT OR REPLACE INTO files {_INSERT}", map(_values, rows))

    def end(self, row: MigratedFile) -> None:
        """Note what was made, together with others."""
        row.is_begun = False
        self._pending[row.path] = row
        if len(self._pending) >= _PENDING or time.monotonic() - self._written > _PENDING_S:
            self.flush()

    def flush(self) -> None:
        """Wait until what was made is on disk, and write its rows. Raises OSError."""
        self._written = time.monotonic()
        if self._pending:
            self._sync()
            pending, self._pending = self._pending, {}
            self._write(f"INSERT OR REPLACE INTO files {_INSERT}", map(_values, pending.values()))

    def forget(self, path: bytes) -> None:
        """Take a row away."""
        self.flush()
        self._write("DELETE FROM files WHERE path = ?", [(path,)])

    def name(self, inode: int, rank: int, path: bytes) -> None:
        """Note a name of a file of the source with several; that of the lowest rank is its first one."""
        self.database.execute("INSERT INTO names VALUES (?, ?, ?)", (signed_inode(inode), rank, path))

    def first_names(self) -> Iterator[list[bytes]]:
        """The first names of files with several, some at a time; the others are kept as links to them.

        Which one it is depends on the names alone: a walk of several threads meets them in any order.
        """
        found = self.database.execute("SELECT inode, path FROM names ORDER BY inode, rank, path")
        inode, first = None, b""
        while some := found.fetchmany(_PAGE):
            firsts = []
            for number, path in some:
                if number != inode:
                    inode, first = number, bytes(path)
                    firsts.append(first)
                else:
                    self.postpone(bytes(path), _LINK, first)
            yield firsts

    def postpone(self, path: bytes, why: str, first: bytes | None = None) -> None:
        """Keep a path for a later step of this run, and the first name of its file."""
        self.database.execute("INSERT INTO later VALUES (?, ?, ?)", (path, why, first))

    def links(self) -> Iterator[list[tuple[bytes, bytes]]]:
        """Further names of files, each with the first one, some at a time."""
        found = self.database.execute("SELECT path, first FROM later WHERE why = ? ORDER BY path", (_LINK,))
        while some := found.fetchmany(_PAGE):
            yield [(bytes(path), bytes(first)) for path, first in some]

    def postponed(self, why: str) -> Iterator[bytes]:
        """Paths that were kept for a step, what lies in a directory before it."""
        yield from self._paths("SELECT path FROM later WHERE why = ? ORDER BY path DESC", why)

    def seen(self) -> Iterator[MigratedFile]:
        """Rows of what the source has."""
        self.flush()
        for path in self._paths("SELECT path FROM seen ORDER BY path"):
            if (row := self.get(path)) is not None:
                yield row

    def vanished(self) -> Iterator[MigratedFile]:
        """Rows of what the source no longer has, what lies in a directory before it."""
        self.flush()
        query = "SELECT path FROM files WHERE path NOT IN (SELECT path FROM seen) ORDER BY path DESC"
        for path in self._paths(query):
            if (row := self.get(path)) is not None:
                yield row

    def _paths(self, query: str, *values: object) -> Iterator[bytes]:
        found = self.database.execute(query, values)
        while some := found.fetchmany(_PAGE):
            for (path,) in some:
                yield bytes(path)

    def _write(self, statement: str, values: Iterable[tuple[object, ...]]) -> None:
        """Write to the rows that stay; the library has a higher serial before the first of a run."""
        if not self._has_written:
            self._has_written = True
            self._of_library(advance)
        self._many(statement, values)

    def _many(self, statement: str, values: Iterable[tuple[object, ...]]) -> None:
        self.database.execute("BEGIN")
        try:
            self.database.executemany(statement, values)
            self.database.execute("COMMIT")
        except BaseException:
            # An order to stop may come when it has just been committed.
            if self.database.in_transaction:
                self.database.execute("ROLLBACK")
            raise


def begun(path: bytes, source: FileStatus, before: MigratedFile | None) -> MigratedFile:
    """The row of what is about to be made; what was made before is still known."""
    return MigratedFile(
        path=path,
        mode=source.st_mode,
        source_inode=source.st_ino,
        source_size=source.st_size,
        source_mtime_ns=bounded_ns(source.st_mtime_ns),
        source_ctime_ns=bounded_ns(source.st_ctime_ns),
        inode=before.inode if before else 0,
        size=before.size if before else 0,
        mtime_ns=before.mtime_ns if before else 0,
        is_begun=True,
        is_made=before.is_made if before else True,
    )


def ended(path: bytes, source: FileStatus, here: os.stat_result, *, is_made: bool = True) -> MigratedFile:
    """The row of what was made."""
    row = begun(path, source, None)
    row.is_made = is_made
    row.inode, row.size, row.is_begun = here.st_ino, here.st_size, False
    row.mtime_ns = bounded_ns(here.st_mtime_ns)
    return row


def _values(row: MigratedFile) -> tuple[object, ...]:
    if row.inode >> 63 or row.source_inode >> 63:
        row = replace(row, inode=signed_inode(row.inode), source_inode=signed_inode(row.source_inode))
    values: tuple[object, ...] = _values_of(row)
    return values


def _row(found: tuple[object, ...] | None) -> MigratedFile | None:
    if found is None:
        return None
    row = MigratedFile(*found)  # type: ignore[arg-type]
    row.is_begun, row.is_made = bool(row.is_begun), bool(row.is_made)
    row.inode, row.source_inode = row.inode % (1 << 64), row.source_inode % (1 << 64)
    return row


COPIED, LINKED, SAME = "copied", "linked", "unchanged"
NO_DIRECTORY_HERE = OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
_SAMPLE = 200


class MigrationPlan:
    """Of one dry run; nothing of it is written down. One thread uses it."""

    def __init__(self, journal: MigrationJournal, below: Beneath, report: RepositoryReport) -> None:
        self._journal = journal
        self._below = below
        self._report = report
        self.sample: list[bytes] = []
        """Some files that would be copied."""
        self.changing = set[bytes]()
        """Directories in which names would be made or removed."""
        self.going = set[bytes]()
        """What would be removed."""
        self.blocked: list[bytes] = []
        """Directories of the source that would not be made, as something else is here."""
        self.replaced = set[bytes]()
        """Directories that are here, of others at the source than before."""
        self.taken = set[bytes]()
        """What is here, and would be of the migration from now on."""
        self._firsts: dict[bytes, tuple[int, int]] = {}
        """First names of files with several: their inodes then, 0 for new ones, and their modes."""

    def is_blocked(self, path: bytes) -> bool:
        """Whether what a name lies in would not be made."""
        return bool(self.blocked) and is_chosen(path, self.blocked)

    def changes(self, path: bytes) -> None:
        """Note that a name would be made or removed."""
        self.changing.add(path.rpartition(b"/")[0])

    def first(self, path: bytes, source: FileStatus, here: os.stat_result | None) -> None:
        """Note the first name of a file with several; `here` is what stays of the library, if anything."""
        if source.st_nlink > 1:
            self._firsts[path] = here.st_ino if here is not None else 0, source.st_mode

    def copy(self, path: bytes, source: FileStatus) -> None:
        """Count what would be copied."""
        self._report.add(COPIED, source.st_size, source.st_mode)
        self.first(path, source, None)
        self.changes(path)
        if stat.S_ISREG(source.st_mode) and len(self.sample) < _SAMPLE:
            self.sample.append(path)

    def links(self, refused: Callable[[bytes, OSError], None], make_way: Callable[[bytes], bool]) -> None:
        """Count further names of files, where the first ones are as they would be then."""
        for path, first in (each for some in self._journal.links() for each in some):
            try:
                self._link(path, first, make_way)
            except OSError as error:
                refused(path, error)

    def _link(self, path: bytes, first: bytes, make_way: Callable[[bytes], bool]) -> None:
        here, row = self._below.status(path), self._journal.get(path)
        inode, mode = self._firsts.get(first, (None, 0))
        if inode is None:
            self._report.problem(path, f"it is another name of {shown(first)}, which was not copied")
        elif self.is_blocked(path):
            raise NO_DIRECTORY_HERE
        elif here is not None and here.st_ino == inode:
            self._report.add(SAME, mode=mode)
        elif here is not None and (row is None or not row.is_of_migration(here)):
            self._report.problem(path, STRANGER)
        elif here is None or not stat.S_ISDIR(here.st_mode) or make_way(path):
            self._report.add(LINKED, mode=mode)
            self.changes(path)

    def may_open(self, path: bytes) -> bool:
        """What `MigrationDirectories.may_open` would say by then. Raises OSError."""
        if path not in self.replaced:
            return True
        with os.scandir(self._below.parent(path + b"/.")[0]) as names:
            return all(is_part(os.fsencode(each.name)) or self._is_of_this_pass(path, each) for each in names)

    def _is_of_this_pass(self, directory: bytes, each: os.DirEntry[str]) -> bool:
        path = directory + b"/" + os.fsencode(each.name)
        if path in self.going or path in self.taken:
            return True
        row = self._journal.get(path)
        if row is None or not self._journal.is_seen(path):
            return False
        status = each.stat(follow_symlinks=False)
        return row.inode == status.st_ino if stat.S_ISDIR(status.st_mode) else row.is_of_migration(status)

    def remove(self, row: MigratedFile) -> None:
        """Note that a name would go. Raises OSError where something would be left in a directory."""
        path = row.path
        if stat.S_ISDIR(row.mode):
            names = os.listdir(self._below.parent(path + b"/.")[0])  # noqa: PTH208 - of a descriptor
            if any(path + b"/" + os.fsencode(name) not in self.going for name in names):
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY))
        self.going.add(path)
        self.changes(path)
