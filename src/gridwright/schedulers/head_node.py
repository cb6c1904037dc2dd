"""The head node of a grid: where its scheduler's commands run, and where its nodes can call back."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gridwright.errors import environment_error


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command on the head node left."""

    status: int
    """Exit status; 128 + n where signal n ended it."""
    stdout: bytes
    stderr: bytes


class HeadNode(Protocol):
    """How to reach the head node of a grid from here; each provider has its own.

    Failure contract. `run` returns whatever the command's exit status was; it raises GridwrightError (status
    ENVIRONMENT) where the command cannot be started, or has not ended in time: it is killed then.
    """

    name: str
    """Its host name."""

    def run(
        self,
        command: Sequence[str],
        *,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        timeout_s: float = 30.0,
    ) -> Answer:
        """Run a command there; `environment` is all of its environment, by default that of this process."""

    def argv(self, command: Sequence[str]) -> list[str]:
        """The command line that runs a command there from here: for a process that stays."""

    def listen(self) -> tuple[socket.socket, str]:
        """A TCP socket that listens there, and the address that nodes reach it at."""


class ThisMachine:
    """The machine that Gridwright runs on is the head node, as for provider local."""

    name = socket.gethostname()

    def run(
        self,
        command: Sequence[str],
        *,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        timeout_s: float = 30.0,
    ) -> Answer:
        """Run a command; see HeadNode."""
        return run_bounded(command, stdin=stdin, environment=environment, timeout_s=timeout_s)

    def argv(self, command: Sequence[str]) -> list[str]:
        """The command itself."""
        return list(command)

    def listen(self) -> tuple[socket.socket, str]:
        """Listen where the nodes are: on all addresses, since the barrier has a secret of its own."""
        listener = socket.create_server(("", 0), backlog=1024)
        return listener, socket.gethostname()


def run_bounded(
    command: Sequence[str],
    *,
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
    timeout_s: float = 30.0,
) -> Answer:
    """Run a command with a limit of time. Raises GridwrightError; see HeadNode."""
    try:
        done = subprocess.run(
            list(command),
            input=stdin,
            capture_output=True,
            env=None if environment is None else dict(environment),
            timeout=timeout_s,
            check=False,
        )
    except OSError as error:
        raise environment_error(
            f"{command[0]} cannot be started: {error.strerror}",
            where=ThisMachine.name,
            remedy=f"install what {command[0]} belongs to, or correct PATH",
        ) from error
    except subprocess.TimeoutExpired as error:
        raise environment_error(
            f"{command[0]} has not answered for {timeout_s:.0f} s",
            where=ThisMachine.name,
            remedy="see whether its service runs",
        ) from error
    status = done.returncode if done.returncode >= 0 else 128 - done.returncode
    return Answer(status, done.stdout, done.stderr)
