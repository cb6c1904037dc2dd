"""Tries of one request: how many there are, how long is waited between them, what ends."""

from __future__ import annotations

import random
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
