"""Checks of nodes as members of a grid: they answer, take jobs, and are alike."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator

from gridwright import __version__
from gridwright.doctor.check import Answer, Topic, Verdict, idle, judged
from gridwright.doctor.facts.node_facts import NodeFacts
from gridwright.doctor.instances import instance_of
from gridwright.doctor.observation import Seen
from gridwright.units import format_bytes

NODES = Topic("Nodes")
USABLE_PART = 0.9
"""Kernel and firmware keep some of the memory that a node has."""


@NODES.check(
    "node-silent",
    "error",
    "a node does not answer",
    reason="Nothing can be started there, and jobs that ran there are lost.",
    source="ssh(1), EXIT STATUS",
    remedy="see whether it is up and takes ssh without a password: ssh NODE true",
)
def _silent(seen: Seen) -> Iterator[Answer]:
    for node, reason in seen.silent.items():
        # Nodes that are silent alike are one result, whatever ssh calls each of them.
        yield Answer((node,), judged(False, re.sub(rf"\b{re.escape(node)}\b", "NODE", reason), "an answer"))
    for node in seen.facts:
        yield Answer((node,), judged(True, "it answers", "an answer"))


@NODES.check(
    "node-down",
    "error",
    "the scheduler gives a node no jobs",
    reason="No job starts there; jobs wait longer for the nodes that are left.",
    source="sinfo(1), NODE STATE CODES",
    remedy="see what the scheduler says of it (scontrol show node NODE), mend that, and resume it",
)
def _down(seen: Seen) -> Iterator[Answer]:
    expected = "idle or at work"
    if seen.spec is None or not seen.spec.scheduler.has_queue:
        yield Answer(tuple(seen.facts), idle("no scheduler is asked", expected))
        return
    if seen.scheduler_silent is not None:
        yield Answer(tuple(seen.facts), idle("the scheduler does not answer", expected))
        return
    for node, word in seen.down.items():
        yield Answer((node,), judged(False, f"its scheduler says {word}", expected))
    up = tuple(node for node in seen.facts if node not in seen.down)
    yield Answer(up, judged(True, "its scheduler gives it jobs", expected))


@NODES.check(
    "scheduler-silent",
    "error",
    "the scheduler does not answer",
    reason="No job can be handed in, and none that waits is started.",
    source="scontrol(1), ping; slurmctld(8)",
    remedy="see whether slurmctld runs on the controller, and what its log says: systemctl status slurmctld",
)
def _scheduler(seen: Seen) -> Iterator[Answer]:
    if seen.spec is None or not seen.spec.scheduler.has_queue:
        yield Answer((), idle("no scheduler is asked"))
    elif seen.scheduler_silent is not None:
        yield Answer((), judged(False, seen.scheduler_silent, "an answer"))
    else:
        yield Answer((), judged(True, "it answers", "an answer"))


@NODES.node_check(
    "version-differs",
    "error",
    "a node has another release of Gridwright",
    reason="Nodes of different releases may not understand each other.",
    source="docs/doctor.md, How nodes are asked",
    remedy="install the same release everywhere",
)
def _version(facts: NodeFacts) -> Verdict:
    return judged(facts.version == __version__, f"gridwright {facts.version}", f"gridwright {__version__}")


@NODES.check(
    "kernel-differs",
    "warning",
    "a node has another kernel than the others",
    reason="Speed and bugs differ by kernel, and a launch is as slow as its slowest node.",
    source="uname(2); docs/workload.md",
    remedy="install the same kernel on all nodes, and restart those that still run the old one",
)
def _kernels(seen: Seen) -> Iterator[Answer]:
    yield from odd_ones(seen, lambda facts: f"Linux {facts.system.kernel}" if facts.system else None)


@NODES.check(
    "system-differs",
    "warning",
    "a node has another system or architecture than the others",
    reason="Programs and libraries of one release may not run on another, or give other results.",
    source="os-release(5)",
    remedy="install the same release of the system on all nodes of a group",
)
def _systems(seen: Seen) -> Iterator[Answer]:
    def system(facts: NodeFacts) -> str | None:
        return f"{facts.system.release}, {facts.system.architecture}" if facts.system else None

    yield from odd_ones(seen, system)


def odd_ones(seen: Seen, value: Callable[[NodeFacts], str | None]) -> Iterator[Answer]:
    """Nodes that differ from most others of their group in a value; where few nodes are known, none does."""
    groups: dict[int, dict[str, str]] = {}
    for node, facts in seen.facts.items():
        group = seen.group_of(node)
        if (found := value(facts)) is not None:
            groups.setdefault(id(group), {})[node] = found
        else:
            yield Answer((node,), idle("the node does not tell"))
    for members in groups.values():
        usual = Counter(members.values()).most_common(1)[0][0]
        for node, each in members.items():
            verdict = judged(each == usual, each, f"{usual}, as on most nodes")
            yield Answer((node,), verdict if len(members) > 1 else idle(each, "the same on all nodes"))


def shared_ones(seen: Seen, value: Callable[[NodeFacts], str | None], what: str) -> Iterator[Answer]:
    """Nodes that have a value in common that each should have for itself."""
    holders: dict[str, list[str]] = {}
    for node, facts in seen.facts.items():
        if (found := value(facts)) is not None:
            holders.setdefault(found, []).append(node)
    for found, nodes in holders.items():
        if len(seen.facts) < 2:
            yield Answer(tuple(nodes), idle(f"{what} {found}", "another on each node"))
            continue
        text = f"{what} {found}" if len(nodes) == 1 else f"{what} {found} on {len(nodes)} nodes"
        yield Answer(tuple(nodes), judged(len(nodes) == 1, text, "another on each node"))


@NODES.check(
    "host-name-double",
    "error",
    "nodes have the same host name",
    reason="Slurm, logs and locks tell nodes apart by their names: two of one name are taken for one.",
    source="slurm.conf(5), NodeHostname",
    remedy="set the name of each node: hostnamectl set-hostname NAME",
)
def _host_names(seen: Seen) -> Iterator[Answer]:
    yield from shared_ones(seen, lambda facts: facts.hostname, "host name")


@NODES.check(
    "machine-id-double",
    "warning",
    "nodes have the same machine ID",
    reason="They are copies of one image: DHCP may give both one address, and journals get mixed up.",
    source="machine-id(5)",
    remedy="on each copy: rm /etc/machine-id, systemd-machine-id-setup, restart",
)
def _identities(seen: Seen) -> Iterator[Answer]:
    if seen.spec is not None and seen.spec.provider == "lab":
        yield Answer(tuple(seen.facts), idle("nodes of a lab are one machine", "another on each node"))
        return
    yield from shared_ones(
        seen, lambda facts: facts.system.identity if facts.system else None, "machine ID (its digest)"
    )


def _promised_cores(seen: Seen, node: str) -> int | None:
    group = seen.group_of(node)
    return group.cores if group else None


@NODES.check(
    "cores-missing",
    "error",
    "a node has fewer cores than the spec says",
    reason="Jobs get fewer cores than they are promised, and share those that there are.",
    source="docs/grid-spec.md, nodes.NAME.cores",
    remedy="correct cores: in the spec, or see whether cores are switched off",
)
def _cores(seen: Seen) -> Iterator[Answer]:
    for node, facts in seen.facts.items():
        wanted = _promised_cores(seen, node)
        if wanted is None or (seen.spec is not None and seen.spec.provider == "lab"):
            word = (
                "the spec names no cores" if wanted is None else "nodes of a lab share this machine's cores"
            )
            yield Answer((node,), idle(word))
            continue
        # Where the topology is not told, logical processors are all that is known.
        has = facts.processors.cores if facts.processors else facts.cpus
        yield Answer((node,), judged(has >= wanted, f"{has} cores", f"{wanted} cores"))


@NODES.check(
    "memory-missing",
    "error",
    "a node has less memory than the spec says",
    reason="Jobs that use the memory they are promised are killed.",
    source="docs/grid-spec.md, nodes.NAME.memory",
    remedy="correct memory: in the spec, or see whether a module failed",
)
def _memory(seen: Seen) -> Iterator[Answer]:
    for node, facts in seen.facts.items():
        group = seen.group_of(node)
        if group is None or group.memory is None:
            yield Answer((node,), idle("the spec names no memory"))
            continue
        enough = facts.memory_bytes >= USABLE_PART * group.memory
        yield Answer((node,), judged(enough, format_bytes(facts.memory_bytes), str(group.memory)))


@NODES.check(
    "instance-smaller",
    "error",
    "a node is smaller than the instance type of the spec",
    reason="The grid was planned with the cores and the memory of that type.",
    source="the catalogue: gridwright catalog show TYPE",
    remedy="see what the node really is (its metadata service tells), and replace it or correct the spec",
)
def _instances(seen: Seen) -> Iterator[Answer]:
    for node, facts in seen.facts.items():
        instance = instance_of(seen, node)
        if instance is None:
            yield Answer((node,), idle("its instance type is not in the spec"))
            continue
        has = facts.processors.cores if facts.processors else facts.cpus
        enough = has >= instance.cores and facts.memory_bytes >= USABLE_PART * instance.memory_bytes
        found = f"{has} cores, {format_bytes(facts.memory_bytes)}"
        expected = f"{instance.name}: {instance.cores} cores, {format_bytes(instance.memory_bytes)}"
        yield Answer((node,), judged(enough, found, expected))


@NODES.check(
    "scheduler-sees-other",
    "warning",
    "the scheduler takes a node for another than it is",
    reason="Cores that the scheduler does not know of stay idle; of cores that are not there it gives out "
    "more than there are.",
    source="slurm.conf(5), NODE CONFIGURATION",
    remedy="correct the node's line in slurm.conf after slurmd -C, then: scontrol reconfigure",
)
def _scheduled(seen: Seen) -> Iterator[Answer]:
    for node, facts in seen.facts.items():
        promised, wanted = seen.promised.get(node), _promised_cores(seen, node)
        if promised is None or (seen.spec is not None and seen.spec.provider == "lab"):
            yield Answer((node,), idle("no scheduler was asked of it, or the lab declares its nodes"))
            continue
        has = facts.processors.cores if facts.processors else facts.cpus
        right = promised.cores in (has, facts.cpus, wanted) and promised.memory_bytes <= facts.memory_bytes
        found = f"its scheduler says {promised.cores} cores, {format_bytes(promised.memory_bytes)}"
        expected = f"{has} cores, {format_bytes(facts.memory_bytes)} at most"
        yield Answer((node,), judged(right, found, expected))
