"""Runs the tests of several libraries one after the other, each in a worker process of its own.

The command never touches a library itself; see `gridwright.runs.worker_process`.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Collection, Sequence
from pathlib import Path

from gridwright.errors import ExitStatus, Problem
from gridwright.iotest.messages import REQUESTS, LibraryRequest, RemoveStale
from gridwright.iotest.options import IotestOptions, LibraryTarget
from gridwright.runs.events import is_silenced
from gridwright.runs.iotest_events import IOTEST_EVENTS, IotestEvent, LibraryDone
from gridwright.runs.worker_process import GRACE_S, Observer, WorkerProcess


class Session:
    """Tests libraries and tells observers; `stop` may be set at any time from a signal handler."""

    def __init__(
        self,
        observers: Sequence[Observer[IotestEvent]],
        logs: Path,
        stop: threading.Event,
        silenced: Collection[str] = (),
        run: str = "",
    ) -> None:
        """Make a session; findings named in `silenced` are told to nobody, unless they are errors."""
        self._observers = observers
        self._logs = logs
        self._stop = stop
        self._silenced = silenced
        self._run = run

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
        done: LibraryDone | None = None
        request = REQUESTS.plain(LibraryRequest(target, options, self._run))
        log = self._logs / f"iotest-{target.library}.log"
        with WorkerProcess(_WORKER, request, log) as worker:
            for event in map(IOTEST_EVENTS.read, worker.events(self._stop)):
                if event is None or is_silenced(event, self._silenced):
                    continue
                for observer in self._observers:
                    observer.take(event)
                if isinstance(event, LibraryDone):
                    # Its last word; one whose threads hang says it and does not end.
                    done = event
                    worker.said_all()
                    break
        if done is None:
            self._lost(target, worker)
            if not worker.hangs:
                _tidy(target)
            return ExitStatus.ENVIRONMENT
        return done.exit

    def _lost(self, target: LibraryTarget, worker: WorkerProcess) -> None:
        for event in (
            Problem(
                what=f"library {target.library}: {worker.end}",
                where=target.path,
                remedy=f"check the mount (`mount`, `dmesg`) and {worker.log}",
            ),
            LibraryDone(status="failed", exit=ExitStatus.ENVIRONMENT),
        ):
            for observer in self._observers:
                observer.take(event)


_WORKER = "gridwright.iotest.worker"


def _tidy(target: LibraryTarget) -> None:
    """Have what a killed worker left removed; what cannot be is removed by the next test."""
    request = REQUESTS.encode(RemoveStale(target.path)) + b"\n"
    with contextlib.suppress(subprocess.SubprocessError, OSError):
        # Not subprocess.run: past its time it would wait for a process that cannot be killed.
        tidier = subprocess.Popen(
            [sys.executable, "-P", "-m", _WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        with contextlib.suppress(subprocess.TimeoutExpired):
            tidier.communicate(request, timeout=GRACE_S)
