"""A writer that outlives its disk: where nothing can be written, that is said once, and history has a gap.

Saves what can still be read of a history whose file is damaged: piece by piece, the newest first.

Writes the history of a node as it is sampled: seconds first, whole minutes as blocks, their sums later.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import sqlite3
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self

from gridwright.messages import plain
from gridwright.monitor.history.measured import MINUTE, MeasuredSecond, Measurements, OpenMinute, open_minutes
from gridwright.monitor.history.rolling import roll_up
from gridwright.monitor.history.store import FINEST, HistoryStore, NoHistory, OpenSecond, StoredBlock, encode
from gridwright.monitor.readings import Key, Snapshot

MOST_BYTES = 4 << 30
"""Of one history: what a node of 25 000 series may need."""
_ENDED = object()


class HistoryWriter:
    """The one writer of a history. Raises NoHistory where it cannot be opened."""

    def __init__(
        self,
        path: Path,
        most_bytes: int = MOST_BYTES,
        measurements: Measurements | None = None,
        *,
        shared: bool = False,
    ) -> None:
        self._store = HistoryStore(path, write=True, shared=shared)
        self._measurements = Measurements() if measurements is None else measurements
        try:
            self._store.limit(most_bytes)
            self._minutes = open_minutes(self._store.seconds())
        except BaseException:
            self._store.close()
            raise
        self._order: list[Key] = []
        self._order_number = 0
        self._context = ""
        self._work: Iterator[object] = roll_up(self._store)
        self._is_due = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the file go; nothing is lost that was added."""
        self._store.close()

    def add(self, snapshot: Snapshot) -> None:
        """Keep a snapshot. Raises sqlite3.Error where the disk does not take it; the next may be added."""
        self._keep_context(snapshot)
        second = self._measurements.add(snapshot)
        if second is not None:
            self._keep(second)

    def work(self) -> bool:
        """Sum up some of what is due, for milliseconds; whether more may be due. Raises sqlite3.Error."""
        if not self._is_due:
            return False
        self._is_due = next(self._work, _ENDED) is not _ENDED
        return self._is_due

    def _keep(self, second: MeasuredSecond) -> None:
        start = second.slot // MINUTE * MINUTE
        if second.clock_was_set or (self._minutes and start < self._minutes[-1].start):
            while self._minutes:
                self._close_first()
        if not self._minutes or self._minutes[-1].start != start:
            self._minutes.append(OpenMinute(start))
        for minute in self._minutes:
            minute.put(second.slot, second.values)
        while self._minutes[0].end < start:
            self._close_first()
        keys = [key for key, _, _ in second.values]
        new_order = keys != self._order
        if new_order:
            self._order, self._order_number = keys, second.slot
        row = OpenSecond(
            second.slot,
            keys,
            array("f", [value for _, value, _ in second.values]),
            bytes(back for _, _, back in second.values),
        )
        try:
            self._store.put_second(row, self._order_number, new_order=new_order)
        except sqlite3.Error:
            self._order = []
            raise

    def _close_first(self) -> None:
        """Make a block of the oldest open minute; where the disk takes none, that minute is a gap."""
        minute = self._minutes.pop(0)
        # The list of keys goes with the seconds that name it.
        self._order = []
        pieces = {
            metric: encode(columns, MINUTE, rounded=metric.endswith("_total"))
            for metric, columns in minute.by_metric().items()
        }
        with self._store.transaction():
            if pieces:
                self._store.put_block(FINEST, minute.start, MINUTE, 0, pieces)
            self._store.forget_seconds(minute.end)
            self._store.forget_old_blocks(FINEST)
            self._store.make_room()
        if not self._is_due:
            self._work, self._is_due = roll_up(self._store), True

    def _keep_context(self, snapshot: Snapshot) -> None:
        body = context_of(snapshot)
        changed = re.sub(r"\d+ s", "", body)
        if changed != self._context:
            self._store.put_context(snapshot.time, body)
            self._context = changed


def context_of(snapshot: Snapshot) -> str:
    """What a snapshot says beside its readings, as JSON."""
    return json.dumps(
        {
            "machine": snapshot.machine,
            "cpus": snapshot.cpus,
            "cores": snapshot.cores,
            "silent": dict(sorted(snapshot.silent.items())),
            "places": plain(snapshot.places),
        },
        separators=(",", ":"),
    )


def write_all(path: Path, snapshots: Sequence[Snapshot]) -> None:
    """A history of these snapshots. Raises NoHistory, sqlite3.Error."""
    with HistoryWriter(path) as writer:
        for snapshot in snapshots:
            writer.add(snapshot)
            writer.work()


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


RETRY_S = 10.0
"""How long after a failure it is tried again."""
_SPOILT = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_ASIDE = ("", "-wal", "-shm")
"""The database with the files that SQLite keeps beside it."""


class OtherWriter(Exception):
    """Another process writes this history."""


class SteadyWriter:
    """Writes the history in one file for as long as there are snapshots; `say` is told what goes wrong.

    Other users read one that is `shared`.
    """

    def __init__(
        self,
        path: Path,
        say: Callable[[str], None],
        most_bytes: int = MOST_BYTES,
        *,
        shared: bool = False,
    ) -> None:
        self._path = path
        self._say = say
        self._most_bytes = most_bytes
        self._shared = shared
        self._measurements = Measurements()
        self._writer: HistoryWriter | None = None
        self._lock: int | None = None
        self._failed_at: float | None = None
        self._wrong = ""

    def close(self) -> None:
        """Let the file go."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def add(self, snapshot: Snapshot) -> None:
        """Keep a snapshot where that can be. Raises OtherWriter."""
        try:
            writer = self._opened()
            if writer is None:
                # What counts on from here is told once it can be written again.
                self._measurements.add(snapshot)
                return
            writer.add(snapshot)
            writer.work()
        except (sqlite3.Error, NoHistory, OSError) as error:
            self._fail(error)
        else:
            if self._wrong:
                self._say(f"{self._path}: history is written again")
            self._wrong, self._failed_at = "", None

    def _opened(self) -> HistoryWriter | None:
        if self._writer is None:
            if self._failed_at is not None and time.monotonic() - self._failed_at < RETRY_S:
                return None
            self._take_lock()
            self._writer = HistoryWriter(
                self._path, self._most_bytes, self._measurements, shared=self._shared
            )
        return self._writer

    def _take_lock(self) -> None:
        if self._lock is not None:
            return
        self._path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        # Who may read a file may lock it.
        lock = os.open(f"{self._path}-lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(lock, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise OtherWriter(f"{self._path}: another process writes this history") from None
        except OSError:
            os.close(lock)
            raise
        self._lock = lock

    def _fail(self, error: Exception) -> None:
        self._failed_at = time.monotonic()
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        cause = (error.__cause__ if isinstance(error, NoHistory) else None) or error
        if isinstance(cause, sqlite3.Error) and getattr(cause, "sqlite_errorcode", 0) & 0xFF in _SPOILT:
            self._put_aside(cause)
            return
        what = str(cause)
        if what != self._wrong:
            self._say(f"{self._path}: history cannot be written, and has a gap: {what}")
        self._wrong = what

    def _put_aside(self, error: sqlite3.Error) -> None:
        """Keep a file that is spoilt for who wants to look at it, and begin with what can be read of it."""
        self._failed_at = None
        for end in _ASIDE:
            with contextlib.suppress(OSError):
                Path(f"{self._path}{end}").replace(f"{self._path}.spoilt{end}")
        saved = 0
        try:
            saved = salvaged(Path(f"{self._path}.spoilt"), self._path, shared=self._shared)
        except (sqlite3.Error, NoHistory, ValueError, TypeError):
            # Nothing of it, then: what was begun is not worth keeping.
            for end in _ASIDE:
                Path(f"{self._path}{end}").unlink(missing_ok=True)
        self._say(
            f"{self._path}: it is spoilt ({error}), and was renamed to end in .spoilt; "
            + (f"{saved} blocks of it could be read" if saved else "history begins anew")
        )
