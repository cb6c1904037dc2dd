"""Calls a scheduler from a loop that must not wait for one: a thread calls, the loop gets the answer.

A scheduler that does not answer is asked again, and given up after a while.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from gridwright.errors import Finding, GridwrightError
from gridwright.schedulers.scheduler import Scheduler
from gridwright.schedulers.silence import PATIENCE_S, Silence

T = TypeVar("T")

_RETRY_S = 2.0


@dataclass(frozen=True, slots=True)
class _Call:
    what: Callable[[Scheduler], Any]
    then: Callable[[Any], None]
    failed: Callable[[], None]


class SchedulerCalls:
    """One call at a time; `deliver` hands over its answer, in the thread of the loop."""

    def __init__(
        self,
        open_scheduler: Callable[[], Scheduler],
        tell: Callable[[Finding], None],
        *,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """`open_scheduler` is called in the thread that asks: a scheduler may be for one thread only."""
        self._open = open_scheduler
        self._silence = Silence(
            lambda level, text, remedy: tell(Finding(level, "workload-scheduler-silent", text, remedy)),
            meanwhile="what runs goes on",
            patience_s=patience_s,
        )
        self._orders: queue.SimpleQueue[_Call] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[Any, Exception | None]] = queue.SimpleQueue()
        self._call: _Call | None = None
        self._not_before = 0.0
        self.took_s = 0.0
        """How long the last call took."""
        # A thread that hangs must not keep the process from ending.
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def free(self) -> bool:
        """Whether another call can be made now."""
        return self._call is None and time.monotonic() >= self._not_before

    def ask(
        self,
        what: Callable[[Scheduler], T],
        then: Callable[[T], None],
        failed: Callable[[], None] = lambda: None,
    ) -> None:
        """Make a call; `then` gets its answer, `failed` is called where there was none."""
        if self._call is not None:
            raise RuntimeError("the last call has not been answered yet")
        self._call = _Call(what, then, failed)
        self._orders.put(self._call)

    def deliver(self) -> None:
        """Hand over the answer if it is there.

        Raises GridwrightError for a wrong request, and when the scheduler has been silent for too long.
        """
        try:
            answer, error = self._answers.get_nowait()
        except queue.Empty:
            self._silence.check()
            return
        call, self._call = self._call, None
        if call is None:
            raise RuntimeError("an answer without a call")
        if error is None:
            self._silence.answered()
            call.then(answer)
            return
        call.failed()
        if not isinstance(error, GridwrightError):
            raise error
        now = time.monotonic()
        self._not_before = now + _RETRY_S
        self._silence.unanswered(error, now - self.took_s)

    def _serve(self) -> None:
        scheduler: Scheduler | None = None
        while True:
            call = self._orders.get()
            began = time.monotonic()
            try:
                if scheduler is None:
                    scheduler = self._open()
                answer, error = call.what(scheduler), None
            except Exception as raised:  # handed over to the loop, which raises it
                answer, error = None, raised
            self.took_s = time.monotonic() - began
            self._answers.put((answer, error))
