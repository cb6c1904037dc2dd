"""Which chunks are fetched next: those that somebody waits for first, a bounded number at a time."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Generic, TypeVar

MOST_BYTES = 8 << 20
"""Bytes of one request to the store, unless a chunk is larger."""

MOST_PLACES = 4096
"""Files whose readers are remembered."""

F = TypeVar("F")


class Urgency(IntEnum):
    """In this order."""

    AWAITED = 0
    AHEAD = 1
    BACKGROUND = 2


@dataclass(slots=True, eq=False)
class Fetch(Generic[F]):
    """Chunks of a file that follow each other, to be fetched by one request."""

    file: F
    first: int
    count: int
    urgency: Urgency
    is_taken: bool = False


@dataclass(slots=True)
class FetchQueue(Generic[F]):
    """Fetches that wait for a thread; closed, it gives none any more."""

    _heap: list[tuple[Urgency, int, Fetch[F]]] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _is_closed: bool = False

    def put(self, fetch: Fetch[F]) -> None:
        """Add one, or one again that became more urgent."""
        with self._changed:
            heapq.heappush(self._heap, (fetch.urgency, next(self._numbers), fetch))
            self._changed.notify()

    def hurry(self, fetch: Fetch[F], urgency: Urgency) -> None:
        """Make one more urgent, unless it is under way."""
        with self._changed:
            if fetch.is_taken or fetch.urgency <= urgency:
                return
            fetch.urgency = urgency
        self.put(fetch)

    def take(self) -> Fetch[F] | None:
        """The most urgent one, as soon as there is one; None when closed."""
        with self._changed:
            while not self._is_closed:
                while self._heap:
                    *_, fetch = heapq.heappop(self._heap)
                    if not fetch.is_taken:
                        fetch.is_taken = True
                        return fetch
                self._changed.wait()
            return None

    def close(self) -> None:
        """Let all who wait go."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()


def runs(chunks: Iterable[int], most: int) -> Iterator[tuple[int, int]]:
    """First chunk and number of chunks that follow each other, at most so many together."""
    first, count = 0, 0
    for chunk in chunks:
        if count and chunk == first + count and count < most:
            count += 1
            continue
        if count:
            yield first, count
        first, count = chunk, 1
    if count:
        yield first, count


@dataclass(slots=True)
class ReadAhead:
    """How far to load ahead of somebody who reads in order: twice as far with each chunk that he comes to."""

    _places: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    """Of each file the last chunk that was asked for, and the window."""

    def after(self, file: tuple[int, int], first: int, last: int, most: int) -> int:
        """How many chunks to have ready after `last`, now that `first` to `last` of a file are asked for.

        `most` is the bound. Nothing is loaded ahead of somebody who has read within one chunk, or who jumps.
        """
        before, window = self._places.pop(file, (-2, 0))
        if first == before + 1 or (first == before and last > before):
            window = min(max(window * 2, 1), most)
        elif not (first == last == before):
            window = 0
        self._places[file] = (last, window)
        while len(self._places) > MOST_PLACES:
            del self._places[next(iter(self._places))]
        return window
