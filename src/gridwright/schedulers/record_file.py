"""What records of submissions have in common: an SQLite file, transactions, facts, and orders to cancel.

Every process may be killed at any moment, and several may use the file at the same time: each change is one
transaction. The tables of a record are its own; those that are used here have to be among them, with the
columns that are named here.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from gridwright.errors import environment_error


class RecordFile:
    """A record, open. Raises GridwrightError (ENVIRONMENT) where the file cannot be used."""

    def __init__(self, path: Path, tables: str, *, busy_s: float, settings: Sequence[str] = ()) -> None:
        """Open it, with `tables` (SQL) where it is new; `busy_s`: how long it waits for others to finish.

        `settings` are PRAGMA statements for every connection.
        """
        self._path = path
        with self._explained():
            self._base = sqlite3.connect(path, timeout=busy_s, isolation_level=None)
            self._base.row_factory = sqlite3.Row
            for setting in settings:
                self._base.execute(setting)
            if not self._base.execute("PRAGMA user_version").fetchone()[0]:
                path.chmod(0o600)
                self._base.executescript(f"BEGIN IMMEDIATE; {tables} PRAGMA user_version = 1; COMMIT;")

    def close(self) -> None:
        """Close the file."""
        self._base.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise environment_error(
                f"the record of jobs cannot be used: {error}",
                where=str(self._path),
                remedy="see that the state directory is writable, has room and knows locks (flock)",
            ) from error

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        with self._explained():
            self._base.execute("BEGIN IMMEDIATE")
            try:
                yield self._base
            except BaseException:
                self._base.execute("ROLLBACK")
                raise
            self._base.execute("COMMIT")

    def _read(self, query: str, parameters: Sequence[Any] = ()) -> list[sqlite3.Row]:
        with self._explained():
            return self._base.execute(query, parameters).fetchall()

    def withdraw(self, tokens: Iterable[str]) -> None:
        """Forget submissions that were refused, or that their user gave up before he knew of them."""
        with self._change() as base:
            base.executemany("DELETE FROM submission WHERE token = ?", [(token,) for token in tokens])

    def saw(self, tokens: Iterable[str]) -> None:
        """Note that the scheduler listed these just now."""
        now = time.time()
        with self._change() as base:
            base.executemany(
                "UPDATE submission SET seen = ? WHERE token = ?", [(now, token) for token in tokens]
            )

    def cancel(self, elements: Iterable[tuple[str, int]]) -> None:
        """Write down that a user cancelled jobs, before the scheduler is told: it may forget."""
        with self._change() as base:
            base.executemany("INSERT OR IGNORE INTO cancelled VALUES (?, ?)", list(elements))

    def cancelled(self, token: str) -> set[int]:
        """Elements of a submission that its user cancelled."""
        rows = self._read("SELECT element FROM cancelled WHERE token = ?", (token,))
        return {row["element"] for row in rows}

    def identifiers(self) -> list[str]:
        """All identifiers that users may know."""
        rows = self._read("SELECT identifier FROM submission WHERE identifier IS NOT NULL")
        return [row["identifier"] for row in rows]

    def fact(self, name: str, age_s: float) -> str | None:
        """What was kept under a name; None where it is older than `age_s` seconds."""
        rows = self._read("SELECT text, read FROM fact WHERE name = ?", (name,))
        return rows[0]["text"] if rows and 0 <= time.time() - rows[0]["read"] <= age_s else None

    def keep_fact(self, name: str, text: str) -> None:
        """Keep something that was read, with the time, to be read less often."""
        with self._change() as base:
            base.execute("INSERT OR REPLACE INTO fact VALUES (?, ?, ?)", (name, text, time.time()))


def free_identifier(base: sqlite3.Connection, number: int) -> str:
    """The scheduler's number, with an addition where another submission is known by it."""
    taken = base.execute(
        "SELECT count(*) FROM submission WHERE identifier = ? OR identifier GLOB ?",
        (str(number), f"{number}-*"),
    ).fetchone()[0]
    return str(number) if taken == 0 else f"{number}-{taken + 1}"
