"""The head node of a grid: where its scheduler's commands run, and where its nodes can call back.

Commands are quoted for any login shell; patience with a scheduler that does not answer has an end.
"""

from __future__ import annotations

import pwd
import shlex
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol

from gridwright.commands import CommandOutput, CommandPlace, run_bounded
from gridwright.errors import ExitStatus, GridwrightError, Problem, input_error
from gridwright.services.connections import Listener, listen_on
from gridwright.trusted import untrusted, why_untrusted_path


class HeadNodeUnreachable(GridwrightError):
    """The head node cannot be reached (status ENVIRONMENT); its services are not at fault."""

    def __init__(self, what: str, where: str, remedy: str) -> None:
        super().__init__(Problem(what, where, remedy=remedy), status=ExitStatus.ENVIRONMENT)


class HeadNode(Protocol):
    """How to reach the head node of a grid from here; each provider has its own.

    Failure contract. `run` returns whatever the command's exit status was; it raises CommandError where
    the command cannot be started, or has not ended in time: it is killed then. What is elsewhere raises
    HeadNodeUnreachable where it cannot be reached.
    """

    nodes_share_python: bool
    """Whether nodes have this very Python and Gridwright, at the same paths."""
    sees_state: bool
    """Whether the grid's state directory is at its path here, too, so that jobs can be submitted."""

    @property
    def name(self) -> str:
        """Its host name; of the machine that has taken over for it, where one has."""

    def run(
        self,
        command: Sequence[str],
        *,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        timeout_s: float = 30.0,
    ) -> CommandOutput:
        """Run a command there; `environment` is all of its environment, by default that of this process."""

    def argv(self, command: Sequence[str]) -> list[str]:
        """The command line that runs a command there from here: for a process that stays."""

    def ssh(self, words: Sequence[str], port: int | None = None) -> list[str]:
        """The command line of ssh, as it reaches nodes from here, with these options, node and words.

        `port` is one that `listen` gave: nodes reach it while this ssh runs.
        """

    def listen(self) -> tuple[Listener, str]:
        """A TCP socket that listens there, and the address that nodes reach it at."""


class LocalHeadNode:
    """The machine that Gridwright runs on is the head node, as for provider local."""

    name = socket.gethostname()
    nodes_share_python = False
    sees_state = True

    def run(
        self,
        command: Sequence[str],
        *,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        timeout_s: float = 30.0,
    ) -> CommandOutput:
        """Run a command; see HeadNode."""
        at = CommandPlace(where=self.name)
        return run_bounded(command, stdin=stdin, environment=environment, timeout_s=timeout_s, at=at)

    def argv(self, command: Sequence[str]) -> list[str]:
        """The command itself."""
        return list(command)

    def ssh(self, words: Sequence[str], port: int | None = None) -> list[str]:
        """The user's own ssh; nodes reach every port of this machine."""
        return ["ssh", *words]

    def listen(self) -> tuple[Listener, str]:
        """Listen where the nodes are: on all addresses, since the barrier has a secret of its own."""
        return listen_on(""), socket.gethostname()


def check_run(head: HeadNode, path: Path, instead: str, owner: str | None = None) -> None:
    """Refuse what a spec has run on this machine, its head node, where others could have written it.

    `owner` is an account that the spec believes, beside root and this user; `instead` is how to go on without
    naming the path. Raises GridwrightError: INPUT for an unknown account, and ENVIRONMENT, which names whose
    the path is.
    """
    if not isinstance(head, LocalHeadNode):
        return
    try:
        owners = () if owner is None else (pwd.getpwnam(owner).pw_uid,)
    except KeyError:
        raise input_error(
            f"this machine has no account {owner}",
            where="scheduler.owner",
            remedy="correct it, or leave it out",
        ) from None
    if reason := why_untrusted_path(path, owners=owners):
        remedy = (
            "let root or you own it with all that is above it, for no other to write; where an account of "
            f"the scheduler's owns it, owner: NAME beside it in the spec; or {instead}"
        )
        raise untrusted(path, f"the spec has it run, and {reason}", remedy)


_READS = 'eval "$(printf %b "$0")"'
# Within single quotes csh reads an exclamation mark and the end of a line its own way, fish a backslash.
_READ_OTHERWISE = "\\\n!"
_CODES = str.maketrans({char: f"\\0{ord(char):03o}" for char in f"{_READ_OTHERWISE}'"})


def for_remote_shell(command: Sequence[str]) -> str:
    """One text that every login shell reads as these words."""
    text = shlex.join(command)
    if not any(char in text for char in _READ_OTHERWISE):
        return text
    return shlex.join(["sh", "-c", _READS, text.translate(_CODES)])


PATIENCE_S = 600.0
"""A scheduler that has not answered for so long is given up: a restart of its machine takes less."""
_STOPPED_S = 60.0
"""Who did not ask for so long was stopped itself, and can blame nobody for that time."""
Tell = Callable[[Literal["warning", "info"], str, str], None]
"""Hears how bad it is, what is to be told, and what to do about it."""


class Silence:
    """How long a scheduler has been silent, and why; time is that of time.monotonic().

    It holds for every cause that may pass: a head node that is off or out of reach, a daemon that does not
    answer. The error says which of these it is.
    """

    def __init__(
        self,
        tell: Tell,
        *,
        meanwhile: str,
        patience_s: float = PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`meanwhile` says what the silence does not hold up, such as "what runs goes on"."""
        self._tell = tell
        self._meanwhile = meanwhile
        self._patience_s = patience_s
        self._clock = clock
        self._since: float | None = None
        self._last = 0.0
        self._told = ""
        self._error: GridwrightError | None = None

    @property
    def for_s(self) -> float:
        """Seconds since the first question that was not answered; 0 while all are."""
        return 0.0 if self._since is None else self._clock() - self._since

    def answered(self) -> None:
        """It answers; said where its silence was told."""
        if self._told:
            self._tell(
                "info", f"the scheduler answers again, after {self.for_s:.0f} s", "nothing is to be done"
            )
        self._since, self._told, self._error = None, "", None

    def unanswered(self, error: GridwrightError, asked: float) -> None:
        """A question asked at this time had no answer. Raises `error` where it is none of silence.

        Raises GridwrightError (ENVIRONMENT) where the silence has lasted for too long.
        """
        if error.status != ExitStatus.ENVIRONMENT:
            raise error
        if self._since is None or asked - self._last > _STOPPED_S:
            self._since = asked
        self._last, self._error = self._clock(), error
        self.check()
        side = which_side(error)
        if side != self._told:
            self._told = side
            first = error.problems[0]
            self._tell(
                "warning",
                f"the scheduler did not answer: {side}: {first.what}; it is asked again for "
                f"{_minutes(self._patience_s - self.for_s)}, and {self._meanwhile}",
                first.remedy or "see whether its service runs",
            )

    def check(self) -> None:
        """Raise GridwrightError where it has been silent for too long, also while a question is open."""
        if self._error is None or self.for_s <= self._patience_s:
            return
        first = self._error.problems[0]
        raise GridwrightError(
            Problem(
                what=f"the scheduler has not answered for {_minutes(self.for_s)}: {first.what}",
                where=first.where,
                remedy=first.remedy,
            ),
            status=ExitStatus.ENVIRONMENT,
        ) from self._error


def which_side(error: GridwrightError) -> str:
    """Who is silent, in words: the machine of the scheduler, or the scheduler on it."""
    where = error.problems[0].where
    if isinstance(error, HeadNodeUnreachable):
        return f"its machine {where} is away" if where else "its machine is away"
    return f"its machine {where} is there, its service is silent" if where else "its service is silent"


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds >= 90 else f"{max(0.0, seconds):.0f} s"
