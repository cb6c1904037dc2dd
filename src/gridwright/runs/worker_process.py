"""Starts a process that does the work of a command, reads its events, and ends it.

Which process made a directory, and whether it still runs, is told here, too.

The command itself touches nothing that can hang: it waits for the worker's events, and goes on without a
worker that is silent for too long.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Protocol, Self, TypeVar

import psutil

from gridwright.atomic import open_log
from gridwright.errors import environment_error
from gridwright.kernel_files import boot_id, text_of
from gridwright.messages import encode
from gridwright.runs.journal import Event


def machine() -> str:
    """Identify this machine and process namespace: two may share a host name, and a file system.

    /etc/machine-id is hashed, as machine-id(5) asks of whoever writes it down.
    """
    name = text_of(Path("/etc/machine-id")) or ""
    try:
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        namespace = ""
    return hashlib.sha256(f"gridwright {name} {namespace}".encode()).hexdigest()[:16]


def process_facts() -> dict[str, object]:
    """Identify this process, so that a reader can see later whether it still runs."""
    return {
        "host": socket.gethostname(),
        "machine": machine(),
        "boot_id": boot_id(),
        "pid": os.getpid(),
        "started": psutil.Process().create_time(),
    }


def is_alive(process: dict[str, object]) -> bool | None:
    """Say whether a process described by `process_facts` still runs; None if on another host."""
    if process.get("host") != socket.gethostname() or process.get("machine") != machine():
        return None
    if process.get("boot_id") != boot_id():
        return False
    pid, started = process.get("pid"), process.get("started")
    if not isinstance(pid, int) or not isinstance(started, int | float):
        return False
    try:
        found = psutil.Process(pid)
        # A zombie is dead; in a container there may be nobody to reap it.
        return abs(found.create_time() - started) < 1.0 and found.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, ValueError, OverflowError):
        return False


SILENCE_S = 45.0
"""A worker reports several times a second; one that is silent this long hangs on its mount."""
GRACE_S = 15.0
"""How long a worker may take to tidy up once it was told to stop."""
DONE_S = 3.0
"""How long one may take to end that has said its last word: with threads in the kernel it never does."""
BEAT_S = 5.0
"""Between two lines for a worker elsewhere."""
_POLL_S = 0.1
_HANGS = "the file system does not answer: its worker hangs"
_SILENT_ELSEWHERE = "it does not answer"

_Seen_contra = TypeVar("_Seen_contra", contravariant=True)


class Observer(Protocol[_Seen_contra]):
    """Sees every event as it happens: the run directory, a progress display."""

    def take(self, event: _Seen_contra) -> None:
        """Look at one event."""


class WorkerProcess:
    """A worker whose stdin is held open as long as we live; use it as a context."""

    def __init__(self, module: str, request: object, log: Path, elsewhere: Sequence[str] = ()) -> None:
        """Describe a worker: the module to run, its request (a message), and the file for its stderr.

        `elsewhere` is a command line that runs the module on another machine, with these streams: it is told
        to stop by the end of its input, and given a line every few seconds until then.
        """
        self.log = log
        self._elsewhere = bool(elsewhere)
        self.end = "its worker ended without a word"
        """Why there was no last event."""
        self.hangs = False
        self._expects_end = False
        self._beaten = time.monotonic()
        self._command = list(elsewhere) or [sys.executable, "-P", "-m", module]
        self._request = request

    def __enter__(self) -> Self:
        """Start it. Raises GridwrightError."""
        try:
            with open_log(self.log) as log:
                self._process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    # A terminal's interrupt goes to the command, which passes on one order to stop.
                    start_new_session=True,
                )
        except OSError as error:
            raise environment_error(
                f"the worker cannot be started: {error.strerror}",
                where=str(error.filename or self.log),
                remedy="check free space there, and the limits of this user (`ulimit -a`)",
            ) from error
        # One that has ended already says so by its output.
        with contextlib.suppress(BrokenPipeError):
            self._pipe(self._process.stdin).write(encode(self._request) + b"\n")
            self._pipe(self._process.stdin).flush()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._close_input()
        if kind is KeyboardInterrupt:
            # The user will not wait; the end of its input is the worker's order to tidy up.
            return
        if self._wait(min(DONE_S, GRACE_S) if self._expects_end else GRACE_S) is None:
            self._process.send_signal(signal.SIGKILL)
            # One that hangs in the kernel does not even die of this; it is left behind.
            self._wait(1.0)

    def expect_end(self) -> None:
        """Note that its last event came: there is nothing left that it would have to tidy up."""
        self._expects_end = True

    @staticmethod
    def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
        if pipe is None:
            raise RuntimeError("the worker was started without its pipes")
        return pipe

    def _close_input(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._pipe(self._process.stdin).close()

    def _tell_to_stop(self) -> None:
        if self._elsewhere:
            self._close_input()
        else:
            self._process.send_signal(signal.SIGTERM)

    def _give_heartbeat(self) -> None:
        """Let a worker elsewhere know that we are there: a connection may break without a word."""
        stdin = self._pipe(self._process.stdin)
        if self._elsewhere and not stdin.closed and time.monotonic() - self._beaten > BEAT_S:
            self._beaten = time.monotonic()
            os.set_blocking(stdin.fileno(), False)
            with contextlib.suppress(BrokenPipeError, BlockingIOError):
                os.write(stdin.fileno(), b"\n")

    def _wait(self, seconds: float) -> int | None:
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def _last_words(self) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return f": {lines[-1]}" if lines else ""

    def events(self, stop: threading.Event) -> Iterator[Event]:
        """Yield events until the worker is done, is gone, or does not answer."""
        pipe = self._pipe(self._process.stdout).fileno()
        os.set_blocking(pipe, False)
        told = False
        heard = time.monotonic()
        rest = b""
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            while True:
                if stop.is_set() and not told:
                    told = True
                    self._tell_to_stop()
                self._give_heartbeat()
                if not selector.select(_POLL_S):
                    if time.monotonic() - heard > (GRACE_S if told else SILENCE_S):
                        self.hangs = True
                        self.end = _SILENT_ELSEWHERE if self._elsewhere else _HANGS
                        return
                    continue
                chunk = os.read(pipe, 1 << 16)
                if not chunk:
                    code = self._wait(1.0)
                    if code is not None and code < 0:
                        self.end = f"its worker was killed by {signal.Signals(-code).name}"
                    elif code and self._elsewhere:
                        self.end = f"it ended with exit status {code}{self._last_words()}"
                    return
                heard = time.monotonic()
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    event: Event = json.loads(line)
                    yield event
                    if event["event"] == "done":
                        return
