"""Threads that ask a store, each over a connection of its own: plainly, or else by botocore."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from gridwright.repository.s3.plain import BUFFER_BYTES, FileFault, PlainConnection, PlainRequests, Unusual
from gridwright.repository.s3.tries import Tries
from gridwright.repository.s3.under_way import UnderWay, given_up

_SLOW_S = 0.02
"""Each request that takes longer lets one thread more begin: a store that is near keeps a few threads busy,
and many of them would only take turns; one that is far has to be asked for many objects at once.
"""
_MOST_UNUSUAL, _PAUSE_S = 16, 30.0
"""After so many answers in a row that were not the plain one, nobody asks plainly for so long."""
_Made = TypeVar("_Made")
Work = Callable[[PlainConnection], None]


class RequestThreads:
    """Threads of one store, which begin with the first request."""

    def __init__(
        self, requests: PlainRequests, tries: Tries, fewest: int, most: int, buffer_bytes: int = BUFFER_BYTES
    ) -> None:
        self._requests, self._buffer_bytes = requests, buffer_bytes
        self._tries = tries
        self._waiting: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._at_once, self._most = fewest, most
        self._at_work = 0
        self._lock = threading.Lock()
        self.under_way = UnderWay[Any]()
        self._unusual = 0
        self._not_before = 0.0
        """When a plain request may be made again, by the monotonic clock."""

    def ask(
        self,
        plainly: Callable[[PlainConnection], _Made],
        otherwise: Callable[[], _Made],
        let_go: Callable[[], None] = lambda: None,
    ) -> Future[_Made]:
        """Make a request in the background; see `attempt`.

        `let_go` is called when nobody works on it any more, which may be after the future has ended.
        """
        future: Future[_Made] = Future()
        self.under_way.begin(future)

        def work(connection: PlainConnection) -> None:
            try:
                made = self.attempt(connection, plainly, otherwise)
            except BaseException as error:
                self.under_way.failed(future, error)
            else:
                self.under_way.done(future, made)
            finally:
                let_go()

        self.put(work)
        return future

    def put(self, work: Work) -> None:
        """Have a thread do something, which raises nothing."""
        with self._lock:
            self._at_work += 1
            if len(self._threads) < min(self._at_once, self._at_work):
                self._threads.append(threading.Thread(target=self._work, name="requests", daemon=True))
                self._threads[-1].start()
        self._waiting.put(work)

    def attempt(
        self,
        connection: PlainConnection,
        plainly: Callable[[PlainConnection], _Made],
        otherwise: Callable[[], _Made],
    ) -> _Made:
        """What a plain request gives, or else what `otherwise` gives, which is tried again.

        Raises StoreError, and what reading or writing the file has raised.
        """
        began = time.monotonic()
        try:
            if began >= self._not_before and not self.under_way.is_given_up:
                try:
                    made = _over(connection, plainly)
                except (Unusual, OSError, ValueError):
                    connection.close()
                    self._unusual += 1
                    if self._unusual % _MOST_UNUSUAL == 0:
                        self._not_before = time.monotonic() + _PAUSE_S
                else:
                    self._unusual = 0
                    return made
            return self._tries.of(lambda: self._unless_given_up(otherwise))
        except FileFault as error:
            connection.close()
            raise error.__cause__ or error from None
        finally:
            if time.monotonic() - began > _SLOW_S:
                self._at_once = min(self._at_once + 1, self._most)

    def close(self) -> None:
        """Give up what is under way, at once: nobody waits for a store that does not answer."""
        self.under_way.give_up()
        self._requests.break_off()
        self._tries.close()
        for _ in self._threads:
            self._waiting.put(None)

    def _unless_given_up(self, otherwise: Callable[[], _Made]) -> _Made:
        if self.under_way.is_given_up:
            raise given_up()
        return otherwise()

    def _work(self) -> None:
        connection = PlainConnection(self._requests, self._buffer_bytes)
        while (work := self._waiting.get()) is not None:
            work(connection)
            # What it holds, such as the content of a file, goes before the next one comes.
            del work
            with self._lock:
                self._at_work -= 1
        connection.close()


def _over(connection: PlainConnection, plainly: Callable[[PlainConnection], _Made]) -> _Made:
    if connection.is_connected:
        # The store may have ended a connection that waited; a new one tells.
        with suppress(Unusual, OSError):
            return plainly(connection)
        connection.close()
    return plainly(connection)
