"""Futures of transfers that threads work on: each ends once, and all at once where they are given up."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from gridwright.repository.store import StoreError, StoreFault

Made = TypeVar("Made")
Found = TypeVar("Found")
ANSWER_S = 600.0
"""How long a small request may take with all its tries; each of them has a limit of its own."""


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


def then(asked: Future[Made], what: Callable[[Made], Found]) -> Future[Found]:
    """The future of what a function makes of the result of another future."""
    made: Future[Found] = Future()
    made.set_running_or_notify_cancel()

    def go_on(done: Future[Made]) -> None:
        try:
            made.set_result(what(done.result()))
        except BaseException as error:
            made.set_exception(error)

    asked.add_done_callback(go_on)
    return made


def hand_on(done: Future[Made], future: Future[Made]) -> None:
    """End a future as another one has ended."""
    error = done.exception()
    if error is None:
        future.set_result(done.result())
    else:
        future.set_exception(error)


def answer_of(asked: Future[Found]) -> Found:
    """What a small request gives. Raises StoreError, also where it takes too long."""
    try:
        return asked.result(ANSWER_S)
    except TimeoutError as error:
        raise StoreError(StoreFault.UNREACHABLE, "", f"no answer in {ANSWER_S:.0f} s") from error
