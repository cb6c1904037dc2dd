"""A test of several libraries: one worker process each, one after the other.

The command never touches a library itself: it waits for the worker's events, at most
`SILENCE_S` for the next, and goes on without a worker that does not answer.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Protocol

from gridwright.errors import ExitStatus, environment_error
from gridwright.iotest.options import IotestOptions, LibraryTarget

SILENCE_S = 45.0
"""A worker reports several times a second; one that is silent this long hangs on its mount."""
_GRACE_S = 15.0
_POLL_S = 0.1

Event = dict[str, Any]


class Observer(Protocol):
    """Sees every event as it happens: the run directory, a progress display."""

    def take(self, event: Event) -> None:
        """Look at one event."""


class Session:
    """Tests libraries and tells observers; `stop` may be set at any time from a signal handler."""

    def __init__(
        self,
        observers: Sequence[Observer],
        logs: Path,
        stop: threading.Event,
        silenced: Collection[str] = (),
    ) -> None:
        """Make a session; findings named in `silenced` are told to nobody, unless they are errors."""
        self._observers = observers
        self._logs = logs
        self._stop = stop
        self._silenced = silenced

    def run(self, targets: Sequence[LibraryTarget], options: IotestOptions) -> ExitStatus:
        """Test each library; returns the worst status, 0 if all could be tested.

        After a failure of one library the others are still tested. Raises GridwrightError if a worker cannot
        be started.
        """
        worst = ExitStatus.DONE
        for target in targets:
            if self._stop.is_set():
                break
            status = self._library(target, options)
            worst = max(worst, status)
        return ExitStatus.INTERRUPTED if self._stop.is_set() else worst

    def _library(self, target: LibraryTarget, options: IotestOptions) -> ExitStatus:
        done: Event = {}
        with _Worker(target, options, self._logs) as worker:
            for event in worker.events(self._stop):
                if event["event"] == "finding" and self._is_silenced(event):
                    continue
                for observer in self._observers:
                    observer.take(event)
                if event["event"] == "done":
                    done = event
        if not done:
            self._lost(target, worker)
            if not worker.hangs:
                _tidy(target)
            return ExitStatus.ENVIRONMENT
        return ExitStatus(done["exit"])

    def _is_silenced(self, finding: Event) -> bool:
        return finding["level"] != "error" and finding["name"] in self._silenced

    def _lost(self, target: LibraryTarget, worker: _Worker) -> None:
        for event in (
            {
                "event": "problem",
                "what": f"library {target.library}: {worker.end}",
                "where": target.path,
                "field": None,
                "source": None,
                "remedy": f"check the mount (`mount`, `dmesg`) and {worker.log}",
            },
            {"event": "done", "status": "failed", "exit": ExitStatus.ENVIRONMENT},
        ):
            for observer in self._observers:
                observer.take(event)


_COMMAND = (sys.executable, "-P", "-m", "gridwright.iotest.worker")


def _tidy(target: LibraryTarget) -> None:
    """Have what a killed worker left removed; what cannot be is removed by the next test."""
    request = json.dumps({"tidy": target.path}).encode() + b"\n"
    with contextlib.suppress(subprocess.SubprocessError, OSError):
        # Not subprocess.run: past its time it would wait for a process that cannot be killed.
        tidier = subprocess.Popen(
            _COMMAND, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        with contextlib.suppress(subprocess.TimeoutExpired):
            tidier.communicate(request, timeout=_GRACE_S)


class _Worker:
    """The process that touches a library; its stdin is held open as long as we live."""

    def __init__(self, target: LibraryTarget, options: IotestOptions, logs: Path) -> None:
        self.log = logs / f"iotest-{target.library}.log"
        self.end = "its worker ended without a word"
        self.hangs = False
        self._request = {"target": target.to_message(), "options": options.to_message()}

    def __enter__(self) -> _Worker:
        try:
            with self.log.open("ab") as log:
                self._process = subprocess.Popen(
                    _COMMAND,
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
        self._pipe(self._process.stdin).write(json.dumps(self._request).encode() + b"\n")
        self._pipe(self._process.stdin).flush()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._pipe(self._process.stdin).close()
        if kind is KeyboardInterrupt:
            # The user will not wait; the end of its input is the worker's order to tidy up.
            return
        if self._wait(_GRACE_S) is None:
            self._process.send_signal(signal.SIGKILL)
            # One that hangs in the kernel does not even die of this; it is left behind.
            self._wait(1.0)

    @staticmethod
    def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
        if pipe is None:
            raise RuntimeError("the worker was started without its pipes")
        return pipe

    def _wait(self, seconds: float) -> int | None:
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

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
                    self._process.send_signal(signal.SIGTERM)
                if not selector.select(_POLL_S):
                    if time.monotonic() - heard > (_GRACE_S if told else SILENCE_S):
                        self.hangs = True
                        self.end = "the file system does not answer: its worker hangs"
                        return
                    continue
                chunk = os.read(pipe, 1 << 16)
                if not chunk:
                    code = self._wait(1.0)
                    if code is not None and code < 0:
                        self.end = f"its worker was killed by {signal.Signals(-code).name}"
                    return
                heard = time.monotonic()
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    event: Event = json.loads(line)
                    yield event
                    if event["event"] == "done":
                        return
