"""Reads that may hang, such as of a dead mount, each in a thread of its own that is asked once at a time.

A thread that hangs in the kernel cannot be ended. It is told as silent and not asked again until it answers,
so that a dead mount holds one thread, however long it is watched.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class _Held(Generic[T]):
    """One source with its thread."""

    read: Callable[[], T]
    orders: queue.SimpleQueue[bool] = field(default_factory=queue.SimpleQueue)
    asked_s: float | None = None
    """Since when it is waited for, by time.monotonic(); None while it is not."""


class HeldReads(Generic[T]):
    """Sources by name, read side by side within a limit of time."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._sources: dict[str, _Held[T]] = {}
        self._answers: queue.SimpleQueue[tuple[str, T | Exception, float | None]] = queue.SimpleQueue()

    def keep(self, sources: Mapping[str, Callable[[], T]]) -> None:
        """Have these sources from now on; those that are there already keep their thread."""
        for name in set(self._sources) - set(sources):
            self._sources.pop(name).orders.put(False)
        for name, read in sources.items():
            if name not in self._sources:
                held = self._sources[name] = _Held(read)
                threading.Thread(target=self._serve, args=(name, held), daemon=True).start()

    def read(self) -> tuple[dict[str, T], dict[str, str]]:
        """What the sources say within the limit, and of those that say nothing, why.

        An answer to an earlier question counts when it comes: what is read has the time of its source.
        """
        deadline = time.monotonic() + self._limit_s
        for held in self._sources.values():
            if held.asked_s is None:
                held.asked_s = time.monotonic()
                held.orders.put(True)
        waited = {name: held.asked_s for name, held in self._sources.items()}
        answers: dict[str, T] = {}
        silent: dict[str, str] = {}
        while waited:
            try:
                name, answer, asked = self._answers.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                break
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
        now = time.monotonic()
        silent |= {name: f"no answer for {now - since:.0f} s" for name, since in waited.items() if since}
        return answers, silent

    def _serve(self, name: str, held: _Held[T]) -> None:
        while held.orders.get():
            asked = held.asked_s
            try:
                answer: T | Exception = held.read()
            except Exception as error:
                answer = error
            self._answers.put((name, answer, asked))
