"""Slurm in a lab: slurmctld on the controller, slurmd on the nodes that run jobs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gridwright.node_programs.health.configuration import CONFIGURATION
from gridwright.node_programs.one_file import HEALTH, HEALTH_STARTER, HEALTH_STARTER_TEXT
from gridwright.node_programs.power.slurm_programs import PROGRAMS, program
from gridwright.schedulers.in_lab import SchedulerNodes
from gridwright.schedulers.machines import CgroupVersion, GridMachines, NodeHardware, hardware_of_nodes
from gridwright.schedulers.slurm.configuration import (
    DATABASE_CONFIGURATION,
    DIRECTORY,
    LOGS,
    SPOOL,
    USER,
    slurm_configuration,
    state_location,
)
from gridwright.schedulers.slurm.node_lines import parse_slurmd_hardware
from gridwright.schedulers.slurm.parameters import SlurmParameters, parse_release, slurm_parameters
from gridwright.services.daemon import call, make_directory, run_on_nodes, runs, start_daemon
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
