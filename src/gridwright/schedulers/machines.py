"""The machines of a grid that a scheduler is set up for: who they are, how they talk, what sets it up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from gridwright.errors import Finding
from gridwright.services.ports import Ports
from gridwright.services.service import ServiceNodes
from gridwright.spec.model import GridSpec

USABLE_PART = 0.95
"""Of the memory that a cloud lists for a type: firmware and kernel keep the rest, and a node that has less
than it was declared with is drained. AWS ParallelCluster takes the same part (its configuration reference,
SchedulableMemory: by default 95 % of the memory listed for the instance type)."""


class CgroupVersion(StrEnum):
    """Which control groups the nodes have; a system with both kinds mounted counts as its v1 controllers."""

    V1 = "v1"
    V2 = "v2"
    NONE = "none"


def detect_cgroups(mounts: str) -> CgroupVersion:
    """Which control groups a system has, read from its `/proc/mounts`.

    A scheduler's plugin for v2 may refuse a system that has v1 controllers mounted, too (Slurm: "Hybrid mode
    is not supported"), so those come first. Without memory, freezer and cpuset v1 is of no use for jobs.
    """
    fields = [line.split() for line in mounts.splitlines()]
    v1 = {
        option
        for field in fields
        if len(field) > 3 and field[2] == "cgroup"
        for option in field[3].split(",")
    }
    if v1:
        return CgroupVersion.V1 if {"memory", "freezer", "cpuset"} <= v1 else CgroupVersion.NONE
    return (
        CgroupVersion.V2
        if any(len(field) > 2 and field[2] == "cgroup2" for field in fields)
        else CgroupVersion.NONE
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHardware:
    """One node as its scheduler knows it."""

    name: str
    sockets: int = 1
    cores_per_socket: int
    threads_per_core: int = 1
    memory_bytes: int
    """What jobs may use."""
    cores: int | None = None
    """Physical cores that jobs may use; None: all that it has."""

    @property
    def all_cores(self) -> int:
        """Its physical cores, whether jobs may use them or not."""
        return self.sockets * self.cores_per_socket

    @property
    def usable_cores(self) -> int:
        """Physical cores that jobs may use: never more than it has."""
        return self.all_cores if self.cores is None else min(self.cores, self.all_cores)


@dataclass(frozen=True, slots=True, kw_only=True)
class GridMachines:
    """Everything that the configuration of a scheduler depends on, beside the grid spec."""

    controller: str
    """Host name of the node that the scheduler's own service runs on."""
    nodes: Sequence[NodeHardware]
    cgroups: CgroupVersion = CgroupVersion.V2
    systemd: bool = True
    """Whether systemd runs on the nodes, and hands out control groups."""
    swap_limits: bool = True
    """Whether control groups of the nodes can limit swap, as kernels can that account for it."""
    share_one_machine: bool = False
    """Whether all nodes are on one machine, as in a lab, and may be declared with more than it has."""


def hardware_of_nodes(
    spec: GridSpec, machines: Mapping[str, NodeHardware], *, share_one_machine: bool = False
) -> list[NodeHardware]:
    """The nodes that run jobs, in the order of the spec; `machines` describes one node of each group.

    What the spec says of cores and memory comes before what a machine has. Nodes that share one machine may
    have more cores than there are: they are declared as they are wanted.
    """
    nodes: list[NodeHardware] = []
    for name, group in spec.nodes.items():
        machine = machines[name]
        if share_one_machine:
            cores = group.cores or machine.all_cores
            machine = replace(machine, sockets=1, cores_per_socket=cores, threads_per_core=1)
        machine = replace(machine, cores=group.cores, memory_bytes=group.memory or machine.memory_bytes)
        nodes += [replace(machine, name=node_name) for node_name in group.node_names(name)]
    return nodes


class GridPart(StrEnum):
    """Machines of a grid, by what they are there for."""

    LOGIN = "login"
    """Where users submit jobs."""
    HEAD = "head"
    """Where the scheduler's own service runs."""
    COMPUTE = "compute"
    """The nodes that run jobs."""


@dataclass(frozen=True, slots=True)
class NetworkRule:
    """Who may reach whom on which ports, and why."""

    target: GridPart
    source: GridPart
    ports: Ports
    why: str


@dataclass(frozen=True, slots=True)
class SharedKey:
    """A secret that is the same on all nodes; each deployment of a grid has its own."""

    name: str
    """One word, in lower case."""
    length: int
    """How many letters and digits it has."""
    variable: str
    """The variable of the playbook that names the file which holds it."""


@dataclass(frozen=True, slots=True)
class SetupStep:
    """Commands for administrators who set the scheduler up by hand, as root on the controller."""

    title: str
    commands: Sequence[str]
    beside_playbook: str | None = None
    """The command to run before it, where the playbook leaves this step out; None: it takes the step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSetup:
    """The set-up of one grid's scheduler; all of it is empty where there is nothing to set up."""

    files: Mapping[str, str | bytes] = field(default_factory=dict)
    """Configuration by its path in the rendered directory."""
    file_meanings: Mapping[str, str] = field(default_factory=dict)
    """What each file is, for README.md."""
    directory: str = ""
    """Where nodes have these files."""
    variables: Mapping[str, Any] = field(default_factory=dict)
    """What the kind's role of the playbook has to know."""
    findings: Sequence[Finding] = ()
    """What of the spec the scheduler cannot keep exactly."""
    key_note: str = ""
    """Where the key is that the files do not hold."""
    introduction: str = ""
    """What holds for all steps."""
    steps: Sequence[SetupStep] = ()
    hardware_check: str = ""
    """How to see whether nodes have what the files say of them."""


class LabCgroups(Protocol):
    """What the nodes of a lab have of control groups."""

    @property
    def kind(self) -> str:
        """v1, v2 or none."""

    @property
    def controllers(self) -> Sequence[str]:
        """Such as freezer, memory, cpuset, pids: those that nodes can use."""

    @property
    def mountpoint(self) -> str:
        """Where nodes see them; with v1, each controller in a directory of its name below."""


class SchedulerNodes(ServiceNodes, Protocol):
    """The nodes that are up, and what services of a scheduler have to know of the lab."""

    @property
    def spec(self) -> GridSpec:
        """The grid spec."""

    @property
    def controller(self) -> str:
        """The name of the node that the scheduler's own service runs on, whether it is up or not."""

    @property
    def state(self) -> Path:
        """The state directory, at the same path on all nodes and here."""

    @property
    def cgroups(self) -> LabCgroups:
        """What nodes have of control groups."""

    @property
    def health(self) -> Mapping[str, Any]:
        """What nodes that run jobs must have mounted, as node_programs/health/configuration.py reads it."""
