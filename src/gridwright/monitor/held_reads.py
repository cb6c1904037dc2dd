"""Reads that may hang, such as of a dead mount, each asked once at a time by one of a few threads.

A thread that hangs in the kernel cannot be ended. Its source is told as silent and not asked again until it
answers, and another thread goes on with the others: a dead mount holds one thread, however long it is
watched.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

PATIENCE_S = 0.05
"""Without any answer for so long, another thread goes on: files of a kernel that is well take a few ms."""


@dataclass(slots=True)
class _Held(Generic[T]):
    """One source."""

    read: Callable[[], T]
    asked_s: float | None = None
    """Since when it is waited for, by time.monotonic(); None while it is not."""


class HeldReads(Generic[T]):
    """Sources by name, read within a limit of time."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._sources: dict[str, _Held[T]] = {}
        self._orders: queue.SimpleQueue[tuple[str, _Held[T]] | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[str, T | Exception, float | None]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        """Threads that wait for an order."""

    def keep(self, sources: Mapping[str, Callable[[], T]]) -> None:
        """Have these sources from now on; those that are there already are waited for as before."""
        self._sources = {name: self._sources.get(name) or _Held(read) for name, read in sources.items()}

    def read(self, without: Container[str] = ()) -> tuple[dict[str, T], dict[str, str]]:
        """What the sources say within the limit, and of those that say nothing, why.

        Those in `without` are not asked, but told of where they have been asked and have not answered.

        An answer to an earlier question counts when it comes: what is read has the time of its source.
        """
        deadline = time.monotonic() + self._limit_s
        self._ask(without)
        waited = {
            name: held.asked_s
            for name, held in self._sources.items()
            if held.asked_s is not None or name not in without
        }
        answers: dict[str, T] = {}
        silent: dict[str, str] = {}
        while waited:
            left = deadline - time.monotonic()
            try:
                name, answer, asked = self._answers.get(timeout=max(0.0, min(left, PATIENCE_S)))
            except queue.Empty:
                if left <= PATIENCE_S:
                    break
                self._go_on()
                continue
            source = self._sources.get(name)
            if source is None or source.asked_s != asked:
                # Of a mount that is gone, or that another one has come instead of.
                continue
            source.asked_s = None
            del waited[name]
            if isinstance(answer, Exception):
                # A GridwrightError says below its first line what to do.
                silent[name] = str(answer).partition("\n")[0] or type(answer).__name__
            else:
                answers[name] = answer
        self._dismiss()
        now = time.monotonic()
        silent |= {name: f"no answer for {now - since:.0f} s" for name, since in waited.items() if since}
        return answers, silent

    def _ask(self, without: Container[str]) -> None:
        """Order all that is not waited for."""
        for name, held in self._sources.items():
            if held.asked_s is None and name not in without:
                held.asked_s = time.monotonic()
                self._orders.put((name, held))
        self._go_on()

    def _go_on(self) -> None:
        """Have a thread for what is ordered, where all others hang or work."""
        with self._lock:
            wanted = self._idle == 0 and not self._orders.empty()
        if wanted:
            threading.Thread(target=self._serve, daemon=True).start()

    def _dismiss(self) -> None:
        """Let threads go that hung and came back: one is enough."""
        with self._lock:
            for _ in range(self._idle - 1):
                self._orders.put(None)

    def _serve(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
            order = self._orders.get()
            with self._lock:
                self._idle -= 1
            if order is None:
                return
            name, held = order
            asked = held.asked_s
            try:
                answer: T | Exception = held.read()
            except Exception as error:
                answer = error
            self._answers.put((name, answer, asked))
