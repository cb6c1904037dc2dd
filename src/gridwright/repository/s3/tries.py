"""Tries of one request: how many there are, and how long is waited between them."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import TypeVar

from gridwright.repository.s3.under_way import given_up
from gridwright.repository.store import StoreError, StoreFault

ATTEMPTS = 6
_LONGEST_PAUSE_S = 20.0
MAY_PASS = frozenset({StoreFault.UNREACHABLE, StoreFault.THROTTLED, StoreFault.CONFLICT})
_Made = TypeVar("_Made")


class Tries:
    """Tries requests of one store again that may go well later. Threads share it."""

    def __init__(self, pause_s: float) -> None:
        """`pause_s` is the longest pause before the second try, in seconds; each later one is twice that."""
        self._pause_s = pause_s
        self._closed = threading.Event()

    def of(self, ask: Callable[[], _Made]) -> _Made:
        """What a request gives. Raises StoreError: the last one, or one that no other try would mend."""
        for attempt in range(1, ATTEMPTS):
            try:
                return ask()
            except StoreError as error:
                if error.fault not in MAY_PASS:
                    raise
                if self.waits(attempt):
                    raise given_up() from error
        return ask()

    def waits(self, attempt: int) -> bool:
        """Wait after a try that failed, counted from 1; whether all was given up meanwhile.

        Many objects fail for the same reason at once, and shall not come back at once.
        """
        pause = min(self._pause_s * 2 ** (attempt - 1), _LONGEST_PAUSE_S)
        return self._closed.wait(pause * random.uniform(0.5, 1.0))  # noqa: S311 - no secret

    def close(self) -> None:
        """End all pauses: what failed is not tried again."""
        self._closed.set()
