"""What keeps the runner from its work, told where commands find it and in the runner's own log."""

from __future__ import annotations

import contextlib
import os
import sys
import time

from gridwright.schedulers.local.exit_records import ExitRecords
from gridwright.schedulers.local.store import Store

_CLEAR_S = 1.0
"""What was not seen for so long is over."""


class TroubleNote:
    """The trouble of a runner, as commands are told of it."""

    def __init__(self, store: Store, records: ExitRecords) -> None:
        self._store = store
        self._records = records
        self._told: str | None = None
        self._seen = 0.0
        with contextlib.suppress(OSError):
            self._told = records.note() or None

    def note(self, error: Exception | str) -> str:
        """Tell of an error, or of what refuses to start jobs; what it is called."""
        text = error if isinstance(error, str) else self._named(error)
        if f": {os.strerror(28)}" in text:
            text = self._store.full_disk
        self._seen = time.monotonic()
        if text != self._told:
            self._told = text
            with contextlib.suppress(OSError):
                self._records.put_note(text)
            # The disk of the log may be the one that is full.
            with contextlib.suppress(OSError):
                print(f"{time.time():.0f} {text}", file=sys.stderr, flush=True)  # noqa: T201
        return text

    def _named(self, error: Exception) -> str:
        if self._store.is_full(error):
            return self._store.full_disk
        if isinstance(error, OSError):
            return f"{error.strerror}: {error.filename}" if error.filename else str(error)
        return f"the store refused: {error}"

    def clear(self) -> None:
        """Say that nothing keeps it from its work, if nothing has for a moment."""
        if self._told is not None and time.monotonic() - self._seen > _CLEAR_S:
            self._told = None
            with contextlib.suppress(OSError):
                self._records.put_note("")
