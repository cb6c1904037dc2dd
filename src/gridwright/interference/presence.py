"""Announces a run on the file systems of its libraries as long as it lasts, and hears of others there."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from gridwright.interference.heartbeat import Announcement, HeartbeatRequest, Others
from gridwright.messages import MessageError, decode, encode
from gridwright.runs.load_record import OtherRun

_COMMAND = [sys.executable, "-P", "-m", "gridwright.interference.heartbeat"]
_FIRST_LOOK_S = 5.0
_GONE_S = 1.0


@dataclass(slots=True)
class Presence:
    """The presence heartbeat of a run on this node; nothing here waits for a file system."""

    process: subprocess.Popen[bytes] | None = None
    _changes: list[Others] = field(default_factory=list)
    _fault: str | None = None
    """Why nothing is heard of others any more."""
    _rest: bytes = b""

    def begin(
        self, announcement: Announcement, *, scratch: Sequence[Path], libraries: Sequence[Path]
    ) -> None:
        """Start the heartbeat; see `seen` for what becomes of one that cannot be started."""
        request = HeartbeatRequest(announcement, [*map(str, scratch)], [*map(str, libraries)])
        try:
            process = subprocess.Popen(
                _COMMAND,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            self.process = process
            os.set_blocking(_pipe(process.stdout).fileno(), False)
            _pipe(process.stdin).write(encode(request) + b"\n")
            _pipe(process.stdin).flush()
        except OSError as error:
            self._fault = f"the look-out for them cannot be started: {error.strerror or error}"

    def wait(self) -> None:
        """Wait until the heartbeat has looked once, for a moment at most: the file system may hang."""
        deadline = time.monotonic() + _FIRST_LOOK_S
        while self.process is not None and not self._changes:
            left = deadline - time.monotonic()
            ready, _, _ = select.select([_pipe(self.process.stdout)], [], [], max(0.0, left))
            self._hear()
            if not ready or self.process.poll() is not None:
                return

    @property
    def pid(self) -> int | None:
        """The process of the heartbeat."""
        return self.process.pid if self.process is not None else None

    def seen(self, begin: float, end: float) -> tuple[frozenset[OtherRun], str | None]:
        """Other runs that were there at some time between two moments of time.monotonic().

        And why there may have been more, where that is so.
        """
        self._hear()
        runs: set[OtherRun] = set()
        fault = self._fault
        for number, others in enumerate(self._changes):
            until = self._changes[number + 1].at if number + 1 < len(self._changes) else float("inf")
            if others.at <= end and until > begin:
                runs |= {*others.runs}
                fault = fault or others.fault
        return frozenset(runs), fault

    def _hear(self) -> None:
        if self.process is None:
            return
        status = self.process.poll()
        with contextlib.suppress(OSError, ValueError):
            while chunk := os.read(_pipe(self.process.stdout).fileno(), 1 << 16):
                self._rest += chunk
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            with contextlib.suppress(MessageError):
                self._changes.append(decode(line, Others))
        if status is not None and self._fault is None:
            said = self._changes[-1].fault if self._changes else None
            self._fault = said or f"the look-out for them ended (exit status {status})"

    def end(self, *, kept: bool = False) -> None:
        """End it; where the scratch directory is kept, it takes its marker away first.

        One that hangs on a file system is left behind.
        """
        process, self.process = self.process, None
        if process is None:
            return
        with contextlib.suppress(OSError):
            _pipe(process.stdin).close()
        if not kept:
            process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GONE_S)
        if process.returncode is None:
            process.kill()
        _pipe(process.stdout).close()


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise RuntimeError("the heartbeat was started without its pipes")
    return pipe
