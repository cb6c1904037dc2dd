"""Futures of transfers that threads work on: each ends once, and all at once where they are given up."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Generic, TypeVar

from gridwright.repository.store import StoreError, StoreFault

Made = TypeVar("Made")


class UnderWay(Generic[Made]):
    """The transfers of one store that have not ended. Any thread may end one."""

    def __init__(self) -> None:
        self._futures: set[Future[Made]] = set()
        self._lock = threading.Lock()
        self.is_given_up = False
        """Whether nobody waits for any of them any more."""

    def __len__(self) -> int:
        return len(self._futures)

    def begin(self, future: Future[Made]) -> None:
        """Take one on."""
        future.set_running_or_notify_cancel()
        with self._lock:
            self._futures.add(future)

    def done(self, future: Future[Made], made: Made) -> None:
        """End one with its result, unless it has ended."""
        if self._is_first(future):
            future.set_result(made)

    def failed(self, future: Future[Made], error: BaseException | None) -> None:
        """End one with an error, unless it has ended."""
        if self._is_first(future):
            future.set_exception(error)

    def give_up(self) -> None:
        """End all of them now."""
        self.is_given_up = True
        with self._lock:
            futures = list(self._futures)
        for each in futures:
            self.failed(each, given_up())

    def _is_first(self, future: Future[Made]) -> bool:
        with self._lock:
            is_first = future in self._futures
            self._futures.discard(future)
        return is_first


def given_up() -> StoreError:
    """What a transfer ends with that nobody waits for any more."""
    return StoreError(StoreFault.UNREACHABLE, "", "it was given up")
