"""Notifiers send the notices of each receiver, one after the other, beside the rounds of looking."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

from gridwright.commands import CommandError, CommandPlace, CommandStopped, run_bounded
from gridwright.messages import MessageError, decode, encode
from gridwright.trusted import why_untrusted_path
from gridwright.watch.notifications import Notification
from gridwright.watch.sending.receivers import (
    RECEIVERS,
    SECRET_VARIABLE,
    SEND_S,
    AnyReceiver,
    ProgramReceiver,
    SendOrder,
    SendOutcome,
)

FIRST_WAIT_S, LONGEST_WAIT_S = 10.0, 900.0
_MOST_BYTES = 1 << 20
_PROGRAM = (sys.executable, "-P", "-m", "gridwright.watch.sending.send_program")
_SHOWN = 200


class Notifiers:
    """Tries run in threads and wait for a process each; a stop ends them within a second.

    When a receiver is tried again is by a clock that does not step; a new watch tries at once.
    """

    def __init__(
        self, receivers: Mapping[str, AnyReceiver], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.receivers = dict(receivers)
        self._clock = clock
        self._pool = ThreadPoolExecutor(max_workers=max(1, len(receivers)), thread_name_prefix="notifier")
        self._under_way: dict[str, tuple[str, Future[SendOutcome]]] = {}
        self._next: dict[str, float] = {}
        self._stop = threading.Event()

    def is_free(self, name: str) -> bool:
        """Whether a receiver may be sent something now."""
        return name not in self._under_way and self._clock() >= self._next.get(name, 0.0)

    @property
    def is_busy(self) -> bool:
        """Whether anything is under way."""
        return bool(self._under_way)

    def wait_s(self, name: str) -> float:
        """Seconds until a receiver may be tried again."""
        return max(0.0, self._next.get(name, 0.0) - self._clock())

    def begin(self, name: str, notice: Notification) -> None:
        """Begin a try to send a notice, which has this try counted already."""
        receiver = self.receivers[name]
        self._under_way[name] = (
            notice.id,
            self._pool.submit(partial(send_once, receiver, notice, self._stop.is_set)),
        )

    def ended(self) -> list[tuple[str, str, SendOutcome]]:
        """The tries that have ended: receiver, notice, outcome."""
        found = []
        for name, (notice, future) in list(self._under_way.items()):
            if future.done():
                del self._under_way[name]
                found.append((name, notice, future.result()))
        return found

    def failed(self, name: str, failures: int, outcome: SendOutcome) -> None:
        """Leave a receiver alone for a while, that has failed so many times in a row."""
        wait_s = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** min(failures - 1, 20))
        self._next[name] = self._clock() + max(wait_s, outcome.retry_after_s)

    def close(self) -> None:
        """End what is under way; what was sent and not told counts as not sent."""
        self._stop.set()
        self._pool.shutdown(cancel_futures=True)


def send_once(receiver: AnyReceiver, notice: Notification, stop: Callable[[], bool]) -> SendOutcome:
    """Send a notice once, in a process of its own and in bounded time."""
    try:
        if isinstance(receiver, ProgramReceiver):
            return _to_program(receiver, notice, stop)
        order = SendOrder(RECEIVERS.plain(receiver), notice, notice.attempts)
        place = CommandPlace(stop=stop)
        ended = run_bounded(
            _PROGRAM, stdin=encode(order), timeout_s=SEND_S, most_bytes=_MOST_BYTES, name="sending", at=place
        )
        if ended.status == 0:
            return decode(ended.stdout, SendOutcome)
        return SendOutcome(f"exit status {ended.status}: {_last(ended.stderr)}")
    except CommandStopped:
        return SendOutcome("it was stopped", stopped=True)
    except (CommandError, MessageError, UnicodeDecodeError) as error:
        return SendOutcome(str(error).partition("\n")[0])


def _to_program(receiver: ProgramReceiver, notice: Notification, stop: Callable[[], bool]) -> SendOutcome:
    program = shutil.which(receiver.words[0])
    if program and (reason := why_untrusted_path(Path(program).absolute())):
        return SendOutcome(f"{program} is not run: {reason}")
    environment = {name: value for name, value in os.environ.items() if name != SECRET_VARIABLE}
    environment |= {"GRIDWRIGHT_NOTICE": notice.id, "GRIDWRIGHT_ATTEMPT": str(notice.attempts)}
    ended = run_bounded(
        receiver.words,
        stdin=json.dumps(notice.document()).encode() + b"\n",
        environment=environment,
        timeout_s=SEND_S,
        most_bytes=_MOST_BYTES,
        at=CommandPlace(stop=stop),
    )
    if ended.status == 0:
        return SendOutcome()
    return SendOutcome(f"{receiver.words[0]}: exit status {ended.status} {_last(ended.stderr)}".strip())


def _last(text: bytes) -> str:
    lines = text.decode(errors="replace").strip().splitlines()
    return lines[-1][:_SHOWN] if lines else ""
