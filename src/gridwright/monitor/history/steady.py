"""A writer that outlives its disk: where nothing can be written, that is said once, and history has a gap."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

from gridwright.monitor.history.measured import Measurements
from gridwright.monitor.history.salvage import salvaged
from gridwright.monitor.history.store import NoHistory
from gridwright.monitor.history.writing import MOST_BYTES, HistoryWriter
from gridwright.monitor.readings import Snapshot

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
