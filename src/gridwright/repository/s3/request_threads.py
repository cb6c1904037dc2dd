"""Threads that ask a store, each over a connection of its own: plainly, or else by botocore.

Small files go and come by threads of the native part: those of Python take turns at the interpreter, and
spend more time on that than on files of some kilobytes.
"""

from __future__ import annotations

import itertools
import os
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from gridwright.repository.extended import open_nameless
from gridwright.repository.s3.faults import refusal
from gridwright.repository.s3.plain import (
    BUFFER_BYTES,
    FileFault,
    PlainConnection,
    PlainRequests,
    StoreRequest,
    Unusual,
    parsed_head,
)
from gridwright.repository.s3.tries import MAY_PASS, Tries, UnderWay, given_up
from gridwright.repository.store import StoreError, StoreFault


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


_SLOW_S = 0.02
"""Each request that takes longer lets one thread more begin: a store that is near keeps a few threads busy,
and many of them would only take turns; one that is far has to be asked for many objects at once.
"""
_MOST_UNUSUAL, _PAUSE_S = 16, 30.0
"""After so many answers in a row that were not the plain one, nobody asks plainly for so long."""
_Made = TypeVar("_Made")
Work = Callable[[PlainConnection], None]
SMALL_BYTES = 1 << 20
"""Of a file that moves at once: of a larger one it is told how far it is."""


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
        self.ask_for(future, plainly, otherwise, let_go)
        return future

    def ask_for(
        self,
        future: Future[_Made],
        plainly: Callable[[PlainConnection], _Made] | None,
        otherwise: Callable[[], _Made],
        let_go: Callable[[], None] = lambda: None,
    ) -> None:
        """The same, for a future that is under way."""

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
        plainly: Callable[[PlainConnection], _Made] | None,
        otherwise: Callable[[], _Made],
    ) -> _Made:
        """What a plain request gives, or else what `otherwise` gives, which is tried again.

        Without `plainly`, such a request had an unusual answer just before, or none.

        Raises StoreError, and what reading or writing the file has raised.
        """
        began = time.monotonic()
        try:
            if plainly is not None and self.asks_plainly:
                try:
                    made = _over(connection, plainly)
                except (Unusual, OSError, ValueError):
                    connection.close()
                    self.note_answer(is_plain=False)
                else:
                    self.note_answer(is_plain=True)
                    return made
            return self._tries.of(lambda: self._unless_given_up(otherwise))
        except FileFault as error:
            connection.close()
            raise error.__cause__ or error from None
        finally:
            if time.monotonic() - began > _SLOW_S:
                self._at_once = min(self._at_once + 1, self._most)

    def note_answer(self, *, is_plain: bool) -> None:
        """Note how a plain request was answered."""
        self._unusual = 0 if is_plain else self._unusual + 1
        if self._unusual and self._unusual % _MOST_UNUSUAL == 0:
            self._not_before = time.monotonic() + _PAUSE_S

    @property
    def asks_plainly(self) -> bool:
        """Whether a plain request may be made just now."""
        return time.monotonic() >= self._not_before and not self.under_way.is_given_up

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


FilePlace = tuple[int, bool]
"""An open, empty file; or an open directory and True: a new file there, without a name."""


def own_descriptor(place: FilePlace) -> int:
    """A descriptor of the file of a place, which is the caller's. Raises OSError."""
    descriptor, makes = place
    return open_nameless(descriptor) if makes else os.dup(descriptor)


@dataclass(slots=True)
class _Exchange:
    """One small file on its way: what makes the result, and what asks anew."""

    request: StoreRequest
    future: Future[Any]
    made: Callable[[bytes, int, int], Any]
    anew: Callable[[int, bool], None]


class SmallFiles:
    """Small files on their way to a store and from it, many at once, where its connections are plain.

    What is neither success nor a fault of the file is asked for anew by `RequestThreads`.
    """

    def __init__(self, requests: PlainRequests, threads: RequestThreads, fewest: int, most: int) -> None:
        self._requests, self._under_way = requests, threads.under_way
        self._threads = threads
        self._native = requests.small_exchanges(fewest, most)
        self._numbers = itertools.count()
        self._begun: dict[int, _Exchange] = {}
        self._thread: threading.Thread | None = None

    def take(self, size: int) -> bool:
        """Whether a file of so many bytes may go this way."""
        return self._native is not None and size <= SMALL_BYTES and self._threads.asks_plainly

    def send(
        self,
        request: StoreRequest,
        file: tuple[int, tuple[int, int, int, int]],
        made: Callable[[dict[str, str], int], _Made],
        anew: Callable[[Future[_Made], bool], None],
    ) -> Future[_Made]:
        """Send an open file: `made` makes the result of the answer's headers and the CRC-64/NVME.

        `anew` has it sent otherwise; with True a plain request had an unusual answer, or none in time.
        """
        future: Future[_Made] = Future()
        self._under_way.begin(future)
        descriptor, stamp = file
        native = self._native
        if native is not None:
            self._begin(
                lambda number: native.send(number, self._requests.head(request, stamp[0]), descriptor, stamp),
                _Exchange(
                    request,
                    future,
                    lambda head, crc, _: made(parsed_head(str(head, "latin-1"))[1], crc),
                    lambda _, is_unusual: anew(future, is_unusual),
                ),
            )
        return future

    def fetch(
        self,
        request: StoreRequest,
        object_: tuple[int, str],
        place: FilePlace,
        made: Callable[[int, int], _Made],
        anew: Callable[[Future[_Made], int, bool], None],
    ) -> Future[_Made]:
        """Write an object of a size and an ETag into a file.

        `made` makes the result of the CRC-64/NVME and the descriptor of a new file, or 0. `anew` has it
        fetched otherwise, as in `send`, into another descriptor of the file, which is its own.
        """
        future: Future[_Made] = Future()
        self._under_way.begin(future)
        native = self._native
        if native is not None:
            self._begin(
                lambda number: native.fetch(number, self._requests.head(request), place, object_),
                _Exchange(
                    request,
                    future,
                    lambda _, crc, descriptor: made(crc, descriptor),
                    lambda other, is_unusual: anew(future, other or own_descriptor(place), is_unusual),
                ),
            )
        return future

    def _begin(self, put: Callable[[int], None], exchange: _Exchange) -> None:
        number = next(self._numbers)
        self._begun[number] = exchange
        try:
            try:
                put(number)
            except (Unusual, ValueError):
                del self._begun[number]
                exchange.anew(0, False)
        except OSError as error:
            self._begun.pop(number, None)
            self._under_way.failed(exchange.future, error)
        if self._thread is None:
            self._thread = threading.Thread(target=self._take, name="small files", daemon=True)
            self._thread.start()

    def _take(self) -> None:
        while self._native is not None and (ended := self._native.take()):
            for number, word, answer, crc, last in ended:
                exchange = self._begun.pop(number)
                try:
                    self._end(exchange, word, answer, crc, last)
                except BaseException as error:
                    self._under_way.failed(exchange.future, error)

    def _end(self, exchange: _Exchange, word: str, answer: bytes, crc: int, last: int) -> None:
        """End an exchange as `_native` says, or ask anew. Raises StoreError, OSError."""
        request = exchange.request
        match word:
            case "done":
                self._threads.note_answer(is_plain=True)
                self._under_way.done(exchange.future, exchange.made(answer, crc, last))
            case "refused":
                head, _, body = answer.partition(b"\r\n\r\n")
                status, _ = parsed_head(str(head, "latin-1"))
                refused = refusal(status, body, self._requests.url(request.key), request.operation)
                if refused.fault in MAY_PASS:
                    exchange.anew(last, True)
                    return
                self._threads.note_answer(is_plain=True)
                if last:
                    os.close(last)
                raise refused
            case "anew" | "unusual":
                if word == "unusual":
                    self._threads.note_answer(is_plain=False)
                exchange.anew(last, word == "unusual")
            case "file":
                raise OSError(last, os.strerror(last))
            case _:
                said = f"it gave {crc} bytes in {last} s"
                raise StoreError(StoreFault.UNREACHABLE, self._requests.url(request.key), said)

    def close(self) -> None:
        """End what is under way, at once."""
        if self._native is not None:
            self._native.break_off()


def _over(connection: PlainConnection, plainly: Callable[[PlainConnection], _Made]) -> _Made:
    if connection.is_connected:
        # The store may have ended a connection that waited; a new one tells.
        with suppress(Unusual, OSError):
            return plainly(connection)
        connection.close()
    return plainly(connection)
