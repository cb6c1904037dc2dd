"""Nodes of a lab that are up: commands and files on them, and services: sshd, file systems, scheduler."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gridwright import schedulers
from gridwright.commands import CommandNotStarted, CommandOutput, CommandPlace, run_bounded
from gridwright.errors import GridwrightError, Problem, environment_error
from gridwright.filesystems import kind_of
from gridwright.filesystems.kind import LabServices, StorageNodes
from gridwright.filesystems.library_directories import LIBRARY_MODES
from gridwright.node_programs.one_file import USERS
from gridwright.node_programs.users.configuration import CONFIGURATION
from gridwright.providers.lab.layout import Lab, LabLayout, LabRole
from gridwright.providers.lab.namespaces import CgroupSupport, MemberGroups, ProcessId
from gridwright.providers.lab.record import MOUNT_POINT, LabRecord, NodeRecord, Places
from gridwright.providers.provider import Caller
from gridwright.refusals import refusal
from gridwright.schedulers.state_directory import state_directory
from gridwright.services.service import (
    Service,
    ServiceNode,
    call,
    last_words,
    make_directory,
    run_on_nodes,
    runs,
    start_daemon,
)
from gridwright.setup.node_specs import secret_of, users_configuration
from gridwright.spec.model import GridSpec

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


# A lab whose nodes are up, as the services on them see it; see services/service.py for what a service is.
#
# Secrets of a lab: made once, kept where only root can read them, the same for all of its nodes.


def secret(path: Path, make: Callable[[], bytes]) -> bytes:
    """The secret in a file; `make` makes it when there is none. Raises GridwrightError (ENVIRONMENT)."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return _keep(path, make())
    except OSError as error:
        why = refusal(path, error, "name another directory with state: in the spec", writes=True)
        raise environment_error(
            f"a key of the lab cannot be kept: {why.reason}", where=str(path), remedy=why.remedy
        ) from error


def _keep(path: Path, content: bytes) -> bytes:
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.rename(path)
    return content


@dataclass(frozen=True, slots=True)
class RunningLab:
    """A lab whose nodes are up, as its services see it. Threads may use it at the same time."""

    spec: GridSpec
    layout: LabLayout
    places: Places
    nodes: Mapping[str, ServiceNode]
    """The nodes that are up, by name."""
    cgroups: CgroupSupport
    """What nodes have of control groups."""
    state: Path
    """The state directory, the same on nodes and here."""

    @property
    def network(self) -> str:
        """The range of addresses of its nodes."""
        return self.layout.network

    @property
    def controller(self) -> str:
        """The name of the node that the scheduler's own service runs on."""
        return self.layout.controller.name

    @property
    def health(self) -> Mapping[str, Any]:
        """What nodes that run jobs must have mounted."""
        from gridwright.setup.node_specs import health_configuration

        return health_configuration(self.spec)

    def secret(self, name: str, make: Callable[[], bytes]) -> bytes:
        """A secret of the lab by its name, made once. Raises GridwrightError (ENVIRONMENT)."""
        return secret(self.places.secrets / name, make)


LabService = Service[RunningLab]
"""A service that may ask all that is known of the lab; see `services_of` for those of a spec."""


# Users of a lab: the accounts of its spec on every node, and SSSD where it names a directory of users.

_LIMIT_S = 120.0
_ANSWERS = "pidof -q sssd && test -S /var/lib/sss/pipes/nss"


class LabUsers:
    """The program that the playbook runs elsewhere, on the controller and on nodes that run jobs."""

    name = "users"
    patience_s = 60.0

    def __init__(self, nodes: Sequence[str]) -> None:
        self.nodes = nodes

    def prepare(self, lab: RunningLab, nodes: Sequence[str]) -> None:
        """Write who is to be there, and the secret of the directory as this machine has it."""
        configuration = users_configuration(lab.spec)
        secret = secret_of(lab.spec.users)
        content = _secret(Path(secret)) if secret is not None else None

        def put(node: ServiceNode) -> None:
            known = {**configuration, "makes_homes": node.name == lab.controller}
            node.write(str(USERS.path), USERS.archive(), mode=0o755)
            node.write(str(CONFIGURATION), json.dumps(known, indent=2) + "\n")
            if secret is not None and content is not None:
                node.write(secret, content, mode=0o600)

        run_on_nodes(lab, nodes, put)

    def start(self, lab: RunningLab, nodes: Sequence[str]) -> None:
        """Make accounts, and homes where they are each node's own."""
        shared = lab.spec.users is not None and lab.spec.users.homes is not None
        run_on_nodes(lab, nodes, lambda node: _run(node, *(["--no-homes"] if shared else [])))

    def lacking(self, lab: RunningLab, node: str) -> str | None:
        """Where there is a directory of users, SSSD answers."""
        if lab.spec.users is None or lab.spec.users.directory is None:
            return None
        answer = lab.nodes[node].run(["sh", "-c", _ANSWERS], timeout_s=4.0)
        return None if answer.status == 0 else "sssd does not run"


def make_homes(lab: RunningLab) -> None:
    """Make those on a shared file system, once that is mounted. Raises GridwrightError (ENVIRONMENT)."""
    if lab.spec.users is not None and lab.spec.users.homes is not None:
        _run(lab.nodes[lab.controller])


def _secret(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise environment_error(
            f"the secret of the directory of users: {error.strerror}",
            where=str(path),
            remedy="write it into that file on this machine; nodes of the lab get a copy",
        ) from error


def _run(node: ServiceNode, *options: str) -> None:
    command = ["python3", str(USERS.path), *options]
    answer = node.start(command, timeout_s=_LIMIT_S)
    if answer.status:
        raise environment_error(
            f"users cannot be made: {last_words(answer.stderr)}",
            where=node.name,
            remedy="correct section users of the grid spec, or what it names",
        )


# ssh in a lab: every node reaches every node as root, with keys that belong to the lab alone.

_SERVER = """\
# Of the lab: keys only, and no question that a lab without names of its own cannot answer.
HostKey /etc/ssh/ssh_host_ed25519_key
PasswordAuthentication no
PermitRootLogin prohibit-password
UsePAM no
UseDNS no
MaxStartups 200:30:400
MaxSessions 200
"""
_CLIENT = """\
# Of the lab: its nodes have one host key, which ssh_known_hosts holds. Its network is this machine's memory,
# and the key exchange that ssh 9 prefers takes 60 ms of CPU time more for each connection.
Host *
    KexAlgorithms curve25519-sha256
    StrictHostKeyChecking yes
    UserKnownHostsFile /dev/null
    BatchMode yes
    LogLevel ERROR
    ConnectTimeout 5
"""
# What a server says first; ssh-keyscan would tell the same in 0.3 s.
_GREETING = 'exec 3<>/dev/tcp/127.0.0.1/22 && read -r -t 3 line <&3 && printf %s "$line"'


class Ssh:
    """sshd on every node."""

    name = "sshd"
    patience_s = 30.0

    def __init__(self, nodes: Sequence[str]) -> None:
        self.nodes = nodes

    def prepare(self, lab: RunningLab, nodes: Sequence[str]) -> None:
        """Put the lab's keys on the nodes: one of the hosts, one of their root."""
        maker = lab.nodes[nodes[0]]
        host, user = (lab.secret(f"ssh-{kind}", lambda: _make_key(maker)) for kind in ("host", "user"))
        host_public = lab.secret("ssh-host.pub", lambda: _public(maker, host))
        user_public = lab.secret("ssh-user.pub", lambda: _public(maker, user))

        def put(node: ServiceNode) -> None:
            node.write("/etc/ssh/ssh_host_ed25519_key", host, mode=0o600)
            node.write("/etc/ssh/ssh_known_hosts", b"* " + host_public)
            node.write("/etc/ssh/sshd_config.d/gridwright.conf", _SERVER)
            node.write("/etc/ssh/ssh_config.d/gridwright.conf", _CLIENT)
            make_directory(node, "/root/.ssh", mode="0700")
            node.write("/root/.ssh/id_ed25519", user, mode=0o600)
            node.write("/root/.ssh/authorized_keys", user_public, mode=0o600)
            make_directory(node, "/run/sshd")
            node.write("/usr/local/bin/clush", _cluster_shell(), mode=0o755)

        run_on_nodes(lab, nodes, put)

    def start(self, lab: RunningLab, nodes: Sequence[str]) -> None:
        """Start sshd."""

        def start(node: ServiceNode) -> None:
            if not runs(node, "sshd"):
                # Its log is a file of the node, as nothing collects what it says otherwise.
                start_daemon(node, ["/usr/sbin/sshd", "-E", "/var/log/sshd.log"])

        run_on_nodes(lab, nodes, start)

    def lacking(self, lab: RunningLab, node: str) -> str | None:
        """It answers on its port."""
        answer = lab.nodes[node].run(["bash", "-c", _GREETING], timeout_s=4.0)
        return None if answer.stdout.startswith(b"SSH-2.0") else "sshd does not answer"


def _make_key(node: ServiceNode) -> bytes:
    """A new key, made by the node's ssh-keygen, as this machine may have none."""
    directory = call(node, ["mktemp", "-d", "/run/key.XXXXXX"]).decode().strip()
    try:
        call(node, ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", f"{directory}/key"])
        return node.read(f"{directory}/key")
    finally:
        node.run(["rm", "-rf", "--", directory])


def _public(node: ServiceNode, key: bytes) -> bytes:
    directory = call(node, ["mktemp", "-d", "/run/key.XXXXXX"]).decode().strip()
    try:
        node.write(f"{directory}/key", key, mode=0o600)
        return call(node, ["ssh-keygen", "-y", "-f", f"{directory}/key"])
    finally:
        node.run(["rm", "-rf", "--", directory])


def _cluster_shell() -> str:
    """`clush` of the Python that Gridwright runs with: nodes see it at the same path."""
    return f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m ClusterShell.CLI.Clush "$@"\n'


def services_of(spec: GridSpec, layout: LabLayout) -> list[LabService]:
    """The services of a spec in the order that they start in: each needs only those before it."""
    controller = layout.controller.name
    workers = [node.name for node in layout.of_role(LabRole.COMPUTE)]
    machines = [node.name for node in layout.of_role(LabRole.MACHINE) if spec.machines[node.group].mounts]
    lab = spec.section(Lab)
    services: list[LabService] = [Ssh([node.name for node in layout.nodes])]
    for name, filesystem in spec.filesystems.items():
        storage = StorageNodes(
            servers=[node.name for node in layout.storage_of(name)],
            clients=[controller, *workers, *machines],
            all_nodes=[node.name for node in layout.nodes],
            directory=MOUNT_POINT,
            # MooseFS' own default, less on a small disk of its own.
            keep_free="64MiB" if lab and lab.disk else "256MiB",
        )
        kind = kind_of(filesystem)
        if isinstance(kind, LabServices):
            services += kind.lab_services(name, filesystem, storage)
    if spec.users is not None:
        services.append(LabUsers([controller, *workers]))
    services += schedulers.scheduler_kind(spec.scheduler).lab_services(spec, controller, workers)
    return services


# Brings up the services of a lab, and says which of them serve.

_PAUSE_S = 0.02
_ASKED_AT_ONCE = 32
"""Most of the time they wait for daemons, and with a dead file system for seconds."""


@dataclass(frozen=True, slots=True)
class ServiceState:
    """A service on a node."""

    service: str
    node: str
    lacking: str | None
    """What it lacks, in words; None where it serves."""


def running_lab(record: LabRecord, spec: GridSpec) -> RunningLab:
    """The lab as its services see it."""
    kind, controllers = record.cgroups
    support = CgroupSupport("v1" if kind == "v1" else "v2" if kind == "v2" else "none", controllers)
    return RunningLab(
        spec, record.layout, Places(record.lab), nodes_of(record), support, state_directory(spec)
    )


def serve(
    lab: RunningLab,
    services: Collection[LabService],
    nodes: Collection[str],
    caller: Caller | None = None,
    *,
    wait: bool = True,
) -> None:
    """Start services on nodes, and with `wait` wait until they serve there. Raises GridwrightError."""
    caller = caller or Caller()
    here = [(service, [node for node in service.nodes if node in nodes]) for service in services]
    here = [(service, on) for service, on in here if on]
    for service, on in here:
        caller.go_on()
        service.prepare(lab, on)
    for service, on in here:
        caller.go_on()
        service.start(lab, on)
    if wait:
        wait_until_served(lab, services, nodes, caller)


def wait_until_served(
    lab: RunningLab, services: Collection[LabService], nodes: Collection[str], caller: Caller | None = None
) -> None:
    """Wait until services serve on nodes, each for its own time. Raises GridwrightError."""
    started = time.monotonic()
    for service in services:
        for node in [each for each in service.nodes if each in nodes]:
            _wait_for(lab, service, node, started + service.patience_s, caller or Caller())


def _wait_for(lab: RunningLab, service: LabService, node: str, until: float, caller: Caller) -> None:
    caller.go_on()
    while (lacking := service.lacking(lab, node)) is not None:
        if time.monotonic() > until:
            raise environment_error(
                f"{service.name} does not serve after {service.patience_s:.0f} s: {lacking}",
                where=node,
                remedy=f"see what it wrote: gridwright lab exec {node} -- ls -lR /var/log",
            )
        caller.go_on()
        time.sleep(_PAUSE_S)


def states(
    lab: RunningLab, services: Collection[LabService], *, on: Collection[str] | None = None
) -> list[ServiceState]:
    """How each service stands on each of its nodes that is up, in order; all are asked at the same time.

    `on` limits that to some nodes.
    """
    chosen = lab.nodes.keys() if on is None else lab.nodes.keys() & set(on)
    asked = [(service, node) for service in services for node in service.nodes if node in chosen]

    def ask(pair: tuple[LabService, str]) -> ServiceState:
        service, node = pair
        try:
            lacking = service.lacking(lab, node)
        except GridwrightError as error:
            lacking = error.problems[0].what
        return ServiceState(service.name, node, lacking)

    with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
        return list(pool.map(ask, asked))


def make_libraries(lab: RunningLab) -> None:
    """Make the directories of the libraries; everybody may write to work and util. Raises GridwrightError."""
    controller = lab.nodes[lab.layout.controller.name]
    by_mode: dict[int, set[str]] = {}
    for name in lab.spec.libraries:
        # A file system that is new may let everybody exchange what lies in its root, as MooseFS does.
        by_mode.setdefault(0o755, set()).add(str(lab.spec.filesystem_of(name).path))
        by_mode.setdefault(LIBRARY_MODES[name], set()).add(str(lab.spec.library_directory(name)))
    for mode, directories in sorted(by_mode.items()):
        done = controller.run(["install", "-d", "-m", f"{mode:04o}", "--", *sorted(directories)])
        if done.status:
            raise GridwrightError(
                Problem(
                    what="the libraries cannot be made: " + done.stderr.decode(errors="replace").strip(),
                    where=controller.name,
                    remedy="see gridwright status: their file system may not be mounted",
                )
            )
