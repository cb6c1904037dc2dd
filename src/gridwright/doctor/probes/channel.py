"""The doctor's end of the connection to a node in a trial; every answer has a limit of time."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from gridwright.doctor.messages import ANSWERS, ORDERS, Done, OrderRefused, Ready, Time, TrialOrder
from gridwright.messages import MessageError

PROBES = (sys.executable, "-P", "-m", "gridwright.doctor.probes.node")
START_S = 8.0
"""For the connection and the start of a program on a node that is busy."""
ORDER_S = 4.0
"""For one order: what takes longer on a shared file system hangs."""
_END_S = 2.0
"""For a part to take away what it made."""


class NoAnswer(Exception):
    """A part did not answer, or ended; the text says how."""


class Refused(Exception):
    """A part could not do what it was told; the text is the system's."""


class Channel:
    """One node's part, at the end of a command line that runs it."""

    def __init__(self, node: str, command: Sequence[str]) -> None:
        self.node = node
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
        except OSError as error:
            raise NoAnswer(f"{command[0]} cannot be started: {error.strerror}") from error
        self._read = b""
        self._is_ready = False
        self.clock_off_s: float | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def ready(self) -> None:
        """Wait until the part has started, where it has not said so yet. Raises NoAnswer."""
        if not self._is_ready:
            self._answer(START_S)
            self._is_ready = True

    def ask(self, order: TrialOrder) -> bool | float | str | dict[str, int]:
        """Give an order and have its answer. Raises NoAnswer and Refused."""
        self.tell(order)
        return self.order_result()

    def tell(self, order: TrialOrder) -> None:
        """Give an order; `told` has its answer. Raises NoAnswer."""
        assert self._process.stdin is not None  # noqa: S101 - it was asked for
        try:
            self._process.stdin.write(ORDERS.encode(order) + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise NoAnswer(self._last_words()) from error

    def order_result(self) -> bool | float | str | dict[str, int]:
        """The answer to an order. Raises NoAnswer and Refused."""
        answer = self._answer(ORDER_S)
        if isinstance(answer, OrderRefused):
            raise Refused(answer.error)
        return answer.value if isinstance(answer, Done) else False

    def compare_clocks(self) -> None:
        """See how far the node's clock is from ours, beyond the time of the question. Raises NoAnswer."""
        before = time.time()
        theirs = self.ask(Time())
        if not isinstance(theirs, float):
            raise NoAnswer(f"{self.node} does not say what time it is")
        self.clock_off_s = min(theirs - before, 0.0) + max(theirs - time.time(), 0.0)

    def close(self) -> None:
        """Have the part end and take away what it made; kill it where it does not."""
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def _answer(self, seconds: float) -> Ready | Done | OrderRefused:
        deadline = time.monotonic() + seconds
        assert self._process.stdout is not None  # noqa: S101 - it was asked for
        pipe = self._process.stdout.fileno()
        while True:
            # What a login prints on its way is no answer.
            while b"\n" in self._read:
                line, _, self._read = self._read.partition(b"\n")
                with contextlib.suppress(MessageError):
                    return ANSWERS.decode(line)
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([pipe], [], [], left)[0]:
                raise NoAnswer(f"{self.node} has not answered for {seconds:.0f} s")
            chunk = os.read(pipe, 1 << 16)
            if not chunk:
                raise NoAnswer(self._last_words())
            self._read += chunk

    def _last_words(self) -> str:
        assert self._process.stderr is not None  # noqa: S101 - it was asked for
        pipe = self._process.stderr.fileno()
        said = os.read(pipe, 4096) if select.select([pipe], [], [], 0.2)[0] else b""
        lines = said.decode(errors="replace").strip().splitlines()
        return f"{self.node}: {lines[-1][:200]}" if lines else f"{self.node}: its part ended"
