"""Slurm in a lab: slurmctld on the controller, slurmd on the nodes that run jobs.

Its accounting: MariaDB and slurmdbd on the controller.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath

from gridwright.node_programs.health.configuration import CONFIGURATION
from gridwright.node_programs.one_file import HEALTH, HEALTH_STARTER, HEALTH_STARTER_TEXT
from gridwright.node_programs.power import PROGRAMS, program
from gridwright.schedulers.in_lab import SchedulerNodes
from gridwright.schedulers.machines import CgroupVersion, GridMachines, NodeHardware, hardware_of_nodes
from gridwright.schedulers.slurm.configuration import (
    DATABASE_CONFIGURATION,
    DIRECTORY,
    LOGS,
    SPOOL,
    USER,
    SlurmParameters,
    parse_release,
    parse_slurmd_hardware,
    slurm_configuration,
    slurm_parameters,
    state_location,
)
from gridwright.services.daemon import call, make_directory, run_on_nodes, runs, start_daemon, wait_for
from gridwright.services.service import ServiceNode

_NEEDED = {"freezer", "memory"}
"""Controllers of v1 that Slurm follows processes and limits memory with; a lab does not bind cores."""
_UP = ("idle", "mixed", "allocated", "completing")
"""States of a node that serves, in words of sinfo; one that does not answer has a `*` behind."""

_LAST_LINES = 5
"""Of a log, in which the reason stands why a daemon ended."""


class SlurmController:
    """slurmctld on the controller, and on the first compute node where a backup is wanted."""

    name = "slurmctld"
    patience_s = 40.0

    def __init__(self, nodes: Sequence[str]) -> None:
        self.nodes = nodes

    def prepare(self, lab: SchedulerNodes, nodes: Sequence[str]) -> None:
        """Write the configuration, and make the directories of its state."""
        parameters = lab_parameters(lab)
        files = slurm_configuration(lab.spec, parameters).files
        state = state_location(lab.spec, parameters)

        def put(node: ServiceNode) -> None:
            _write(node, files)
            make_directory(node, LOGS, state, owner=USER)
            for path in PROGRAMS if lab.spec.powered_nodes() else ():
                node.write(str(path), program(), mode=0o755)

        run_on_nodes(lab, nodes, put)

    def start(self, lab: SchedulerNodes, nodes: Sequence[str]) -> None:
        """Start it, on the controller before on the backup."""
        for name in nodes:
            if not runs(lab.nodes[name], "slurmctld"):
                start_daemon(lab.nodes[name], ["/usr/sbin/slurmctld"])

    def lacking(self, lab: SchedulerNodes, node: str) -> str | None:
        """It answers, or a backup runs."""
        if not runs(lab.nodes[node], "slurmctld"):
            return f"slurmctld does not run: {_last_error(lab.nodes[node], 'slurmctld')}"
        if node != self.nodes[0]:
            return None
        answer = lab.nodes[node].run(["scontrol", "ping"], timeout_s=4.0)
        return None if b"is UP" in answer.stdout else "slurmctld does not answer"


class SlurmNodes:
    """slurmd on every compute node."""

    name = "slurmd"
    patience_s = 60.0

    def __init__(self, nodes: Sequence[str]) -> None:
        self.nodes = nodes

    def prepare(self, lab: SchedulerNodes, nodes: Sequence[str]) -> None:
        """Write the configuration, and make the directory of running jobs."""
        files = slurm_configuration(lab.spec, lab_parameters(lab)).files
        health = json.dumps(lab.health, indent=2) + "\n"

        def put(node: ServiceNode) -> None:
            _write(node, files)
            make_directory(node, LOGS, owner=USER)
            make_directory(node, SPOOL)
            _write_health_check(node, health)

        run_on_nodes(lab, nodes, put)

    def start(self, lab: SchedulerNodes, nodes: Sequence[str]) -> None:
        """Start slurmd."""
        powered = lab.spec.powered_nodes()

        def start(node: ServiceNode) -> None:
            # Slurm takes a node for powered on when it has booted since; the kernel of a lab has not.
            booted = ["-b"] if node.name in powered else []
            if not runs(node, "slurmd"):
                start_daemon(node, ["/usr/sbin/slurmd", *booted])

        run_on_nodes(lab, nodes, start)

    def lacking(self, lab: SchedulerNodes, node: str) -> str | None:
        """The controller has it as a node that takes jobs."""
        here = lab.nodes[node]
        if not runs(here, "slurmd"):
            return f"slurmd does not run: {_last_error(here, 'slurmd')}"
        controller = lab.nodes.get(lab.controller)
        if controller is None:
            return None  # It registers when the controller is powered on.
        if not runs(controller, "slurmctld"):
            return f"slurmctld does not run on {controller.name}"
        answer = controller.run(["sinfo", "-h", "-N", "-n", node, "-o", "%T %E"], timeout_s=4.0)
        state, _, reason = answer.stdout.decode(errors="replace").partition("\n")[0].partition(" ")
        if state in _UP:
            return None
        return f"Slurm says {state or 'nothing'} of it" + ("" if reason in ("", "none") else f": {reason}")


def lab_parameters(lab: SchedulerNodes) -> SlurmParameters:
    """The parameters of a lab's Slurm; a node is asked for what the spec leaves open."""
    spec = lab.spec
    asked = next(iter(lab.nodes.values()))
    machine = NodeHardware(name="", cores_per_socket=1, memory_bytes=1)
    if any(group.cores is None or group.memory is None for group in spec.nodes.values()):
        machine = parse_slurmd_hardware(call(asked, ["/usr/sbin/slurmd", "-C"]).decode(errors="replace"))
    machines = GridMachines(
        controller=lab.controller,
        nodes=hardware_of_nodes(spec, dict.fromkeys(spec.nodes, machine), share_one_machine=True),
        cgroups=_cgroups(lab),
        swap_limits=_limits_swap(lab, asked),
        systemd=False,
        share_one_machine=True,
    )
    release = parse_release(call(asked, ["/usr/sbin/slurmd", "-V"]).decode(errors="replace"))
    return replace(slurm_parameters(spec, machines, release), state=lab.state)


def _cgroups(lab: SchedulerNodes) -> CgroupVersion:
    if lab.cgroups.kind == "v1":
        return CgroupVersion.V1 if set(lab.cgroups.controllers) >= _NEEDED else CgroupVersion.NONE
    return CgroupVersion.V2 if lab.cgroups.kind == "v2" else CgroupVersion.NONE


def _limits_swap(lab: SchedulerNodes, node: ServiceNode) -> bool:
    """Whether the kernel accounts for swap: not all do without an option when they boot."""
    directory = lab.cgroups.mountpoint + ("/memory" if lab.cgroups.kind == "v1" else "")
    return bool(
        node.run(
            ["find", directory, "-name", "memory.memsw.limit_in_bytes", "-o", "-name", "memory.swap.max"]
        ).stdout.strip()
    )


def _write(node: ServiceNode, files: Mapping[str, str]) -> None:
    """All but the configuration of slurmdbd, which is for slurmdbd alone."""
    for name, text in files.items():
        if name != DATABASE_CONFIGURATION:
            node.write(str(DIRECTORY / name), text)


def _write_health_check(node: ServiceNode, configuration: str) -> None:
    node.write(str(CONFIGURATION), configuration)
    node.write(str(HEALTH.path), HEALTH.archive(), mode=0o755)
    node.write(str(HEALTH_STARTER), HEALTH_STARTER_TEXT, mode=0o755)


def _last_error(node: ServiceNode, daemon: str) -> str:
    """Why it ended, where it said so at last; else where its log is."""
    log = str(LOGS / f"{daemon}.log")
    try:
        lines = node.read(log).decode(errors="replace").splitlines()[-_LAST_LINES:]
    except OSError:
        return "it has written no log"
    return next((line for line in reversed(lines) if "fatal:" in line), f"its log is {log}")


DATA = PurePosixPath("/var/lib/slurm/mariadb")
"""Where MariaDB keeps its tables. It runs as the user of slurmdbd, so that none of its own is needed."""
_SOCKET = PurePosixPath("/run/mysqld/mysqld.sock")
"""Where slurmdbd looks for a database on its own machine, as Debian builds libmariadb."""
_SERVER = (
    *("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"),
    *("/usr/sbin/mariadbd", "--no-defaults", f"--datadir={DATA}", "--skip-networking"),
    *("--innodb-buffer-pool-size=32M", "--innodb-log-file-size=16M"),
)
_STATEMENTS = PurePosixPath("/usr/share/mysql")
_TABLES = ("mysql_system_tables.sql", "mysql_performance_tables.sql", "mysql_system_tables_data.sql")
_BEFORE_TABLES = f"create database mysql;\nuse mysql;\nset @auth_root_socket='{USER}';\n".encode()
"""As in mariadb-install-db(1) with --auth-root-authentication-method=socket."""


class MariaDb:
    """The database server, reached by its socket alone."""

    name = "mariadbd"
    patience_s = 60.0

    def __init__(self, controller: str) -> None:
        self.nodes = [controller]

    def prepare(self, lab: SchedulerNodes, nodes: Sequence[str]) -> None:
        """Make its tables where there are none, with the one account slurm, known by the socket."""
        for node in (lab.nodes[name] for name in nodes):
            make_directory(node, _SOCKET.parent, DATA, owner=USER)
            if not node.run(["test", "-d", f"{DATA}/mysql"]).status:
                continue
            # Not mariadb-install-db, which needs most of what belongs to a whole server.
            statements = b"".join([_BEFORE_TABLES, *(node.read(str(_STATEMENTS / name)) for name in _TABLES)])
            call(node, [*_SERVER, "--bootstrap"], stdin=statements, timeout_s=60.0)

    def start(self, lab: SchedulerNodes, nodes: Sequence[str]) -> None:
        """Start it as the user of slurmdbd."""
        for node in (lab.nodes[name] for name in nodes):
            if not runs(node, "mariadbd"):
                words = [f"--socket={_SOCKET}", f"--log-error={LOGS}/mariadbd.log"]
                # It has no way to put itself into the background.
                start_daemon(node, ["sh", "-c", '"$@" &', "sh", *_SERVER, *words])
            # slurmdbd finds out only every 5 s, and slurmctld is next.
            wait_for(partial(self.lacking, lab, node.name))

    def lacking(self, lab: SchedulerNodes, node: str) -> str | None:
        """Its socket is there once it takes connections."""
        here = lab.nodes[node]
        if not runs(here, "mariadbd"):
            return f"mariadbd does not run: its log is {LOGS}/mariadbd.log"
        return None if not here.run(["test", "-S", str(_SOCKET)]).status else "mariadbd has no socket yet"


class SlurmDatabase:
    """slurmdbd, which knows the cluster before slurmctld asks for it."""

    name = "slurmdbd"
    patience_s = 60.0

    def __init__(self, controller: str) -> None:
        self.nodes = [controller]

    def prepare(self, lab: SchedulerNodes, nodes: Sequence[str]) -> None:
        """Write its configuration, for itself alone; slurm.conf is the controller's service's to write."""
        files = slurm_configuration(lab.spec, lab_parameters(lab)).files
        for node in (lab.nodes[name] for name in nodes):
            node.write(
                str(DIRECTORY / DATABASE_CONFIGURATION), files[DATABASE_CONFIGURATION], mode=0o600, owner=USER
            )
            make_directory(node, LOGS, owner=USER)

    def start(self, lab: SchedulerNodes, nodes: Sequence[str]) -> None:
        """Start it; it waits for its database by itself."""
        for node in (lab.nodes[name] for name in nodes):
            if not runs(node, "slurmdbd"):
                start_daemon(node, ["/usr/sbin/slurmdbd"])
            wait_for(partial(_unavailable_reason, node))
            # It fails where the cluster is known.
            node.run(["sacctmgr", "-i", "-Q", "add", "cluster", lab.spec.name], timeout_s=10.0)

    def lacking(self, lab: SchedulerNodes, node: str) -> str | None:
        """It answers."""
        here = lab.nodes[node]
        if not runs(here, "slurmdbd"):
            return f"slurmdbd does not run: its log is {LOGS}/slurmdbd.log"
        return _unavailable_reason(here)


def _unavailable_reason(node: ServiceNode) -> str | None:
    answer = node.run(["sacctmgr", "-n", "-P", "show", "cluster", "format=Cluster"], timeout_s=4.0)
    said = (answer.stderr or answer.stdout).decode(errors="replace").strip()
    return None if answer.status == 0 and "rror" not in said else f"slurmdbd does not answer: {said[-200:]}"
