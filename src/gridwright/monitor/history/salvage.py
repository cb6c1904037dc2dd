"""Saves what can still be read of a history whose file is damaged: piece by piece, the newest first."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from gridwright.monitor.history.store import HistoryStore, StoredBlock

SALVAGE_S = 20.0
"""Nothing is sampled meanwhile."""
_MOST_ROWS = 6000
"""More than a table has that has numbers without end: the rings have some 1200 blocks."""


def salvaged(spoilt: Path, into: Path, seconds: float = SALVAGE_S, *, shared: bool = False) -> int:
    """Copy the blocks that can be read into another history; how many. Raises NoHistory, sqlite3.Error.

    Pieces that cannot be read are left out; those that were altered are told by their own sums when they are
    read later.
    """
    deadline = time.monotonic() + seconds
    with (
        contextlib.closing(sqlite3.connect(spoilt)) as base,
        HistoryStore(into, write=True, shared=shared) as store,
    ):
        with contextlib.suppress(sqlite3.Error):
            # Otherwise nothing at all is read of a file that was cut.
            base.execute("PRAGMA writable_schema = ON")
        metrics = {
            number: name for number, name in _rows(base, "metrics", "id, name") if isinstance(name, str)
        }
        count = 0
        with store.transaction():
            for at, body in _rows(base, "contexts", "at, body"):
                store.copy_context(at, body)
            for row in reversed(list(_rows(base, "blocks", "id, level, start, steps, until"))):
                if time.monotonic() > deadline:
                    break
                block = StoredBlock(*row)
                store.copy_block(block, dict(_pieces(base, block, metrics)))
                count += 1
        return count


def _pieces(
    base: sqlite3.Connection, block: StoredBlock, metrics: dict[int, str]
) -> Iterator[tuple[str, bytes]]:
    for number, name in metrics.items():
        with contextlib.suppress(sqlite3.Error):
            key = HistoryStore.piece_number(block.id, number)
            found = base.execute("SELECT body FROM pieces WHERE id = ?", (key,)).fetchone()
            if found is not None and isinstance(found[0], bytes):
                yield name, found[0]


def _rows(base: sqlite3.Connection, table: str, columns: str) -> Iterator[tuple]:  # type: ignore[type-arg]
    """Rows in the order of their numbers, one by one where the table cannot be read as a whole."""
    select = f"SELECT {columns} FROM {table}"  # noqa: S608 - both are words of this file
    with contextlib.suppress(sqlite3.Error):
        yield from base.execute(f"{select} ORDER BY id").fetchall()
        return
    last = _last(base, table)
    for number in range(max(1, last - _MOST_ROWS), last + 1):
        with contextlib.suppress(sqlite3.Error):
            yield from base.execute(f"{select} WHERE id = ?", (number,)).fetchall()


def _last(base: sqlite3.Connection, table: str) -> int:
    """The number of the last row, 0 where that cannot be read."""
    for question, values in (
        (f"SELECT max(id) FROM {table}", ()),  # noqa: S608 - a word of this file
        ("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)),
    ):
        with contextlib.suppress(sqlite3.Error, TypeError, ValueError):
            return int(base.execute(question, values).fetchone()[0])
    return 0
