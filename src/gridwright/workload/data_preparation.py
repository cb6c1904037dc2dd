"""Has the data set made for the agent, in a process of its own, and passes its events on."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
from collections.abc import Callable

from gridwright.errors import ExitStatus, Problem
from gridwright.messages import encode
from gridwright.runs.workload_events import WORKLOAD_EVENTS, DataFailed, DataReady, WorkloadEvent
from gridwright.workload.engines import absent_engines
from gridwright.workload.messages import DataRequest, RunRequest

_STOP_S = 1.0


class DataPreparation:
    """Runs `gridwright.workload.prepare`; `ended` and `status` say how it goes."""

    def __init__(
        self,
        request: RunRequest,
        selector: selectors.BaseSelector,
        say: Callable[[WorkloadEvent], None],
    ) -> None:
        """Start it. Raises OSError."""
        self._say = say
        self._selector = selector
        self._rest = b""
        self._ready = False
        self.ended = False
        self.status: ExitStatus | None = None
        if lacking := absent_engines():
            self._fail(
                f"the engines of the tests are not installed: {', '.join(lacking)}",
                "run: pip install 'gridwright[workload]'",
            )
            return
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "gridwright.workload.prepare", str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        asked = DataRequest(
            libraries=request.libraries,
            scale=request.scale,
            seed=request.seed,
            copies=request.copies,
            streams=[[launch.test for launch in stream] for stream in request.streams],
            keep=request.keep,
            workers=request.workers,
        )
        if self._process.stdin is not None:
            self._process.stdin.write(encode(asked) + b"\n")
            self._process.stdin.flush()
        if self._process.stdout is not None:
            selector.register(self._process.stdout.fileno(), selectors.EVENT_READ, self._read)

    def stop(self) -> None:
        """End it; it removes what is half made."""
        if self.ended:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def _read(self) -> None:
        if self._process.stdout is None:
            return
        fd = self._process.stdout.fileno()
        chunk = os.read(fd, 1 << 16)
        if not chunk:
            self._selector.unregister(fd)
            self._finish()
            return
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            event = WORKLOAD_EVENTS.read(json.loads(line))
            if isinstance(event, DataFailed):
                self.status = event.exit
                for problem in event.problems:
                    self._say(problem)
            elif event is not None:
                self._ready = self._ready or isinstance(event, DataReady)
                self._say(event)

    def _finish(self) -> None:
        self.ended = True
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_STOP_S)
        if not self._ready and self.status is None:
            self._fail(
                f"the process that makes the data ended without a word ({self._process.returncode})",
                "look into the run's log, and for an out-of-memory kill in `dmesg`",
            )

    def _fail(self, what: str, remedy: str) -> None:
        self.ended = True
        self.status = ExitStatus.ENVIRONMENT
        self._say(Problem(what=what, remedy=remedy))
