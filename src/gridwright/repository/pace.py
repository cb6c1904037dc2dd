"""Keeps requests to a store within a stated rate, whatever the number of threads that make them."""

from __future__ import annotations

import threading
import time


class Pace:
    """So many requests per second at most, or as many as there are (None)."""

    def __init__(self, per_second: float | None) -> None:
        self._gap_s = 1 / per_second if per_second else 0.0
        self._next = 0.0
        self._lock = threading.Lock()

    def wait(self, requests: int = 1) -> None:
        """Wait for the turn of the next requests."""
        if not self._gap_s:
            return
        with self._lock:
            now = time.monotonic()
            turn = max(now, self._next)
            self._next = turn + self._gap_s * requests
        if turn > now:
            time.sleep(turn - now)
