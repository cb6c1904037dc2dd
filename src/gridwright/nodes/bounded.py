"""Looking at what may hang, such as a dead mount: in a child, with a limit of time."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Callable
from typing import Any

_DEATH_S = 2.0
"""How long a killed process takes to end at most, where no mount holds it."""


class Hangs(Exception):
    """The look had not ended in time; what it touched does not answer."""


def look(what: Callable[[], Any], seconds: float) -> Any:  # noqa: ANN401 - any plain data
    """Call a function in a child process and return its plain data.

    Raises Hangs, and OSError as the function raised it. A child that hangs in the kernel cannot be killed: it
    is left behind, and ends when the mount answers.
    """
    read, write = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        _answer(what, write)
    os.close(write)
    try:
        answer = _read(read, time.monotonic() + seconds)
    finally:
        os.close(read)
        _end(child)
    if not answer:
        raise Hangs(f"no answer for {seconds:.0f} s")
    value, error = json.loads(answer)
    if error is not None:
        raise OSError(*error)
    return value


def _end(child: int) -> None:
    """Kill the child and bury it, unless it hangs in the kernel."""
    handle = os.pidfd_open(child)
    try:
        os.kill(child, signal.SIGKILL)
        select.select([handle], [], [], _DEATH_S)
    finally:
        os.close(handle)
    os.waitpid(child, os.WNOHANG)


def _answer(what: Callable[[], Any], pipe: int) -> None:
    """In the child: answer and end, whatever happens."""
    try:
        try:
            answer: tuple[Any, Any] = (what(), None)
        except OSError as error:
            answer = (None, (error.errno, error.strerror, error.filename))
        data = memoryview(json.dumps(answer).encode())
        while data:
            data = data[os.write(pipe, data) :]
    finally:
        os._exit(0)


def _read(pipe: int, deadline: float) -> bytes:
    chunks: list[bytes] = []
    while select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
        chunk = os.read(pipe, 1 << 16)
        if not chunk:
            return b"".join(chunks)
        chunks.append(chunk)
    return b""
