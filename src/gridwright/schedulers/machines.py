"""The machines of a grid as its provider has or makes them: what a scheduler is set up for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

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
