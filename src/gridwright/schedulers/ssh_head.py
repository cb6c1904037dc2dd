"""A head node that is reached by ssh, as that of a cloud, and nodes that are reached through it."""

from __future__ import annotations

import atexit
import contextlib
import os
import shlex
import shutil
import socket
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from gridwright.commands import CommandOutput, run_bounded
from gridwright.errors import GridwrightError
from gridwright.schedulers.head_node import HeadNodeUnreachable

CONNECT_S = 10
UNREACHABLE = 255
"""Exit status of ssh where it could not connect (ssh(1), EXIT STATUS)."""
_KEEP_S = 60
"""For the shared connection to outlive its last user, where this process is killed."""
_LEAVE_S = 5.0
_LONGEST_PLACE = 56
"""Bytes of the path of the temporary directory: that of a socket has at most 107 (unix(7)), of which our
names take 31, and ssh 17 more while it makes the socket."""
_SENT = ("LC_", "LANG", "SLURM_CONF", "TZ")
_OPTIONS = (
    "-oBatchMode=yes",
    f"-oConnectTimeout={CONNECT_S}",
    "-oServerAliveInterval=10",
    # A machine of a cloud is new: its key is learnt at the first connection, and a change of it refused.
    "-oStrictHostKeyChecking=accept-new",
)


class SshHead:
    """See HeadNode. What the user's own ssh is set up with holds: keys, an agent, ~/.ssh/config."""

    nodes_share_python = False
    sees_state = False

    def __init__(
        self, name: str, address: str, *, through: str | None = None, user: str | None = None
    ) -> None:
        """`address` is where ssh finds the machine called `name`; `through` is the login node before it.

        Nodes are reached through the login node, or where there is none through the head node, by the names
        that they have there. `user` logs in everywhere; by default whoever ssh takes.
        """
        self.name = name
        self._address = address
        self._through = through
        self._user = user
        self._shared: Path | None = None
        self._connected = False

    def run(
        self,
        command: Sequence[str],
        *,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        timeout_s: float = 30.0,
    ) -> CommandOutput:
        """Run a command there, with the environment of a login; see HeadNode.

        Of `environment` only what its output depends on goes with it: the rest is not for other machines.
        Raises GridwrightError also where ssh does not get there.
        """
        kept = [f"{name}={value}" for name, value in (environment or {}).items() if name.startswith(_SENT)]
        words = ["env", *kept, *command] if kept else list(command)
        self._connect()
        answer = run_bounded(self.argv(words), stdin=stdin, timeout_s=timeout_s + CONNECT_S)
        return self._check(answer, self.name)

    def argv(self, command: Sequence[str]) -> list[str]:
        """The ssh that runs a command there from here."""
        return ["ssh", *self._options(self._through), "--", self._address, shlex.join(command)]

    def ssh(self, words: Sequence[str], port: int | None = None) -> list[str]:
        """The ssh that reaches nodes through the login node, with a way back to a port of this machine."""
        self._connect()
        back = [] if port is None else ["-oExitOnForwardFailure=yes", "-R", f"{port}:127.0.0.1:{port}"]
        return ["ssh", *self._options(self._through or self._address), *back, *words]

    def listen(self) -> tuple[socket.socket, str]:
        """Listen on this machine alone: each node has the port as its own, by the way back of its ssh."""
        return socket.create_server(("127.0.0.1", 0), backlog=1024), "127.0.0.1"

    def _options(self, through: str | None) -> list[str]:
        options = [*_OPTIONS, *([f"-oUser={self._user}"] if self._user else [])]
        if through is None:
            return [*options, *self._sharing()]
        # In place of -J, whose ssh has none of these options.
        jump = shlex.join(["ssh", *options, *self._sharing(), "-W", "[%h]:%p", "--", through])
        # Machines behind the first one have the same names in every grid, and new keys each time it is made:
        # their keys are learnt for this command alone.
        return [*options, f"-oUserKnownHostsFile={self._place()}/known_hosts", f"-oProxyCommand={jump}"]

    def _sharing(self) -> list[str]:
        """One connection to the first machine for all: sshd takes few new ones at a time (MaxStartups)."""
        return [
            "-oControlMaster=auto",
            f"-oControlPath={self._place()}/shared",
            f"-oControlPersist={_KEEP_S}",
        ]

    def _place(self) -> Path:
        """A directory of its own for the time of this command."""
        if self._shared is None:
            usual = tempfile.gettempdir()
            place = usual if len(os.fsencode(usual)) <= _LONGEST_PLACE else "/tmp"  # noqa: S108 - mkdtemp
            self._shared = Path(tempfile.mkdtemp(prefix="gridwright-ssh-", dir=place))
            atexit.register(self._part)
        return self._shared

    def _connect(self) -> None:
        """Make the shared connection, before many would. Raises GridwrightError where nobody answers."""
        if not self._connected:
            first = self._through or self._address
            command = ["ssh", *self._options(None), "--", first, "true"]
            # What stays of it keeps our pipes open.
            self._check(run_bounded(command, timeout_s=2.0 * CONNECT_S, leaves_daemon=True), first)
            self._connected = True

    def _check(self, answer: CommandOutput, machine: str) -> CommandOutput:
        """Raise GridwrightError where an ssh did not get there."""
        if answer.status == UNREACHABLE:
            said = answer.stderr.decode(errors="replace").strip().splitlines()
            raise HeadNodeUnreachable(
                f"ssh does not reach {machine}: {said[-1] if said else 'no message'}",
                self.name,
                f"try it by hand: ssh {f'{self._user}@' if self._user else ''}"
                f"{self._through or self._address}; the key has to be one that ssh finds, or in an agent",
            )
        return answer

    def _part(self) -> None:
        """End the shared connection, and take away its socket."""
        if self._shared is None:
            return
        leave = ["ssh", *self._options(None), "-O", "exit", "--", self._through or self._address]
        with contextlib.suppress(GridwrightError):
            run_bounded(leave, timeout_s=_LEAVE_S)
        shutil.rmtree(self._shared, ignore_errors=True)
