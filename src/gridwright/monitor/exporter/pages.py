"""Has a process of its own write pages, and hands the same one to all who ask within an interval."""

from __future__ import annotations

import contextlib
import gzip
import os
import select
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from gridwright.messages import encode
from gridwright.monitor.exporter.exposition import TextFormat
from gridwright.monitor.exporter.page_program import HEAD, LETTERS, PageOrder

PROGRAM = (sys.executable, "-P", "-m", "gridwright.monitor.exporter.page_program")
ANSWER_S = 8.0
"""How long a page may take: scrapers wait ten seconds by default."""
AGAIN_S = 10.0
"""A process that ended or hung is started again at most this often."""
MOST_BYTES = 1 << 26
"""Of one page: of all series that there can be it has some tens of MB."""
_FASTEST = 1
"""Level of gzip: text of this kind shrinks to a tenth by it, and a node has better to do."""
_DEATH_S = 0.3
_LETTER_OF = {format_: letter for letter, format_ in LETTERS.items()}


class NoPage(Exception):
    """There is no page now, and why."""


@dataclass(slots=True)
class _Made:
    """A page, with its packed form where somebody asked for it."""

    body: bytes
    packed: bytes | None = None


@dataclass(slots=True)
class Pages:
    """Pages of this node. Of threads that ask at one time, one has it made, and the others get the same."""

    order: PageOrder
    interval_s: float = 1.0
    """Pages within this time after a sample have the same one."""
    program: tuple[str, ...] = PROGRAM
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _made: dict[TextFormat, _Made] = field(default_factory=dict)
    """Of one sample."""
    _sampled: float | None = None
    """When that was asked for."""
    _process: subprocess.Popen[bytes] | None = None
    _began: float | None = None

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def get(self, format_: TextFormat, *, packed: bool = False) -> bytes:
        """The page of now, by gzip if `packed`. Raises NoPage."""
        if not self._lock.acquire(timeout=ANSWER_S):
            raise NoPage("the sample before is not finished")
        try:
            now = time.monotonic()
            if self._sampled is None or now - self._sampled >= self.interval_s:
                self._made.clear()
                # What fails is as if there was no sample.
                self._sampled = None
                self._made[format_] = _Made(self._ask(format_, new=True))
                self._sampled = now
            elif format_ not in self._made:
                self._made[format_] = _Made(self._ask(format_, new=False))
            made = self._made[format_]
            if not packed:
                return made.body
            if made.packed is None:
                made.packed = gzip.compress(made.body, _FASTEST)
            return made.packed
        finally:
            self._lock.release()

    def _ask(self, format_: TextFormat, *, new: bool) -> bytes:
        letter = _LETTER_OF[format_].upper() if new else _LETTER_OF[format_]
        process = self._running()
        deadline = time.monotonic() + ANSWER_S
        try:
            os.write(process.stdin.fileno(), letter)  # type: ignore[union-attr]
            return _read_page(process.stdout.fileno(), deadline)  # type: ignore[union-attr]
        except (OSError, NoPage) as error:
            self._end()
            raise NoPage(str(error) if isinstance(error, NoPage) else "the sampler has ended") from None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._end()
            now = time.monotonic()
            if self._began is not None and now - self._began < AGAIN_S:
                raise NoPage("the sampler has ended, and is started again in some seconds")
            self._start()
        if self._process is None:
            raise NoPage("the sampler cannot be started")
        return self._process

    def _start(self) -> None:
        self._began = time.monotonic()
        try:
            process = subprocess.Popen(
                self.program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
            )
        except OSError:
            return
        self._process = process
        with contextlib.suppress(OSError):
            # A pipe takes it whole, whether or not anybody reads it yet.
            os.write(process.stdin.fileno(), encode(self.order) + b"\n")  # type: ignore[union-attr]

    def _end(self) -> None:
        """End the process; one that hangs is left behind."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_DEATH_S)
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]


def _read_page(pipe: int, deadline: float) -> bytes:
    """All pieces of a page. Raises NoPage, and OSError."""
    pieces, size = [], 0
    while length := HEAD.unpack(_read(pipe, HEAD.size, deadline))[0]:
        size += length
        if size > MOST_BYTES:
            raise NoPage(f"the page has more than {MOST_BYTES} bytes")
        pieces.append(_read(pipe, length, deadline))
    return b"".join(pieces)


def _read(pipe: int, length: int, deadline: float) -> bytes:
    found = bytearray()
    while len(found) < length:
        if not select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise NoPage(f"the sampler has not answered for {ANSWER_S:.0f} s")
        chunk = os.read(pipe, length - len(found))
        if not chunk:
            raise NoPage("the sampler has ended")
        found += chunk
    return bytes(found)
