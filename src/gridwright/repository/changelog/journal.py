"""What was taken out of changelogs and is not done yet, in the file of what is known of a repository.

A record is cleared when its paths are here, and a path goes when file and object are equal, so that neither a
kill nor a store that is away loses a change, and no record has to wait on the metadata server for the store.
"""

from __future__ import annotations

import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from gridwright.repository.changelog.records import ChangeRecord
from gridwright.repository.copytool.liblustreapi import Fid

if TYPE_CHECKING:
    from gridwright.repository.known import Known


@dataclass(frozen=True, slots=True)
class ChangelogUser:
    """Who is registered at one MDT: its records are kept until they are cleared."""

    mdt: str
    """`scratch-MDT0000`."""
    user: str
    """`cl3`, without the name that it was registered under."""
    index: int = 0
    """The last record when it was registered, or that was cleared when the set-up last looked."""


class ChangeSource(Protocol):
    """A mounted Lustre. All paths are relative to its mount."""

    def mdt_count(self) -> int:
        """How many MDTs it has. Raises OSError."""

    def fid_of(self, path: bytes) -> Fid:
        """The FID of an absolute path. Raises OSError."""

    def records(self, mdt: str, first: int) -> Iterator[ChangeRecord]:
        """Records of an MDT from an index on, to the last one. Raises OSError, RecordError."""

    def clear(self, mdt: str, user: str, last: int) -> None:
        """Give up records up to an index, which may be the one that was given before, and is above 0.

        Raises OSError: ENOENT where the user is not registered (any more).
        """

    def paths_of(self, fid: Fid) -> list[bytes]:
        """All paths of a file that Lustre knows; none for one that is gone. Raises OSError."""


_BATCH = 1000
_SCANNED, _OWED = "scanned", "scan owed"


@dataclass(frozen=True, slots=True)
class Position:
    """How far the changelog of one MDT was taken."""

    user: str
    read_to: int
    """The last index whose paths are in the journal."""
    taken_s: float
    """When, in seconds since 1970."""


class ChangeJournal:
    """The journal of one repository, whose export holds its lock. One thread uses it."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._database = known.database

    def position(self, mdt: str) -> Position | None:
        """How far an MDT's changelog was taken; None where it never was."""
        query = "SELECT user, read_to, taken_s FROM changelogs WHERE mdt = ?"
        found = self._database.execute(query, (mdt,)).fetchone()
        return Position(*found) if found else None

    def mdts(self) -> list[str]:
        """The MDTs whose changelogs were taken."""
        return [mdt for (mdt,) in self._database.execute("SELECT mdt FROM changelogs ORDER BY mdt")]

    def take(
        self, of: ChangelogUser, read_to: int, paths: Iterable[bytes], trees: Iterable[bytes], owed: str = ""
    ) -> None:
        """Note paths, and how far they go, at once: on disk when this returns.

        `owed` is why paths do not tell all, and a scan has to.
        """
        self._known.flush()
        with self._known.transaction():
            self._add(paths, trees)
            self._database.execute(
                "INSERT OR REPLACE INTO changelogs VALUES (?, ?, ?, ?)",
                (of.mdt, of.user, read_to, time.time()),
            )
            if owed and not self.owed:
                self._set_fact(_OWED, owed)

    def forget(self, mdt: str) -> None:
        """Forget an MDT that nobody is registered at any more."""
        with self._known.transaction():
            self._database.execute("DELETE FROM changelogs WHERE mdt = ?", (mdt,))

    def was_awaited(self, mdt: str, index: int) -> bool:
        """Whether a record of an MDT was missing before; from now on it was."""
        awaited = self._known.fact(f"awaited {mdt}") == str(index)
        self._known.set_fact(f"awaited {mdt}", str(index))
        return awaited

    @property
    def owed(self) -> str:
        """Why a scan has to tell what was changed; empty where the paths do."""
        return self._known.fact(_OWED) or ""

    def owe(self, why: str) -> None:
        """Note that a scan has to tell, until one has; the first reason stays."""
        if not self.owed:
            self._known.set_fact(_OWED, why)

    @property
    def scanned_s(self) -> float | None:
        """When the last whole scan was done, in seconds since 1970; None where none was."""
        return self._known.moment(_SCANNED)

    def count(self) -> int:
        """How many paths wait."""
        (count,) = self._database.execute("SELECT count(*) FROM pending").fetchone()
        return int(count)

    def trees(self) -> list[bytes]:
        """Directories that are to be looked at with all below them, none within another."""
        query = "SELECT path FROM pending WHERE is_tree = 1 AND typeof(path) = 'blob' ORDER BY path"
        found = self._database.execute(query).fetchall()
        within: list[bytes] = []
        for (path,) in sorted(found, key=lambda each: each[0].split(b"/")):
            if not within or not path.startswith(within[-1] + b"/"):
                within.append(path)
        return within

    def paths(self) -> Iterator[list[bytes]]:
        """Paths that are to be looked at by themselves and were not seen yet, some at a time, in order."""
        last = b""
        query = (
            "SELECT path FROM pending WHERE is_tree = 0 AND path > ? AND typeof(path) = 'blob' "
            "AND NOT EXISTS (SELECT 1 FROM seen WHERE seen.path = pending.path) ORDER BY path LIMIT ?"
        )
        while some := [path for (path,) in self._database.execute(query, (last, _BATCH))]:
            yield some
            last = some[-1]

    def looked(self, unread: Iterable[bytes]) -> None:
        """After a look at all that waits: what has work waits on, and so does what could not be looked at."""
        self._known.flush()
        with self._known.transaction():
            self._database.execute("DELETE FROM pending")
            self._add((), unread)
            self._database.execute("INSERT OR IGNORE INTO pending SELECT path, 0 FROM work WHERE path <> x''")

    def scanned(self, unread: Iterable[bytes], gone: str) -> None:
        """After a whole scan: what it has found to do waits. `gone` is the condition of rows not found."""
        self.looked(unread)
        with self._known.transaction():
            self._database.execute("DELETE FROM gone")
            self._database.execute(f"INSERT INTO gone SELECT path FROM files WHERE {gone}")  # noqa: S608
        self.note_there(unread)
        with self._known.transaction():
            self._database.execute("DELETE FROM facts WHERE name = ?", (_OWED,))
            self._set_fact(_SCANNED, repr(time.time()))

    def rows_of(self, inodes: Sequence[int]) -> list[tuple[int, bytes, bool]]:
        """Inode and path of known rows that have these inodes, and whether each is a directory."""
        self._known.flush()
        marks = ", ".join("?" * len(inodes))
        query = f"SELECT inode, path, mode FROM files WHERE inode IN ({marks})"  # noqa: S608
        found = self._database.execute(query, inodes)
        rows = [(inode, path, mode) for inode, path, mode in found if type(mode) is int and mode >= 0]
        return [(inode, path, stat.S_ISDIR(mode)) for inode, path, mode in rows if type(path) is bytes]

    def note_gone(self, paths: Iterable[bytes]) -> None:
        """Note that nothing is at these paths, so that all that is known below them is gone, too."""
        with self._known.transaction():
            for path in paths:
                self._database.execute(
                    "INSERT OR IGNORE INTO gone SELECT path FROM files WHERE inode <> 0 AND "
                    "(path = ? OR (path > ? AND path < ?))",
                    (path, path + b"/", path + b"0"),
                )

    def note_gone_within(self, tree: bytes) -> None:
        """Note that what is known of a directory's files is gone where this run has not seen it."""
        with self._known.transaction():
            self._database.execute(
                "INSERT OR IGNORE INTO gone SELECT path FROM files WHERE inode <> 0 AND "
                "(path = ? OR (path > ? AND path < ?)) "
                "AND NOT EXISTS (SELECT 1 FROM seen WHERE seen.path = files.path)",
                (tree, tree + b"/", tree + b"0"),
            )

    def note_there(self, unread: Iterable[bytes]) -> None:
        """Not gone is what was seen, what could not be looked at, and what nothing is known of any more."""
        with self._known.transaction():
            for path in unread:
                self._database.execute(
                    "DELETE FROM gone WHERE path = ? OR (path > ? AND path < ?)",
                    (path, path + b"/", path + b"0"),
                )
            self._database.execute("DELETE FROM gone WHERE path IN (SELECT path FROM seen)")
            self._database.execute("DELETE FROM gone WHERE path NOT IN (SELECT path FROM files)")

    def _add(self, paths: Iterable[bytes], trees: Iterable[bytes]) -> None:
        self._database.executemany(
            "INSERT OR IGNORE INTO pending VALUES (?, 0)", ((each,) for each in paths if each)
        )
        self._database.executemany(
            "INSERT OR REPLACE INTO pending VALUES (?, 1)", ((each,) for each in trees)
        )

    def _set_fact(self, name: str, value: str) -> None:
        self._database.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))
