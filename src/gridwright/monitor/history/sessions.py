"""Programs that stay on nodes and answer question after question: a connection costs more than an answer."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from gridwright.commands import CommandOutput

MOST_SESSIONS = 200
"""Three files each: more than a process may have open by default are not tried."""
_MOST_BYTES = 1 << 27
_MOST_COMPLAINTS = 4096
_DEATH_S = 0.5

Commands = Callable[[Collection[str]], Mapping[str, Sequence[str]]]


@dataclass(slots=True)
class _Session:
    """The program of one node."""

    process: subprocess.Popen[bytes]
    said: bytearray = field(default_factory=bytearray)
    complaints: bytearray = field(default_factory=bytearray)


class NodeSessions:
    """Sessions by the name of their node; `commands` are asked for when one has to be started.

    One question at a time: others wait.
    """

    def __init__(self, commands: Commands, start_s: float, answer_s: float) -> None:
        """Begin none yet. `start_s` is for a program that has to start, `answer_s` for one that is there."""
        self._commands = commands
        self._start_s = start_s
        self._answer_s = answer_s
        self._sessions: dict[str, _Session] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all programs; those that hang are left behind."""
        with self._lock:
            for name in list(self._sessions):
                self._end(name)

    def ask(self, names: Collection[str], stdin: bytes) -> Mapping[str, CommandOutput | None]:
        """The answer of each node to one line, as `Grid.ask` gives it; None from one that is late.

        Raises GridwrightError (status ENVIRONMENT) where the grid is not up.
        """
        with self._lock:
            limit_s = self._answer_s if self._sessions.keys() >= set(names) else self._start_s
            found = self._started(names)
            with selectors.DefaultSelector() as selector:
                for name in [each for each in names if each not in found]:
                    process = self._sessions[name].process
                    with contextlib.suppress(OSError):
                        # Its end is read below, with what it said of it.
                        os.write(process.stdin.fileno(), stdin)  # type: ignore[union-attr]
                    for pipe in (process.stdout, process.stderr):
                        selector.register(pipe, selectors.EVENT_READ, name)  # type: ignore[arg-type]
                self._listen(selector, found, len(names), time.monotonic() + limit_s)
            for name in names:
                if name not in found:
                    # What it says later would be taken for the answer to another question.
                    self._end(name)
                    found[name] = None
            return found

    def _started(self, names: Collection[str]) -> dict[str, CommandOutput | None]:
        """Have a session with each; the answers of those that none can be started of."""
        found: dict[str, CommandOutput | None] = {}
        lacking = [name for name in names if name not in self._sessions]
        for name, command in (self._commands(lacking) if lacking else {}).items():
            try:
                process = subprocess.Popen(
                    list(command),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                )
            except OSError as error:
                found[name] = CommandOutput(1, b"", str(error).encode())
                continue
            for pipe in (process.stdin, process.stdout, process.stderr):
                os.set_blocking(pipe.fileno(), False)  # type: ignore[union-attr]
            self._sessions[name] = _Session(process)
        return found

    def _listen(
        self,
        selector: selectors.BaseSelector,
        found: dict[str, CommandOutput | None],
        wanted: int,
        deadline: float,
    ) -> None:
        while len(found) < wanted and (left := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                name, session = key.data, self._sessions.get(key.data)
                if session is None:
                    # It has ended, and both of its pipes were ready.
                    continue
                if key.fileobj is session.process.stderr:
                    if not _read(key.fd, session.complaints):
                        selector.unregister(key.fileobj)
                    del session.complaints[:-_MOST_COMPLAINTS]
                elif not _read(key.fd, session.said) or len(session.said) > _MOST_BYTES:
                    found[name] = self._end(name, selector)
                elif session.said.endswith(b"\n"):
                    found[name] = CommandOutput(0, bytes(session.said), b"")
                    session.said.clear()
                    selector.unregister(key.fileobj)

    def _end(self, name: str, selector: selectors.BaseSelector | None = None) -> CommandOutput:
        """End a session; how it ended, and what it said of that."""
        session = self._sessions.pop(name)
        process = session.process
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_DEATH_S if selector else 0.0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_DEATH_S)
        _read(process.stderr.fileno(), session.complaints)  # type: ignore[union-attr]
        for pipe in (process.stdin, process.stdout, process.stderr):
            if selector is not None and pipe in selector.get_map():
                selector.unregister(pipe)  # type: ignore[arg-type]
            pipe.close()  # type: ignore[union-attr]
        return CommandOutput(process.returncode or 3, b"", bytes(session.complaints))


def _read(fd: int, into: bytearray) -> bool:
    """Read what is there; False at the end."""
    try:
        chunk = os.read(fd, 1 << 16)
    except BlockingIOError:
        return True
    except OSError:
        return False
    into += chunk
    return bool(chunk)
