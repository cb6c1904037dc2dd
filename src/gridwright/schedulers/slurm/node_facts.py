"""The hardware of nodes as `slurm.conf` declares it: names, cores and memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from gridwright.errors import environment_error
from gridwright.spec.model import GridSpec

MIB = 1 << 20
USABLE_PART = 0.95
"""Of the memory that a cloud lists for a type: firmware and kernel keep the rest, and a node that has less
than it was declared with is drained. AWS ParallelCluster takes the same part (its configuration reference,
SchedulableMemory: by default 95 % of the memory listed for the instance type)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """One node as `slurm.conf` describes it."""

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

    @property
    def memory_mib(self) -> int:
        """What jobs may use, in whole MiB as Slurm counts."""
        return self.memory_bytes // MIB


def node_facts(spec: GridSpec, machines: Mapping[str, NodeFacts]) -> list[NodeFacts]:
    """The nodes that run jobs, in the order of the spec; `machines` describes one node of each group.

    What the spec says of cores and memory comes before what a machine has. Nodes of a lab are this machine
    many times over, and may have more cores than there are: they are declared as they are wanted.
    """
    nodes: list[NodeFacts] = []
    for name, group in spec.nodes.items():
        machine = machines[name]
        if not spec.provider_kind.has_own_kernels:
            cores = group.cores or machine.all_cores
            machine = replace(machine, sockets=1, cores_per_socket=cores, threads_per_core=1)
        machine = replace(machine, cores=group.cores, memory_bytes=group.memory or machine.memory_bytes)
        nodes += [replace(machine, name=each) for each in group.node_names(name)]
    return nodes


def parse_slurmd_facts(text: str) -> NodeFacts:
    """What `slurmd -C` prints of the node that it runs on. Raises GridwrightError (status ENVIRONMENT)."""
    found = dict(re.findall(r"\b(\w+)=(\S+)", text))
    try:
        boards, per_board = int(found.get("Boards", 1)), found.get("SocketsPerBoard")
        facts = NodeFacts(
            name=found["NodeName"],
            sockets=boards * int(per_board) if per_board else int(found.get("Sockets", 1)),
            cores_per_socket=int(found["CoresPerSocket"]),
            threads_per_core=int(found["ThreadsPerCore"]),
            memory_bytes=int(found["RealMemory"]) * MIB,
        )
    except (KeyError, ValueError) as error:
        raise environment_error(
            f"slurmd -C does not describe a node: {text.strip()[:200]!r}",
            remedy="See whether slurmd of releases 22.05 to 24.11 is installed",
        ) from error
    if min(facts.sockets, facts.cores_per_socket, facts.threads_per_core, facts.memory_bytes) < 1:
        raise environment_error(f"slurmd -C describes a node without cores or memory: {text.strip()[:200]!r}")
    return facts


def node_line(node: NodeFacts, names: Iterable[str], declared: bool) -> str:
    """The line of `slurm.conf` for nodes that are like `node`.

    CPUs is the number of cores where a core has several threads, too: Slurm then gives out cores, never
    threads (slurm.conf(5), CPUs). Cores that jobs must not use are set aside by CoreSpecCount. `declared`:
    what is said here counts, whatever slurmd finds.
    """
    parts = [
        f"NodeName={fold(names)}",
        f"CPUs={node.all_cores}",
        f"Sockets={node.sockets}",
        f"CoresPerSocket={node.cores_per_socket}",
        f"ThreadsPerCore={node.threads_per_core}",
        f"RealMemory={node.memory_mib}",
    ]
    if not declared and node.usable_cores < node.all_cores:
        parts.append(f"CoreSpecCount={node.all_cores - node.usable_cores}")
    return " ".join([*parts, "State=UNKNOWN"])


def fold(names: Iterable[str]) -> str:
    """Names as Slurm writes many: `compute[1-3]`."""
    from ClusterShell.NodeSet import NodeSet

    return str(NodeSet.fromlist(list(names)))
