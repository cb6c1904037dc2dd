"""What is known of files beside their rows: what others have, what is about to leave, and first names."""

from __future__ import annotations

import sqlite3
from operator import attrgetter

from gridwright.repository.known_file import COLUMNS, KnownFile, signed_inode

_values = attrgetter(*COLUMNS)
_INSERT = f"INSERT OR REPLACE INTO newer VALUES ({', '.join('?' * len(COLUMNS))})"  # noqa: S608 - names of our own
_SELECT = f"SELECT {', '.join(COLUMNS)} FROM newer WHERE path = ?"  # noqa: S608 - names of our own


class NewerObjects:
    """Rows of other libraries, whose objects are newer than those of the files here."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def __bool__(self) -> bool:
        return self._database.execute("SELECT 1 FROM newer LIMIT 1").fetchone() is not None

    def forget(self) -> None:
        """Forget what the former manifest said."""
        self._database.execute("DELETE FROM newer")

    def keep(self, row: KnownFile) -> None:
        """Keep the row of another library."""
        self._database.execute(_INSERT, _values(row))

    def get(self, path: bytes) -> KnownFile | None:
        """The row of a path; None for none."""
        found = self._database.execute(_SELECT, (path,)).fetchone()
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
    """The first name of each file with several that this run has met."""

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
