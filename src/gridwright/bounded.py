"""Looks at what may hang, such as a dead mount, in a child process with a limit of time."""

from __future__ import annotations

import contextlib
import errno
import os
import pickle
import select
import signal
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

RELIEF_S = 0.3
"""A look takes milliseconds where nothing hangs; locks on a busy file system take a tenth of a second."""
_HEAD = struct.Struct(">I")
_LONGEST = 3
"""A look that is at work, and not held up by what it looks at, may take so many times its limit."""
_DEATH_S = 0.5
"""How long killed processes take to end at most, where no mount holds them."""
T = TypeVar("T")
Looker = Callable[[], object]
"""Looks at something and returns what it sees; may raise OSError, and may hang."""


class Hangs(Exception):
    """The look had not ended in time; what it touched does not answer."""


def call_bounded(what: Callable[[], T], seconds: float) -> T:
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
    """Call functions in child processes, each within `seconds`; `longer` has exceptions.

    One that is at work by then, as on a busy machine, may take three times as long.
    One child calls them one after the other: a fork takes longer than most looks do. What has not ended after
    RELIEF_S does not hold up the others: two more children call these, each a half. So all ends soon after
    `seconds`, however many hang.
    What each returns, by name; a Hangs or an OSError in the place of what could not be looked at.
    """
    limits = dict.fromkeys(what, seconds) | (dict(longer or {}))
    round_ = _Looks(what, limits)
    try:
        round_.begin(list(what))
        round_.read_all()
    finally:
        round_.end_all()
    return {name: round_.seen.get(name, Hangs(f"no answer for {limits[name]:.0f} s")) for name in what}


@dataclass(slots=True)
class _Child:
    pid: int
    pipe: int
    names: list[str]
    """What it looks at now, and has to look at after that."""
    since: float
    """When it began with the first of these, by time.monotonic()."""
    relief: int
    """The pipe by which it learns that others look at the rest."""
    granted_s: float = 0.0
    """What it got beyond the limit of what it looks at now."""
    is_relieved: bool = False
    said: bytearray = field(default_factory=bytearray)

    def answers(self) -> Iterator[object]:
        """What it has said and is whole, in the order of `names`."""
        while len(self.said) >= _HEAD.size:
            (length,) = _HEAD.unpack_from(self.said)
            if len(self.said) < _HEAD.size + length:
                return
            whole = bytes(self.said[_HEAD.size : _HEAD.size + length])
            del self.said[: _HEAD.size + length]
            yield pickle.loads(whole)  # noqa: S301 - by this program, a moment ago


class _Looks:
    """Children that look, what they have seen, and who takes over from one that is held up."""

    def __init__(self, what: Mapping[str, Looker], limits: Mapping[str, float]) -> None:
        self.seen: dict[str, Any] = {}
        self._what = what
        self._limits = limits
        self._poll = select.poll()
        self._waiting: dict[int, _Child] = {}
        self._children: list[_Child] = []

    def begin(self, names: list[str]) -> None:
        """Have a child look at these, one after the other."""
        if not names:
            return
        read, write = os.pipe2(os.O_CLOEXEC)
        relieved, relief = os.pipe2(os.O_CLOEXEC)
        pid = os.fork()
        if pid == 0:
            _answer([self._what[name] for name in names], write, relieved)
        os.close(write)
        os.close(relieved)
        child = _Child(pid, read, names, time.monotonic(), relief)
        self._children.append(child)
        self._waiting[read] = child
        self._poll.register(read, select.POLLIN)

    def read_all(self) -> None:
        """Hear all children out, and relieve those that are held up."""
        while self._waiting:
            left = min(map(self._due, self._waiting.values())) - time.monotonic()
            for pipe, _ in self._poll.poll(max(0.0, left) * 1000):
                self._hear(self._waiting[pipe])
            for child in list(self._waiting.values()):
                if time.monotonic() >= self._due(child):
                    self._hold_up(child)

    def _due(self, child: _Child) -> float:
        """When something is to be done about a child that says nothing more."""
        limit = self._limits[child.names[0]]
        return child.since + (min(RELIEF_S, limit) if len(child.names) > 1 else limit + child.granted_s)

    def _hear(self, child: _Child) -> None:
        chunk = os.read(child.pipe, 1 << 16)
        child.said += chunk
        for answer in child.answers():
            self.seen[child.names.pop(0)] = answer
            child.since, child.granted_s = time.monotonic(), 0.0
            if not child.names:
                break
        if not chunk or not child.names:
            self._forget(child)
            # It died of what it looked at; the rest is another's.
            self.begin(child.names[1:])

    def _hold_up(self, child: _Child) -> None:
        """Give up what a child looks at, or leave it to that and have others look at the rest."""
        first, *rest = child.names
        limit = self._limits[first]
        if time.monotonic() >= child.since + limit + child.granted_s:
            if child.granted_s < (_LONGEST - 1) * limit and _is_at_work(child.pid):
                # A machine that is busy is no mount that hangs.
                child.granted_s += limit / 4
            else:
                self._forget(child)
        child.names, child.is_relieved = [first], True
        with contextlib.suppress(BrokenPipeError):
            os.write(child.relief, b".")
        half = (len(rest) + 1) // 2
        self.begin(rest[:half])
        self.begin(rest[half:])

    def _forget(self, child: _Child) -> None:
        self._poll.unregister(child.pipe)
        del self._waiting[child.pipe]

    def end_all(self) -> None:
        """Kill the children and reap them, unless they hang in the kernel."""
        deadline = time.monotonic() + _DEATH_S
        for child in self._children:
            os.close(child.pipe)
            os.close(child.relief)
            if child.is_relieved and not child.names:
                # It had begun with what others look at, and may be about to take away a file.
                _wait(child, deadline)
            os.kill(child.pid, signal.SIGKILL)
        deadline = time.monotonic() + _DEATH_S
        for child in self._children:
            _wait(child, deadline)
            os.waitpid(child.pid, os.WNOHANG)


def _is_at_work(pid: int) -> bool:
    """Whether a process runs, or waits for a processor: state R of proc_pid_stat(5)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "R"
    except OSError:
        return False


def _wait(child: _Child, deadline: float) -> None:
    """Wait until a child has ended, or the time is up."""
    handle = os.pidfd_open(child.pid)
    try:
        select.select([handle], [], [], max(0.0, deadline - time.monotonic()))
    finally:
        os.close(handle)


def _answer(looks: Sequence[Looker], pipe: int, relieved: int) -> None:
    """In the child: answer and end, whatever happens; after a look that took long, others do the rest."""
    try:
        _let_go()
        for what in looks:
            if select.select([relieved], [], [], 0)[0]:
                break
            said = _complaint(what)
            data = memoryview(_HEAD.pack(len(said)) + said)
            while data:
                data = data[os.write(pipe, data) :]
    finally:
        os._exit(0)


def _complaint(what: Looker) -> bytes:
    """What a look saw, or how it failed."""
    try:
        return pickle.dumps(what())
    except OSError as error:
        return pickle.dumps(OSError(error.errno, error.strerror, error.filename))
    except Exception as error:
        # A fault of ours must not be told as a mount that hangs.
        return pickle.dumps(OSError(errno.EIO, f"{type(error).__name__}: {error}"))


def _let_go() -> None:
    """Drop the streams of the parent: ssh ends with the last process that holds them, and this may hang."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
