"""Commands of tests as forks of an interpreter that has imported what all of them import."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import BinaryIO

AT_START = (
    "FORCE_COLOR",
    "GITHUB_ACTIONS",
    "LANG",
    "LC_",
    "LD_",
    "NO_COLOR",
    "PYDANTIC",
    "PYTHON",
    "PY_COLORS",
    "TERM",
    "TYPER",
    "TZ",
    "_TYPER",
)
"""So begin variables that are read while an interpreter starts and imports; others a fork reads anew."""
LONGEST = 100_000
"""Characters of all variables that go into one request."""
_SERVER = Path(__file__).with_name("command_server.py")
_ANSWER_S = 240.0


class Forked:
    """A command that a server has forked; what `Popen` has of a process, as far as tests need it."""

    def __init__(self, pid: int, status: int, words: Sequence[str]) -> None:
        self.pid = pid
        self.args = words
        self.returncode: int | None = None
        self._status = status

    def poll(self) -> int | None:
        """How it ended; None while it runs."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end. Raises TimeoutExpired."""
        if (ended := self._look(timeout)) is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return ended

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal, where it still runs."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)

    def _look(self, timeout: float | None) -> int | None:
        # Not select(2): a process of many tests has descriptors beyond its 1,024.
        status = select.poll()
        status.register(self._status, select.POLLIN)
        if self.returncode is None and status.poll(None if timeout is None else timeout * 1000):
            said = os.read(self._status, 64)
            os.close(self._status)
            # A test that kills all children of its own kills the server with what it has forked.
            self.returncode = int(said) if said else -signal.SIGKILL
        return self.returncode


class Forks:
    """The server of this process, and what it can start."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begin()
        atexit.register(self._end)

    def _begin(self) -> None:
        self._environment = dict(os.environ)
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            theirs.set_inheritable(True)
            self._process = subprocess.Popen(
                [sys.executable, "-P", _SERVER, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        self._requests.settimeout(_ANSWER_S)

    def can_have(self, environment: Mapping[str, str]) -> bool:
        """Whether a fork is like a command that is started with this environment."""
        length = sum(len(name) + len(value) for name, value in environment.items())
        return length < LONGEST and _at_start(environment) == _at_start(self._environment)

    def start(
        self, words: Sequence[str], directory: Path, environment: Mapping[str, str], files: Sequence[BinaryIO]
    ) -> Forked:
        """Start a command with stdin, stdout and stderr."""
        umask = os.umask(0)
        os.umask(umask)
        request = {
            "arguments": list(words),
            "directory": str(directory),
            "environment": dict(environment),
            "umask": umask,
        }
        said = json.dumps(request).encode()
        ours, theirs = os.pipe()
        try:
            given = [*(file.fileno() for file in files), theirs]
            with self._lock:
                return Forked(self._ask(said, given) or self._ask_another(said, given), ours, words)
        finally:
            os.close(theirs)

    def _ask(self, said: bytes, given: Sequence[int]) -> int | None:
        """Have the server fork a command; None where it is gone: tests kill all children of theirs."""
        try:
            socket.send_fds(self._requests, [said], given)
            return int(self._requests.recv(64) or 0) or None
        except (BrokenPipeError, ConnectionResetError):
            return None

    def _ask_another(self, said: bytes, given: Sequence[int]) -> int:
        self._end()
        self._begin()
        pid = self._ask(said, given)
        assert pid is not None, "the server of commands does not start"
        return pid

    def _end(self) -> None:
        self._requests.close()
        self._process.wait(_ANSWER_S)


def _at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(AT_START)}


@cache
def forks() -> Forks:
    """The server of this process; the first caller starts it."""
    return Forks()
