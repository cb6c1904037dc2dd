"""Sets nodes up: the playbook, run by Ansible in a directory of its own in bounded time, and its outcome."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from gridwright.beneath import remove_tree
from gridwright.errors import environment_error
from gridwright.own_directories import temporary_directory
from gridwright.schedulers.process_tree import adopt_orphans, descendants, kill_all

_LOG = logging.getLogger("gridwright.setup")
LONGEST_S = 3 * 3600.0
"""Whole run: two file systems on large disks, whose blocks mkfs discards first, and packages."""
LONGEST_CHECK_S = 1200.0
_SAY_EVERY_S = 15.0
_LOOK_EVERY_S = 0.1
_TO_STOP_S = 10.0
_LOOK_AGAIN_S = 0.02
"""Between the request to stop and SIGKILL: Ansible ends its tasks and the connections first."""
_SHOWN_LINES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupRequest:
    """What to run, and how nodes are reached."""

    files: Mapping[str, str | bytes]
    """The playbook; see nodes.playbook."""
    check: bool
    diff: bool = False
    nodes: Sequence[str] = ()
    """Names of nodes, or patterns of Ansible; empty for all."""
    user: str | None = None
    private_key: Path | None = None
    inventory: Path | None = None
    variables: Path | None = None
    become: bool = True
    """Whether tasks become root by sudo; not where the user is root already."""
    ssh: Sequence[str] = ("ssh",)
    """The command line that runs ssh where the nodes can be reached from."""
    local: bool = False
    """Whether the only node is this machine."""
    restart: bool = False
    """Whether nodes may be restarted that need another kernel; those with jobs are not."""


@dataclass(frozen=True, slots=True)
class SetupResult:
    """What became of the nodes."""

    nodes: list[NodeSetup]

    @property
    def failed(self) -> bool:
        """Whether any node was not set up."""
        return any(node.state in ("failed", "unreachable", "unfinished") for node in self.nodes)

    @property
    def changed(self) -> bool:
        """Whether anything was changed, or would be."""
        return any(node.changes or node.state == "changed" for node in self.nodes)


def set_up(request: SetupRequest, *, stop: threading.Event, say: Callable[[str], None]) -> SetupResult:
    """Run the playbook; raises KeyboardInterrupt when `stop` is set, after Ansible has ended.

    Raises GridwrightError (ENVIRONMENT) where Ansible cannot run at all, or takes too long; what fails on a
    node is in the result.
    """
    place = temporary_directory("gridwright-setup-")
    try:
        for path, content in request.files.items():
            file = place / "playbook" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content.encode() if isinstance(content, str) else content)
        log = place / "ansible.log"
        status = _run(request, place, log, stop, say)
        nodes = read_report(_lines(place / "report"))
        if stop.is_set():
            raise KeyboardInterrupt
        if not nodes or (status != 0 and not any(node.failures for node in nodes)):
            raise environment_error(
                f"ansible-playbook ended with status {status}:\n{_end_of(log)}",
                where="ansible",
                remedy="correct what it names; gridwright render writes the same playbook, to be run by hand",
            )
        return SetupResult(nodes)
    finally:
        remove_tree(place)


def command_line(request: SetupRequest, place: Path) -> list[str]:
    """The call of ansible-playbook of this Python; `place` is the directory that everything is in."""
    options = [
        *(["--check"] if request.check else []),
        *(["--diff"] if request.diff else []),
        *(["--limit", ",".join(request.nodes)] if request.nodes else []),
        *(["--user", request.user] if request.user else []),
        *(["--private-key", str(request.private_key.absolute())] if request.private_key else []),
        *["--inventory", str(request.inventory.absolute()) if request.inventory else "inventory.yml"],
        *["--extra-vars", json.dumps({"gridwright_become": request.become, **_restart(request)})],
        *(["--extra-vars", f"@{request.variables.absolute()}"] if request.variables else []),
    ]
    return [sys.executable, "-P", "-m", "ansible", "playbook", *options, "site.yml"]


def _restart(request: SetupRequest) -> dict[str, str]:
    return {"gridwright_restart": "now"} if request.restart else {}


def environment(request: SetupRequest, place: Path) -> dict[str, str]:
    """The environment of Ansible: no setting of it is the user's own, and nothing asks questions."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    multiplexed = ["-oControlMaster=auto", "-oControlPersist=30s"]
    # The directory of sockets of the ssh that runs elsewhere is not one that Ansible makes here.
    socket = ["-oControlPath=/run/gridwright-%C"] if list(request.ssh) != ["ssh"] else []
    options = ["-oBatchMode=yes", "-oServerAliveInterval=10", "-oServerAliveCountMax=3"]
    return {
        **kept,
        "LC_ALL": "C.UTF-8",  # Ansible refuses to run in any other encoding
        "PYTHONUNBUFFERED": "1",
        "ANSIBLE_CONFIG": str(place / "playbook" / "ansible.cfg"),
        "ANSIBLE_HOME": str(place / "home"),
        "ANSIBLE_LOCAL_TEMP": str(place / "home" / "tmp"),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_SSH_EXECUTABLE": str(place / "ssh"),
        "ANSIBLE_SSH_ARGS": " ".join([*multiplexed, *socket, *options]),
        "ANSIBLE_SSH_TRANSFER_METHOD": "piped",
        "ANSIBLE_CALLBACK_PLUGINS": str(_callbacks()),
        "ANSIBLE_CALLBACKS_ENABLED": "gridwright_report",
        "GRIDWRIGHT_REPORT": str(place / "report"),
        # An account without a home, such as that of a service, can look at what differs, too; and what a
        # module that was killed leaves goes with the rest.
        **(
            {"ANSIBLE_REMOTE_TEMP": str(place / "home" / "remote"), "TMPDIR": str(place / "home" / "tmp")}
            if request.local
            else {}
        ),
    }


def _run(
    request: SetupRequest, place: Path, log: Path, stop: threading.Event, say: Callable[[str], None]
) -> int:
    ssh = place / "ssh"
    with open(os.open(ssh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o700), "w") as file:  # noqa: PTH123 - its mode
        file.write(f'#!/bin/sh\nexec {shlex.join(request.ssh)} "$@"\n')
    report = place / "report"
    report.touch()
    (place / "home" / "tmp").mkdir(parents=True)
    longest = LONGEST_CHECK_S if request.check else LONGEST_S
    command = command_line(request, place)
    _LOG.info("starting %s", shlex.join(command))
    adopt_orphans()
    others = frozenset(descendants(os.getpid()))
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=place / "playbook",
            env=environment(request, place),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a terminal's Ctrl-C reaches us alone, and we tell Ansible
        )
        try:
            return _wait(process, report, longest, stop, say)
        finally:
            _end(process, others)


def _wait(
    process: subprocess.Popen[bytes],
    report: Path,
    longest: float,
    stop: threading.Event,
    say: Callable[[str], None],
) -> int:
    started = said = time.monotonic()
    while process.poll() is None:
        now = time.monotonic()
        if stop.wait(_LOOK_EVERY_S):
            return -signal.SIGINT
        if now - started > longest:
            raise environment_error(
                f"the playbook has not ended after {longest:.0f} s; it is in: {last_task(_lines(report))}",
                remedy="see the nodes that are in it, then run gridwright setup again: it goes on from there",
            )
        if now - said > _SAY_EVERY_S:
            said = now
            say(f"after {now - started:.0f} s: {last_task(_lines(report)) or 'starting'}")
    return process.returncode


def _end(process: subprocess.Popen[bytes], others: Collection[int]) -> None:
    """Leave nothing running but `others`: Ansible is asked, then all that is left of it is killed."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_TO_STOP_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    # Workers of Ansible have sessions of their own, and what they run outlives them: all of it is ours now.
    deadline = time.monotonic() + _TO_STOP_S
    while time.monotonic() < deadline:
        left = [pid for pid in descendants(os.getpid()) if pid not in others]
        if not kill_all(iter(left), signal.SIGKILL):
            return
        for pid in left:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(_LOOK_AGAIN_S)


def _callbacks() -> Path:
    with resources.as_file(resources.files("gridwright.setup").joinpath("ansible_report")) as directory:
        return directory


def _lines(report: Path) -> list[str]:
    return report.read_text("utf-8", errors="replace").splitlines()


def _end_of(log: Path) -> str:
    lines = [line for line in log.read_text("utf-8", errors="replace").splitlines() if line.strip()]
    return "\n".join(lines[-_SHOWN_LINES:])


State = Literal["ok", "changed", "failed", "unreachable", "unfinished"]


@dataclass(frozen=True, slots=True)
class SettingChange:
    """One thing that was changed on a node, or would be."""

    task: str
    where: str
    """The file, where it is one."""
    name: str
    """The row of the tuning table, where it is one."""
    setting: str
    found: str
    wanted: str
    differences: tuple[tuple[str, str], ...] = ()
    """Contents before and after, where they were asked for."""

    @property
    def text(self) -> str:
        """The change on one line."""
        if self.setting:
            return f"{self.setting}: {self.found} -> {self.wanted}"
        task = self.task.rpartition(" : ")[2]  # the role before it says nothing to users
        return f"{self.where}: {task.lower()}" if self.where else task


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """What stopped a node."""

    task: str
    message: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """A setting that a node does not have, and what is said then."""

    name: str
    setting: str
    reason: str


@dataclass(slots=True)
class NodeSetup:
    """What became of one node."""

    name: str
    state: State = "unfinished"
    changes: list[SettingChange] = field(default_factory=list)
    failures: list[TaskFailure] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)


def read_report(lines: Iterable[str]) -> list[NodeSetup]:
    """The nodes in the order in which they were first heard of; a line that is cut off is left out."""
    nodes: dict[str, NodeSetup] = {}
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            _take(nodes, event)
    return list(nodes.values())


def last_task(lines: Sequence[str]) -> str:
    """The task that was begun last; empty where none was."""
    for line in reversed(lines):
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and event.get("event") == "start":
            return str(event.get("task", ""))
    return ""


def _take(nodes: dict[str, NodeSetup], event: Mapping[str, Any]) -> None:
    kind = event.get("event")
    if kind == "end":
        for name, counts in dict(event.get("nodes", {})).items():
            _count(nodes.setdefault(name, NodeSetup(name)), counts)
        return
    if "node" not in event:
        return
    node = nodes.setdefault(str(event["node"]), NodeSetup(str(event["node"])))
    if kind == "changed":
        node.changes.append(_change(event))
    elif kind == "skipped":
        texts = [str(event.get(key, "")) for key in ("name", "setting", "skipped")]
        node.skipped.append(Skipped(*texts))
    elif kind in ("failed", "unreachable"):
        node.state = "failed" if kind == "failed" else "unreachable"
        # Which task found that a node is away says nothing about the node.
        task = str(event.get("task", "")) if kind == "failed" else ""
        message = str(event.get("message", "")).removeprefix("Task failed: ")
        node.failures.append(TaskFailure(task.rpartition(" : ")[2], message))


def _change(event: Mapping[str, Any]) -> SettingChange:
    sides = [
        (str(each.get("before", "")), str(each.get("after", ""))) for each in event.get("differences", [])
    ]
    task, where, name, setting, found, desired = (
        str(event.get(key, "")) for key in ("task", "where", "name", "setting", "found", "wanted")
    )
    return SettingChange(task, where, name, setting, found, desired, tuple(sides))


def _count(node: NodeSetup, counts: Mapping[str, Any]) -> None:
    """What Ansible counted says how the node came out, whatever the lines before say."""
    if counts.get("unreachable"):
        node.state = "unreachable"
    elif counts.get("failures"):
        node.state = "failed"
    else:
        node.state = "changed" if counts.get("changed") else "ok"
