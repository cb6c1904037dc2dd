"""Samplers that run on nodes for as long as they are watched: one program on each, started once."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from gridwright.messages import MessageError, decode, encode
from gridwright.monitor.frame import Frame, frame_of
from gridwright.monitor.libraries import WatchedLibrary
from gridwright.monitor.readings import NodeSamples, Request, Snapshot
from gridwright.monitor.recording import Recorder

START_S = 15.0
"""How long a node may take to start its sampler before it counts as away."""
LATE_S = 5.0
"""How late a sample may be, beyond the time between two of them."""
AGAIN_S = 60.0
"""A sampler that ended is started again at most this often."""
_MOST_BYTES = 1 << 24
"""Of one sample: a node of 1000 targets and 1000 jobs has about 2 MB."""
_MOST_COMPLAINTS = 4096
_DEATH_S = 0.5
_STARTS = "its sampler starts"


@dataclass(slots=True)
class _Stream:
    """The sampler of one node."""

    process: subprocess.Popen[bytes] | None
    began: float
    said: bytearray = field(default_factory=bytearray)
    complaints: bytearray = field(default_factory=bytearray)
    before: Snapshot | None = None
    after: Snapshot | None = None
    known: Snapshot | None = None
    """The last sample of the sampler before this one."""
    heard: float = 0.0
    """When its last sample came, by time.monotonic()."""
    wrong: str = ""


class NodeStreams:
    """Samplers of nodes by name, each with the command that runs it there."""

    def __init__(self, commands: Mapping[str, Sequence[str]], request: Request) -> None:
        self._commands = commands
        self._interval_s = request.interval_s
        self._request = encode(request) + b"\n"
        self._streams = {name: self._start(name) for name in commands}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def read(self) -> list[NodeSamples]:
        """The last two samples of each node, by now; waits for nothing."""
        for name, stream in self._streams.items():
            self._hear(stream)
            ended = stream.process is None or stream.process.poll() is not None
            if ended and time.monotonic() - stream.began >= AGAIN_S:
                _end(stream)
                self._streams[name] = self._start(name)
                self._streams[name].known = stream.after or stream.known
        return [self._samples(name, stream) for name, stream in self._streams.items()]

    def close(self) -> None:
        """End all samplers; those that hang are left behind."""
        for stream in self._streams.values():
            _end(stream)

    def _start(self, name: str) -> _Stream:
        now = time.monotonic()
        try:
            process = subprocess.Popen(
                list(self._commands[name]),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            return _Stream(None, now, wrong=error.strerror or str(error))
        for pipe in (process.stdout, process.stderr):
            os.set_blocking(pipe.fileno(), False)  # type: ignore[union-attr]
        with contextlib.suppress(OSError):
            # A pipe takes it whole, whether or not anybody reads it yet.
            os.write(process.stdin.fileno(), self._request)  # type: ignore[union-attr]
        return _Stream(process, now)

    def _hear(self, stream: _Stream) -> None:
        if stream.process is None:
            return
        stream.complaints += _read(stream.process.stderr.fileno())  # type: ignore[union-attr]
        del stream.complaints[:-_MOST_COMPLAINTS]
        stream.said += _read(stream.process.stdout.fileno())  # type: ignore[union-attr]
        *lines, rest = bytes(stream.said).split(b"\n")
        stream.said = bytearray(rest[:_MOST_BYTES])
        for line in lines:
            try:
                stream.before, stream.after = stream.after, decode(line, Snapshot)
                stream.heard = time.monotonic()
            except MessageError as error:
                stream.wrong = f"what it says cannot be read: {error}"

    def _samples(self, name: str, stream: _Stream) -> NodeSamples:
        now, known = time.monotonic(), stream.after or stream.known
        if stream.process is None or stream.process.poll() is not None:
            last = stream.complaints.decode(errors="replace").strip().splitlines()
            why = stream.wrong or (last[-1][:200] if last else "its sampler ended")
            return NodeSamples(name, absent=why, last_known=known)
        if stream.after is None:
            silent = now - stream.began
            why = _STARTS if silent < START_S else f"no answer for {silent:.0f} s"
            return NodeSamples(name, absent=why, last_known=known)
        if now - stream.heard > self._interval_s + LATE_S:
            return NodeSamples(name, absent=f"no answer for {now - stream.heard:.0f} s", last_known=known)
        if stream.before is None:
            return NodeSamples(name, absent=_STARTS)
        return NodeSamples(name, stream.before, stream.after)


class Watched:
    """Pictures of nodes as they are sampled, recorded where that is wanted."""

    def __init__(
        self,
        streams: NodeStreams,
        libraries: Sequence[WatchedLibrary],
        recorder: Recorder | None,
        servers: Collection[str] = (),
    ) -> None:
        self._servers = servers
        self._streams = streams
        self._libraries = libraries
        self._recorder = recorder
        self._last: list[NodeSamples] = []

    def close(self) -> None:
        """End the recording that goes on, where there is one."""
        if self._recorder is not None:
            self._recorder.close()
            self._recorder = None

    def record(self) -> str:
        """Begin a recording in a file of the working directory, or end the one that goes on.

        Raises GridwrightError (status ENVIRONMENT) where the file cannot be made.
        """
        if self._recorder is not None:
            path = self._recorder.path
            self.close()
            return f"{path} is complete"
        path = Path(datetime.now(UTC).strftime("gridwright-%Y%m%dT%H%M%SZ.top"))
        self._recorder = Recorder(path, self._libraries)
        return f"{path} is written"

    @property
    def state(self) -> str:
        """Whether it is recorded."""
        return "" if self._recorder is None else f"recording {self._recorder.path}"

    def next(self) -> Frame | None:
        """The picture of all samples by now; None where nothing is new, or nothing came yet.

        Raises GridwrightError (status ENVIRONMENT) where the recording cannot be written.
        """
        samples = self._streams.read()
        if samples == self._last or all(sample.absent == _STARTS for sample in samples):
            return None
        self._last = samples
        if self._recorder is not None:
            self._recorder.add(samples)
        return frame_of(samples, self._libraries, self._servers)


def _read(fd: int) -> bytes:
    """All that is there."""
    found = bytearray()
    with contextlib.suppress(BlockingIOError):
        while len(found) < _MOST_BYTES and (chunk := os.read(fd, 1 << 16)):
            found += chunk
    return bytes(found)


def _end(stream: _Stream) -> None:
    process = stream.process
    if process is None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_DEATH_S)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
