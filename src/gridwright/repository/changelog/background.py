"""Many questions to a file system at a time, by threads that a command does not wait for when it ends.

A client of Lustre whose server is away asks for ever, and no thread can be taken out of that.
"""

from __future__ import annotations

import errno
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")
THREADS = 8
"""Each question goes to a server and back."""
PATIENCE_S = 300.0
"""A server that is started anew lets its clients wait for minutes."""
_LOOK_S = 0.2
"""How long a signal may wait."""


@dataclass(frozen=True, slots=True)
class _Failure:
    error: Exception


def answers(
    question: Callable[[T], R], items: Iterable[T], threads: int = THREADS, patience_s: float = PATIENCE_S
) -> Iterator[R]:
    """What a function gives for each item, in any order; items are taken in the caller's thread.

    Raises what the function raises, and OSError (ETIMEDOUT) where nothing is answered for `patience_s`.
    """
    asked: queue.SimpleQueue[tuple[T, ...]] = queue.SimpleQueue()
    answered: queue.SimpleQueue[R | _Failure] = queue.SimpleQueue()

    def work() -> None:
        while item := asked.get():
            try:
                answered.put(question(*item))
            except Exception as error:  # It is raised where the answers are wanted.
                answered.put(_Failure(error))

    for _ in range(threads):
        threading.Thread(target=work, daemon=True).start()
    waiting, under_way = iter(items), 0
    try:
        while True:
            for item in islice(waiting, 2 * threads - under_way):
                asked.put((item,))
                under_way += 1
            if not under_way:
                return
            found = _next(answered, patience_s)
            under_way -= 1
            if isinstance(found, _Failure):
                raise found.error
            yield found
    finally:
        for _ in range(threads):
            asked.put(())


def answer(question: Callable[[], R], patience_s: float = PATIENCE_S) -> R:
    """What a function gives, asked in the same way. Raises what it raises, and OSError (ETIMEDOUT)."""
    (found,) = answers(lambda each: each(), [question], 1, patience_s)
    return found


def _next(answered: queue.SimpleQueue[T], patience_s: float) -> T:
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return answered.get(timeout=_LOOK_S)
        except queue.Empty:
            if time.monotonic() > deadline:
                raise OSError(errno.ETIMEDOUT, f"nothing was answered for {patience_s:g} s") from None
