"""A head node that is reached by ssh, as that of a cloud, and nodes that are reached through it.

One ssh connection to a machine, shared by all that goes to it or through it while this process lives.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import selectors
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gridwright.beneath import remove_tree
from gridwright.commands import CommandOutput, run_bounded
from gridwright.own_directories import held_directory, state_home
from gridwright.schedulers.head_node import HeadNodeUnreachable, for_remote_shell
from gridwright.services.connections import Listener, listen_on

_REFUSED = "Host key verification failed"
_CHANGED = re.compile(r"has changed|differs from the key for the IP address")
"""ssh says it of a key that it knew another one of, and nothing like it at a first contact (sshconnect.c)."""
_REVOKED = "marked as revoked"
_LINE = re.compile(r"^Offending .*key (?:in|for IP in) (.+):(\d+)\s*$", re.MULTILINE)
_UNKNOWN = re.compile(r"^No \S+ host key is known for (\S+) and", re.MULTILINE)
_OPEN_KEY = re.compile(r"^Permissions (\S+) for '(.+)' are too open\.", re.MULTILINE)
_NO_REASON = re.compile(
    r"Warning: Permanently added |Disconnected from |Connection closed by UNKNOWN |Killed by signal |\*\* "
)
"""Lines that may be the last and tell no reason: a first contact that went well, and that it is over."""


def why_no_ssh(stderr: str) -> str:
    """The reason, on one line; empty where ssh said nothing."""
    if _REFUSED in stderr:
        return _of_host_key(stderr)
    if "Permission denied" in stderr and (key := _OPEN_KEY.search(stderr)):
        return f"it does not use the key {key[2]}, which others may read (mode {key[1]}): chmod 600 it"
    lines = [line for line in stderr.strip().splitlines() if line and not _NO_REASON.match(line)]
    return lines[-1].strip() if lines else ""


def _of_host_key(stderr: str) -> str:
    if _REVOKED in stderr:
        return "its host key is revoked (RevokedHostKeys of ssh_config): whoever answers is not to be trusted"
    if not _CHANGED.search(stderr):
        host = _UNKNOWN.search(stderr)
        by_hand = f"ssh {host[1] if host else 'HOST'}"
        return f"its host key is not known here: compare it with the machine's, then take it once: {by_hand}"
    line = _LINE.search(stderr)
    kept = f"; if it was replaced, remove line {line[2]} of {line[1]}" if line else ""
    return f"its host key is not the one that it had before: it may be another machine in its place{kept}"


@dataclass(frozen=True, slots=True)
class Passage:
    """A way through a gate, for a time."""

    user: str
    """Whom ssh logs in as at the gate."""
    host: str
    """Where the gate is."""
    target: str
    """The address behind it that this passage leads to, and no other."""
    port: int
    settles_until: float
    """By time.monotonic(): until then the gate may still refuse, as it has only just been told of it."""

    @property
    def words(self) -> tuple[str, ...]:
        """Options and address of an ssh that is connected with the port behind the gate."""
        # As words of their own, not as %h and %p: an ssh whose command this ends up in would fill those in.
        return ("-W", f"{self.target}:{self.port}", f"-oUser={self.user}", "--", self.host)


class SshGate(Protocol):
    """What gives passages. Whoever asks again gets the same one, as long as it lasts."""

    def passage(self) -> Passage:
        """One that lasts for a while still. Raises GridwrightError (ENVIRONMENT) where there is none."""

    def lost(self) -> None:
        """Hear that the last one leads nowhere: the next is looked for anew."""

    @property
    def advice(self) -> str:
        """What to do where ssh does not get through."""


OPEN_S = 20.0
"""For the machine to let us in: ssh tries to connect half as long."""
_LEAVE_S = 5.0
_OPEN = b"gridwright: connected"
_STAYS = ("sh", "-c", f"echo; echo '{_OPEN.decode()}'; exec cat >/dev/null")
"""Ends when its input does, which this process holds: even a killed one leaves no connection behind."""
_LONGEST_PLACE = 56
"""Bytes of the path of the temporary directory: that of a socket has at most 107 (unix(7)), of which our
names take 31, and ssh 17 more while it makes the socket."""


class SharedConnection:
    """See the module. It is opened again where it has ended, as by a network that was gone for a while.

    Without it, each ssh would connect by itself: sshd takes few new ones at a time (MaxStartups).
    """

    def __init__(self, ssh: Callable[[], Sequence[str]], machine: str) -> None:
        """`ssh` gives its command line with options, each time anew; `machine` is where it connects to."""
        self._ssh = ssh
        self._machine = machine
        self._made: Path | None = None
        self._held: int | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def place(self) -> Path:
        """A directory of its own for as long as this process lives."""
        if self._made is None:
            usual = tempfile.gettempdir()
            place = usual if len(os.fsencode(usual)) <= _LONGEST_PLACE else "/tmp"  # noqa: S108 - a random name in it
            # No hyphen before what is random: older releases hold none of theirs.
            self._made, self._held = held_directory("gridwright-ssh.", place)
            atexit.register(self.close)
        return self._made

    @property
    def options(self) -> list[str]:
        """Options of an ssh that takes it where it is there, and connects by itself where it is not."""
        return ["-oControlMaster=no", f"-oControlPath={self.place}/shared"]

    def open(self) -> str | None:
        """Have it open; returns in the words of ssh why it cannot be."""
        if self._process is not None and self._process.poll() is None:
            return None
        sharing = ["-oControlMaster=yes", f"-oControlPath={self.place}/shared", "-oControlPersist=no"]
        said = self.place / "said"
        # One that was killed leaves its socket, and ssh takes no path that is there.
        (self.place / "shared").unlink(missing_ok=True)
        try:
            with said.open("wb") as stderr:
                self._process = subprocess.Popen(
                    [*self._ssh(), *sharing, "--", self._machine, for_remote_shell(_STAYS)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    # A terminal's interrupt is for the command, which may still have to tell the grid.
                    start_new_session=True,
                )
        except OSError as error:
            return f"ssh cannot be started: {error.strerror}"
        if self._answers(self._process):
            return None
        status: int | None = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = self._process.wait(0.5)
        self._end(self._process)
        if status is None:
            return f"no answer within {OPEN_S:.0f} s"
        return said.read_text(errors="replace").strip() or f"it runs no command (exit status {status})"

    @staticmethod
    def _answers(process: subprocess.Popen[bytes]) -> bool:
        """Whether the other side says that it is connected, whatever a login prints before."""
        assert process.stdout is not None  # noqa: S101 - it was started with a pipe
        deadline = time.monotonic() + OPEN_S
        heard = b""
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while (left := deadline - time.monotonic()) > 0 and selector.select(left):
                chunk = os.read(process.stdout.fileno(), 1 << 16)
                heard += chunk
                if _OPEN in heard:
                    return True
                if not chunk:
                    return False
        return False

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        for order in (process.terminate, process.kill):
            order()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_LEAVE_S)
                break
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def close(self) -> None:
        """End it, and take away its directory."""
        if self._process is not None:
            self._end(self._process)
        if self._made is not None:
            remove_tree(self._made)
        if self._held is not None:
            os.close(self._held)
            self._held = None


CONNECT_S = 10
AGAIN_S = 5.0
"""Between two tries at a gate that has only just been told of a passage."""
UNREACHABLE = 255
"""Exit status of ssh where it could not connect (ssh(1), EXIT STATUS)."""
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
        self,
        name: str,
        address: str,
        *,
        through: str | None = None,
        user: str | None = None,
        keys: str | None = None,
        gate: SshGate | None = None,
    ) -> None:
        """`address` is where ssh finds the machine called `name`; `through` is the login node before it.

        Nodes are reached through the login node, or where there is none through the head node, by the names
        that they have there. `user` logs in everywhere; by default whoever ssh takes. `keys` names the file
        that keeps the host keys of machines behind the login node: other grids have others of the same name.
        `gate` is what stands before the first machine, where that is not reached as it is.
        """
        self.name = name
        self._address = address
        self._through = through
        self._user = user
        self._keys = keys
        self._gate = gate
        self._shared = SharedConnection(lambda: ["ssh", *self._common, *self._to_gate()], self._first)

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
        return ["ssh", *self._options(self._through), "--", self._address, for_remote_shell(command)]

    def ssh(self, words: Sequence[str], port: int | None = None) -> list[str]:
        """The ssh that reaches nodes through the login node, with a way back to a port of this machine."""
        self._connect()
        back = [] if port is None else ["-oExitOnForwardFailure=yes", "-R", f"{port}:127.0.0.1:{port}"]
        return ["ssh", *self._options(self._through or self._address), *back, *words]

    def listen(self) -> tuple[Listener, str]:
        """Listen on this machine alone: each node has the port as its own, by the way back of its ssh."""
        return listen_on("127.0.0.1"), "127.0.0.1"

    @property
    def _first(self) -> str:
        """The machine that is reached from here."""
        return self._through or self._address

    @property
    def _common(self) -> list[str]:
        return [*_OPTIONS, *([f"-oUser={self._user}"] if self._user else [])]

    def _options(self, through: str | None) -> list[str]:
        first = [*self._common, *self._to_gate(), *self._shared.options]
        if through is None:
            return first
        # In place of -J, whose ssh has none of these options.
        jump = shlex.join(["ssh", *first, "-W", "[%h]:%p", "--", through])
        return [*self._common, *self._own_host_keys(), f"-oProxyCommand={jump}"]

    def _to_gate(self) -> list[str]:
        """What takes an ssh to the first machine through the gate. Raises GridwrightError."""
        if self._gate is None:
            return []
        way = shlex.join(["ssh", *_OPTIONS, *self._gate.passage().words])
        return [*self._own_host_keys(), f"-oProxyCommand={way}"]

    def _own_host_keys(self) -> list[str]:
        return [f"-oUserKnownHostsFile={self._host_keys()}"]

    def _host_keys(self) -> Path:
        """The file of the grid's host keys; one for this command where none can be kept."""
        path = host_keys_file(self._keys) if self._keys else None
        if path is not None:
            try:
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            except OSError:
                path = None
        return path or self._shared.place / "known_hosts"

    def _connect(self) -> None:
        """Have the shared connection, before many need it. Raises GridwrightError where nobody answers."""
        while (why := self._shared.open()) is not None:
            if self._gate is None or time.monotonic() > self._gate.passage().settles_until:
                error = self._unreachable(self._first, why)
                if self._gate is not None:
                    self._gate.lost()
                raise error
            time.sleep(AGAIN_S)

    def _check(self, answer: CommandOutput, machine: str) -> CommandOutput:
        """Raise GridwrightError where an ssh did not get there."""
        if answer.status == UNREACHABLE:
            raise self._unreachable(machine, answer.stderr.decode(errors="replace"))
        return answer

    def _unreachable(self, machine: str, said: str) -> HeadNodeUnreachable:
        by_hand = f"ssh {f'{self._user}@' if self._user else ''}{self._first}"
        return HeadNodeUnreachable(
            f"ssh does not reach {machine}: {why_no_ssh(said) or 'no message'}",
            self.name,
            f"{f'try it by hand: {by_hand}' if self._gate is None else self._gate.advice}; "
            "the key has to be one that ssh finds, or in an agent",
        )


def host_keys_file(name: str) -> Path:
    """Where the host keys of a grid's machines are kept, for each user."""
    return state_home() / "gridwright" / "host-keys" / name
