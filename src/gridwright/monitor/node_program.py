"""Samples the node that it runs on: `python -m gridwright.monitor.node_program` reads a request.

Request (one line of JSON on stdin): a `Request`. Answer: a `Snapshot` on each line of stdout. Nothing is
changed. Where no number of samples is asked for, it ends with its input.

A child samples, and hands the lines over: a process one of whose threads hangs on a mount cannot end, and who
asked, or ssh, would wait for it. The child is left behind then, and ends when the mount answers.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import sys
import time
from typing import NoReturn

from gridwright.messages import MessageError, decode
from gridwright.monitor.readings import Request
from gridwright.monitor.sampler import Sampler

_CHUNK = 1 << 20
"""What a pipe may hold unless root allows more: pipe-max-size of pipe(7)."""
_SET_PIPE_SIZE = 1031
"""F_SETPIPE_SZ, which Python knows from 3.10 on."""


def main() -> int:
    """Answer the request on stdin."""
    try:
        request = decode(sys.stdin.buffer.readline(), Request)
    except MessageError as error:
        print(f"the request cannot be read: {error}", file=sys.stderr)  # noqa: T201 - for who asked
        return 2
    lines, write = os.pipe()
    with contextlib.suppress(OSError):
        # A line may be long: both of them are woken once for it.
        fcntl.fcntl(write, _SET_PIPE_SIZE, _CHUNK)
    child = os.fork()
    if child == 0:
        os.close(lines)
        _sample(request, write)
    os.close(write)
    try:
        return _hand_over(request, lines)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, os.WNOHANG)


def _hand_over(request: Request, lines: int) -> int:
    """Copy as many lines as are asked for, or until the input ends or nobody reads; the exit status."""
    forever, count = request.samples == 0, 0
    waiting = select.poll()
    waiting.register(lines, select.POLLIN)
    # Without events, it is told when the other end is closed (poll(2)).
    waiting.register(1, 0)
    if forever:
        waiting.register(0, select.POLLIN)
    while forever or count < request.samples:
        if {0, 1} & {fd for fd, _ in waiting.poll()}:
            return 0
        chunk = os.read(lines, _CHUNK)
        if not chunk:
            print("the sampler has ended", file=sys.stderr)  # noqa: T201 - for who asked
            return 3
        count += chunk.count(b"\n")
        _write(1, chunk)
    return 0


def _sample(request: Request, to: int) -> NoReturn:
    """In the child: sample until that is enough, or nobody reads it any more."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    try:
        sampler, due, taken = Sampler(request.directories, brief=request.samples > 0), time.monotonic(), 0
        while True:
            _write(to, sampler.line() + b"\n")
            taken += 1
            if taken == request.samples:
                break
            due = max(due + request.interval_s, time.monotonic())
            if _reader_gone(to, until=due):
                break
    finally:
        os._exit(0)


def _reader_gone(pipe: int, *, until: float) -> bool:
    """Wait until a time; whether the other end of a pipe was closed before that."""
    waiting = select.poll()
    waiting.register(pipe, 0)
    return bool(waiting.poll(max(0.0, until - time.monotonic()) * 1000))


def _write(to: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(to, left) :]


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        sys.exit(main())
    sys.exit(1)
