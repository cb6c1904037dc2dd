"""A node that is up: running commands on it, and its files."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from gridwright.commands import CommandNotStarted, CommandOutput, CommandPlace, run_bounded
from gridwright.errors import GridwrightError, environment_error
from gridwright.providers.lab.cgroups import MemberGroups
from gridwright.providers.lab.record import LabRecord, NodeRecord
from gridwright.providers.lab.syscalls import ProcessId

PLAIN = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
}
"""The environment of a command that is given none."""
_GRACE_S = 2.0


class Node:
    """A node of a lab; see service.LabNode, which it is one of."""

    def __init__(self, lab: str, name: str, address: str, process: ProcessId, groups: MemberGroups) -> None:
        self.name = name
        self.address = address
        self.process = process
        self.groups = groups
        self._lab = lab

    @property
    def root(self) -> Path:
        """Its root directory, as seen from here; a link in it that is absolute leads out of it."""
        return Path(f"/proc/{self.process.pid}/root")

    def check(self) -> None:
        """Raise GridwrightError (ENVIRONMENT) where it is not up: its PID may be another's by now."""
        if not self.process.alive:
            raise node_is_down(self._lab, self.name)

    def argv(self, command: Sequence[str]) -> list[str]:
        """The command line that runs a command on the node, in `/`. Raises GridwrightError."""
        self.check()
        groups = ["-C"] if self.groups.kind != "none" else []
        return ["nsenter", "-t", str(self.process.pid), "-m", "-u", "-i", "-n", "-p", *groups, "--", *command]

    def run(
        self,
        command: Sequence[str],
        *,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        timeout_s: float = 30.0,
    ) -> CommandOutput:
        """Run a command; see service.LabNode."""
        return self._run(command, stdin=stdin, environment=environment, timeout_s=timeout_s)

    def start(
        self, command: Sequence[str], *, environment: Mapping[str, str] | None = None, timeout_s: float = 30.0
    ) -> CommandOutput:
        """Run a command that leaves a daemon behind; see service.LabNode."""
        return self._run(command, environment=environment, timeout_s=timeout_s, leaves_daemon=True)

    def write(self, path: str, content: str | bytes, *, mode: int = 0o644, owner: str = "root") -> None:
        """Write a file; see service.LabNode."""
        self.check()
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f".{target.name}.part")
        part.unlink(missing_ok=True)
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            os.fchown(file.fileno(), *self.ids_of(owner))
            os.fchmod(file.fileno(), mode)
        part.replace(target)

    def read(self, path: str) -> bytes:
        """Read a file of the node. Raises OSError."""
        self.check()
        return (self.root / path.lstrip("/")).read_bytes()

    def ids_of(self, user: str) -> tuple[int, int]:
        """User and group number of one of its users (passwd(5)). Raises GridwrightError."""
        for line in (self.root / "etc/passwd").read_text().splitlines():
            name, _, uid, gid, *_ = line.split(":")
            if name == user:
                return int(uid), int(gid)
        raise environment_error(
            f"the image has no user {user}",
            where=self.name,
            remedy="remove the image, and let gridwright up make it anew",
        )

    def _run(
        self,
        command: Sequence[str],
        *,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None,
        timeout_s: float,
        leaves_daemon: bool = False,
    ) -> CommandOutput:
        try:
            return run_bounded(
                self.argv(command),
                stdin=stdin,
                environment=PLAIN if environment is None else environment,
                timeout_s=timeout_s,
                leaves_daemon=leaves_daemon,
                name=command[0],
                # joining control groups only writes to files
                at=CommandPlace(self.name, "/", prepare=self.groups.join, kill=_kill_group),
            )
        except CommandNotStarted:
            self.check()
            raise


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill what nsenter started, and nsenter itself where it does not end by that.

    It must wait for its child: else the child becomes one of this machine's first process, which may be in
    no hurry to wait for it, and until then its PID namespace cannot end.
    """
    for pid in _group(process.pid) - {process.pid}:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    try:
        process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)


def _group(leader: int) -> set[int]:
    """Processes of a process group: its leader is ours and not yet waited for, so no other can have it."""
    found = set()
    for name in os.listdir("/proc"):  # noqa: PTH208 - numbers
        if name.isdigit():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if os.getpgid(int(name)) == leader:
                    found.add(int(name))
    return found


def node_is_down(lab: str, name: str) -> GridwrightError:
    """The error for a node that is not up."""
    return environment_error(
        f"node {name} of lab {lab} is powered off", remedy=f"run gridwright lab power-on {name}"
    )


def node_of(record: LabRecord, name: str) -> Node:
    """A node that is up. Raises GridwrightError where it is not, or where there is none of that name."""
    found = record.node(name)
    if found.process is None or not found.up:
        raise node_is_down(record.lab, name)
    return _node(record.lab, found, found.process)


def nodes_of(record: LabRecord) -> dict[str, Node]:
    """All nodes that are up, by name."""
    return {
        node.plan.name: _node(record.lab, node, node.process)
        for node in record.nodes
        if node.process is not None and node.up
    }


def _node(lab: str, node: NodeRecord, process: ProcessId) -> Node:
    return Node(lab, node.plan.name, node.plan.address, process, node.groups)
