"""Writes the queues of a grid spec as partitions of Slurm."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gridwright.errors import Finding
from gridwright.schedulers.machines import NodeHardware
from gridwright.schedulers.slurm.node_lines import MIB
from gridwright.schedulers.slurm.power_saving import suspend_time
from gridwright.spec.hosts import fold_hosts
from gridwright.spec.model import GridSpec
from gridwright.spec.scheduler import Queue


@dataclass(frozen=True, slots=True)
class CoreLimit:
    """How a partition is kept to a number of cores: some nodes, and on each no more than `per_node` cores."""

    nodes: tuple[str, ...]
    per_node: int
    cores: int
    """What its jobs can use at the same time: never more than was allowed."""


def core_limit(nodes: Sequence[NodeHardware], allowed: int) -> CoreLimit:
    """The nodes and the cores of each that come nearest to `allowed` cores in all, and do not exceed it.

    Slurm without its database has no limit for all jobs of a partition (GrpTRES is of a QOS, and those are
    kept in the database); MaxCPUsPerNode limits what all jobs of a partition use of each node
    (slurm.conf(5)). Among equally near choices, the one with most cores on a node is taken: the widest
    job fits.
    """
    best = CoreLimit((), 0, 0)
    widest = max(node.usable_cores for node in nodes)
    for per_node in range(min(allowed, widest), 0, -1):
        names, total = [], 0
        for node in nodes:
            cores = min(per_node, node.usable_cores)
            if total + cores <= allowed:
                names.append(node.name)
                total += cores
        if total > best.cores:
            best = CoreLimit(tuple(names), per_node, total)
        if best.cores == allowed:
            break
    return best


def default_memory_mib(nodes: Sequence[NodeHardware]) -> int:
    """The smallest share of memory that a core has, over all these nodes, in MiB."""
    return max(1, min(node.memory_bytes // max(1, node.usable_cores) // MIB for node in nodes))


def partition_lines(spec: GridSpec, nodes: Sequence[NodeHardware]) -> Iterable[str]:
    """One line of `slurm.conf` for each queue; the first is the default.

    Where all nodes of a queue have more memory for each core than the grid's narrowest, its jobs get
    more by default.
    """
    for number, (name, queue) in enumerate(spec.scheduler.queues.items()):
        own = nodes_of(spec, queue, nodes)
        on, per_node = [node.name for node in own], None
        if queue.cores is not None and queue.cores < _cores(own):
            limit = core_limit(own, queue.cores)
            on, per_node = list(limit.nodes), limit.per_node
        parts = [
            f"PartitionName={name}",
            f"Nodes={fold_hosts(on)}",
            f"Default={'YES' if number == 0 else 'NO'}",
            f"PriorityTier={queue.priority}",
            f"MaxTime={'INFINITE' if queue.time is None else math.ceil(queue.time / 60)}",
        ]
        if per_node is not None:
            parts.append(f"MaxCPUsPerNode={per_node}")
        if default_memory_mib(own) > default_memory_mib(nodes):
            parts.append(f"DefMemPerCPU={default_memory_mib(own)}")
        if (idle := suspend_time(spec, queue)) is not None:
            parts.append(f"SuspendTime={idle}")
        yield " ".join([*parts, "State=UP"])


def nodes_of(spec: GridSpec, queue: Queue, nodes: Sequence[NodeHardware]) -> list[NodeHardware]:
    """The nodes of the groups that a queue is for; all where it names none."""
    if queue.nodes is None:
        return list(nodes)
    names = {name for group in queue.nodes for name in spec.nodes[group].node_names(group)}
    return [node for node in nodes if node.name in names]


def _cores(nodes: Sequence[NodeHardware]) -> int:
    return sum(node.usable_cores for node in nodes)


def queue_findings(spec: GridSpec, nodes: Sequence[NodeHardware]) -> list[Finding]:
    """What of the queues Slurm cannot keep exactly."""
    findings = []
    for name, queue in spec.scheduler.queues.items():
        own = nodes_of(spec, queue, nodes)
        if queue.cores is None or queue.cores >= _cores(own):
            continue
        limit = core_limit(own, queue.cores)
        if limit.cores == queue.cores and len(limit.nodes) == len(own):
            continue
        less = (
            ""
            if limit.cores == queue.cores
            else f", {limit.cores} of the {queue.cores} cores that it may use"
        )
        findings.append(
            Finding(
                "warning",
                "queue-on-fewer-nodes",
                f"queue {name} gets {limit.per_node} cores on each of {fold_hosts(limit.nodes)}{less}: "
                "Slurm without its database limits a queue by nodes only",
                "Write cores as a multiple of the number of nodes; or keep accounting in slurmdbd, and limit "
                f"the partition by a QOS: sacctmgr add qos {name} set GrpTRES=cpu={queue.cores}",
            )
        )
    return findings
