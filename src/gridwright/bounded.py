"""Looks at what may hang, such as a dead mount, in a child process with a limit of time."""

from __future__ import annotations

import errno
import os
import pickle
import select
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

_DEATH_S = 0.5
"""How long killed processes take to end at most, where no mount holds them."""
T = TypeVar("T")
Looker = Callable[[], object]
"""Looks at something and returns what it sees; may raise OSError, and may hang."""


class Hangs(Exception):
    """The look had not ended in time; what it touched does not answer."""


def look(what: Callable[[], T], seconds: float) -> T:
    """Call a function in a child process and return what it returns.

    Raises Hangs, and OSError as the function raised it, or in the place of what else it raised. A child that
    hangs in the kernel cannot be killed: it is left behind, and ends when the mount answers.
    """
    seen = look_at_all({"": what}, seconds)[""]
    if isinstance(seen, Exception):
        raise seen
    return cast("T", seen)


def look_at_all(
    what: Mapping[str, Looker], seconds: float, longer: Mapping[str, float] | None = None
) -> dict[str, Any]:
    """Call functions at the same time, each in a child of its own, within `seconds`; `longer` has exceptions.

    What each returns, by name; a Hangs or an OSError in the place of what could not be looked at.
    """
    limits = dict.fromkeys(what, seconds) | {
        name: limit for name, limit in (longer or {}).items() if name in what
    }
    children = {name: _start(each) for name, each in what.items()}
    # Where a fork takes long, as on some virtual machines, the first ones do not use up the time of the last.
    began = time.monotonic()
    for name, child in children.items():
        child.deadline = began + limits[name]
    try:
        _read_all({child.pipe: child for child in children.values()})
    finally:
        _end_all(list(children.values()))
    return {name: child.answer(limits[name]) for name, child in children.items()}


@dataclass(slots=True)
class _Child:
    pid: int
    pipe: int
    deadline: float = 0.0
    said: list[bytes] = field(default_factory=list)
    whole: bool = False

    def answer(self, seconds: float) -> Any:  # noqa: ANN401 - what was seen
        if not self.whole or not self.said:
            return Hangs(f"no answer for {seconds:.0f} s")
        return pickle.loads(b"".join(self.said))  # noqa: S301 - by this program, a moment ago


def _start(what: Looker) -> _Child:
    read, write = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        _answer(what, write)
    os.close(write)
    return _Child(pid, read)


def _answer(what: Looker, pipe: int) -> None:
    """In the child: answer and end, whatever happens."""
    try:
        _let_go()
        try:
            said = pickle.dumps(what())
        except OSError as error:
            said = pickle.dumps(OSError(error.errno, error.strerror, error.filename))
        except Exception as error:
            # A fault of ours must not be told as a mount that hangs.
            said = pickle.dumps(OSError(errno.EIO, f"{type(error).__name__}: {error}"))
        data = memoryview(said)
        while data:
            data = data[os.write(pipe, data) :]
    finally:
        os._exit(0)


def _let_go() -> None:
    """Drop the streams of the parent: ssh ends with the last process that holds them, and this may hang."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)


def _read_all(waiting: dict[int, _Child]) -> None:
    poll = select.poll()
    for pipe in waiting:
        poll.register(pipe, select.POLLIN)
    while waiting:
        left = min(child.deadline for child in waiting.values()) - time.monotonic()
        for pipe, _ in poll.poll(max(0.0, left) * 1000):
            child = waiting[pipe]
            if chunk := os.read(pipe, 1 << 16):
                child.said.append(chunk)
            else:
                child.whole = True
                _forget(poll, waiting, pipe)
        for pipe, child in list(waiting.items()):
            if time.monotonic() >= child.deadline:
                _forget(poll, waiting, pipe)


def _forget(poll: select.poll, waiting: dict[int, _Child], pipe: int) -> None:
    poll.unregister(pipe)
    del waiting[pipe]


def _end_all(children: list[_Child]) -> None:
    """Kill the children and reap them, unless they hang in the kernel."""
    for child in children:
        os.close(child.pipe)
        os.kill(child.pid, signal.SIGKILL)
    deadline = time.monotonic() + _DEATH_S
    for child in children:
        handle = os.pidfd_open(child.pid)
        try:
            select.select([handle], [], [], max(0.0, deadline - time.monotonic()))
        finally:
            os.close(handle)
        os.waitpid(child.pid, os.WNOHANG)
