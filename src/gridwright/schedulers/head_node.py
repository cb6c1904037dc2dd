"""The head node of a grid: where its scheduler's commands run, and where its nodes can call back."""

from __future__ import annotations

import pwd
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

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
