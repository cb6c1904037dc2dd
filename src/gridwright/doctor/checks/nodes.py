"""Checks of nodes as members of a grid: they answer, take jobs, are alike, and the scheduler is set well.

A site's settings of the scheduler are its own, so they are looked at and never written.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from gridwright import __version__
from gridwright.doctor.check import Judgement, NodeJudgement, Observation, Topic, idle, judged, unanswered
from gridwright.doctor.facts.node_facts import NodeFacts
from gridwright.errors import GridwrightError
from gridwright.units import format_bytes

if TYPE_CHECKING:
    from gridwright.catalog import InstanceType


def instance_of(observation: Observation, node: str) -> InstanceType | None:
    """The instance type that the spec has for a node; None where it names none, or one that is not known."""
    group = observation.group_of(node) or observation.machine_group_of(node)
    if observation.spec is None or group is None or group.instance is None:
        return None
    from gridwright.catalog import load_catalog

    try:
        return load_catalog().instance(group.instance, observation.spec.provider)
    except GridwrightError:
        return None


NODES = Topic("Nodes")
_LACKS_PYTHON = r"/\S*python[0-9.]*: ([Nn]o such file|not found)"
"""What shells say, bash and dash."""
_NO_PYTHON = (
    "ssh works, and this Python is not on the node: install Gridwright there at the same path; nodes of a "
    "lab have the installation that made it: use that one, or gridwright down and up"
)
USABLE_PART = 0.9
"""Kernel and firmware keep some of the memory that a node has."""


@NODES.check(
    "node-silent",
    "error",
    "a node does not answer",
    reason="Nothing can be started there, and jobs that ran there are lost.",
    source="ssh(1), EXIT STATUS",
    remedy="see whether it is up and takes ssh without a password: ssh NODE true",
    reads=(),
)
def _silent(observation: Observation) -> Iterator[NodeJudgement]:
    for node, reason in observation.silent.items():
        # Nodes that are silent alike are one result, whatever ssh calls each of them.
        alike = re.sub(rf"\b{re.escape(node)}\b", "NODE", reason)
        remedy = _NO_PYTHON if re.search(_LACKS_PYTHON, reason) else None
        yield NodeJudgement((node,), judged(False, alike, "an answer", remedy))
    for node in observation.facts:
        yield NodeJudgement((node,), judged(True, "it answers", "an answer"))


@NODES.check(
    "node-down",
    "error",
    "the scheduler gives a node no jobs",
    reason="No job starts there; jobs wait longer for the nodes that are left.",
    source="sinfo(1), NODE STATE CODES",
    remedy="see what the scheduler says of it (scontrol show node NODE), mend that, and resume it",
    reads=(),
)
def _down(observation: Observation) -> Iterator[NodeJudgement]:
    expected = "idle or at work"
    if observation.spec is None or not observation.spec.scheduler.has_queue:
        yield NodeJudgement(tuple(observation.facts), idle("no scheduler is asked", expected))
        return
    if observation.scheduler_silent is not None:
        yield NodeJudgement(tuple(observation.facts), unanswered("the scheduler does not answer", expected))
        return
    for node, word in observation.down.items():
        yield NodeJudgement((node,), judged(False, f"its scheduler says {word}", expected))
    for node in observation.asleep:
        yield NodeJudgement((node,), unanswered("it is off until a job waits for it", expected))
    beside = tuple(node for node in observation.facts if observation.machine_group_of(node))
    if beside:
        yield NodeJudgement(beside, idle("a machine beside the nodes runs no jobs", expected))
    up = tuple(node for node in observation.facts if node not in (*observation.down, *beside))
    yield NodeJudgement(up, judged(True, "its scheduler gives it jobs", expected))


@NODES.check(
    "scheduler-silent",
    "error",
    "the scheduler does not answer",
    reason="No job can be submitted, and none that waits is started.",
    source="scontrol(1), ping; slurmctld(8)",
    remedy="see whether slurmctld runs on the controller, and what its log says: systemctl status slurmctld",
    reads=(),
)
def _scheduler(observation: Observation) -> Iterator[NodeJudgement]:
    if observation.spec is None or not observation.spec.scheduler.has_queue:
        yield NodeJudgement((), idle("no scheduler is asked"))
    elif observation.scheduler_silent is not None:
        yield NodeJudgement((), judged(False, observation.scheduler_silent, "an answer"))
    else:
        yield NodeJudgement((), judged(True, "it answers", "an answer"))


@NODES.node_check(
    "version-differs",
    "error",
    "a node has another release of Gridwright",
    reason="Nodes of different releases may not understand each other.",
    source="gridwright help doctor, How nodes are asked",
    remedy="install the same release everywhere",
    reads=(),
)
def _version(facts: NodeFacts) -> Judgement:
    return judged(facts.version == __version__, f"gridwright {facts.version}", f"gridwright {__version__}")


@NODES.check(
    "kernel-differs",
    "warning",
    "a node has another kernel than the others",
    reason="Speed and bugs differ by kernel, and a launch is as slow as its slowest node.",
    source="uname(2); gridwright help workload",
    remedy="install the same kernel on all nodes, and restart those that still run the old one",
)
def _kernels(observation: Observation) -> Iterator[NodeJudgement]:
    yield from odd_ones(observation, lambda facts: f"Linux {facts.system.kernel}" if facts.system else None)


@NODES.check(
    "system-differs",
    "warning",
    "a node has another system or architecture than the others",
    reason="Programs and libraries of one release may not run on another, or give other results.",
    source="os-release(5)",
    remedy="install the same release of the system on all nodes of a group",
)
def _systems(observation: Observation) -> Iterator[NodeJudgement]:
    def system(facts: NodeFacts) -> str | None:
        return f"{facts.system.release}, {facts.system.architecture}" if facts.system else None

    yield from odd_ones(observation, system)


def odd_ones(observation: Observation, value: Callable[[NodeFacts], str | None]) -> Iterator[NodeJudgement]:
    """Nodes that differ from most others of their group in a value; where few nodes are known, none does."""
    groups: dict[int, dict[str, str]] = {}
    for node, facts in observation.facts.items():
        group = observation.group_of(node) or observation.machine_group_of(node)
        if (found := value(facts)) is not None:
            groups.setdefault(id(group), {})[node] = found
        else:
            yield NodeJudgement((node,), unanswered("the node does not tell"))
    for members in groups.values():
        usual = Counter(members.values()).most_common(1)[0][0]
        for node, member in members.items():
            judgement = judged(member == usual, member, f"{usual}, as on most nodes")
            yield NodeJudgement(
                (node,), judgement if len(members) > 1 else idle(member, "the same on all nodes")
            )


def shared_ones(
    observation: Observation, value: Callable[[NodeFacts], str | None], what: str
) -> Iterator[NodeJudgement]:
    """Nodes that have a value in common that each should have for itself."""
    holders: dict[str, list[str]] = {}
    for node, facts in observation.facts.items():
        if (found := value(facts)) is not None:
            holders.setdefault(found, []).append(node)
    for found, nodes in holders.items():
        if len(observation.facts) < 2:
            yield NodeJudgement(tuple(nodes), idle(f"{what} {found}", "another on each node"))
            continue
        text = f"{what} {found}" if len(nodes) == 1 else f"{what} {found} on {len(nodes)} nodes"
        yield NodeJudgement(tuple(nodes), judged(len(nodes) == 1, text, "another on each node"))


@NODES.check(
    "host-name-double",
    "error",
    "nodes have the same host name",
    reason="Slurm, logs and locks tell nodes apart by their names: two of one name are taken for one.",
    source="slurm.conf(5), NodeHostname",
    remedy="set the name of each node: hostnamectl set-hostname NAME",
)
def _host_names(observation: Observation) -> Iterator[NodeJudgement]:
    yield from shared_ones(observation, lambda facts: facts.hostname, "host name")


@NODES.check(
    "machine-id-double",
    "warning",
    "nodes have the same machine ID",
    reason="They are copies of one image: DHCP may give both one address, and journals get mixed up.",
    source="machine-id(5)",
    remedy="on each copy: rm /etc/machine-id, systemd-machine-id-setup, restart",
)
def _identities(observation: Observation) -> Iterator[NodeJudgement]:
    if observation.shares_one_kernel:
        yield NodeJudgement(
            tuple(observation.facts), idle("nodes of a lab are one machine", "another on each node")
        )
        return
    yield from shared_ones(
        observation, lambda facts: facts.system.identity if facts.system else None, "machine ID (its digest)"
    )


def _promised_cores(observation: Observation, node: str) -> int | None:
    group = observation.group_of(node)
    return group.cores if group else None


@NODES.check(
    "cores-missing",
    "error",
    "a node has fewer cores than the spec says",
    reason="Jobs get fewer cores than they are promised, and share those that there are.",
    source="gridwright help grid-spec, nodes.NAME.cores",
    remedy="correct cores: in the spec, or see whether cores are switched off",
)
def _cores(observation: Observation) -> Iterator[NodeJudgement]:
    for node, facts in observation.facts.items():
        wanted = _promised_cores(observation, node)
        if wanted is None or observation.shares_one_kernel:
            word = (
                "the spec names no cores" if wanted is None else "nodes of a lab share this machine's cores"
            )
            yield NodeJudgement((node,), idle(word))
            continue
        # Where the topology is not told, logical processors are all that is known.
        has = facts.processors.cores if facts.processors else facts.cpus
        yield NodeJudgement((node,), judged(has >= wanted, f"{has} cores", f"{wanted} cores"))


@NODES.check(
    "memory-missing",
    "error",
    "a node has less memory than the spec says",
    reason="Jobs that use the memory they are promised are killed.",
    source="gridwright help grid-spec, nodes.NAME.memory",
    remedy="correct memory: in the spec, or see whether a module failed",
)
def _memory(observation: Observation) -> Iterator[NodeJudgement]:
    for node, facts in observation.facts.items():
        group = observation.group_of(node)
        if group is None or group.memory is None:
            yield NodeJudgement((node,), idle("the spec names no memory"))
            continue
        enough = facts.memory_bytes >= USABLE_PART * group.memory
        yield NodeJudgement((node,), judged(enough, format_bytes(facts.memory_bytes), str(group.memory)))


@NODES.check(
    "instance-smaller",
    "error",
    "a node is smaller than the instance type of the spec",
    reason="The grid was planned with the cores and the memory of that type.",
    source="the catalogue: gridwright catalog show TYPE",
    remedy="see what the node really is (its metadata service tells), and replace it or correct the spec",
)
def _instances(observation: Observation) -> Iterator[NodeJudgement]:
    for node, facts in observation.facts.items():
        instance = instance_of(observation, node)
        if instance is None:
            yield NodeJudgement((node,), idle("its instance type is not in the spec"))
            continue
        has = facts.processors.cores if facts.processors else facts.cpus
        enough = has >= instance.cores and facts.memory_bytes >= USABLE_PART * instance.memory_bytes
        found = f"{has} cores, {format_bytes(facts.memory_bytes)}"
        expected = f"{instance.name}: {instance.cores} cores, {format_bytes(instance.memory_bytes)}"
        yield NodeJudgement((node,), judged(enough, found, expected))


@NODES.check(
    "scheduler-sees-other",
    "warning",
    "the scheduler takes a node for another than it is",
    reason="Cores that the scheduler does not know of stay idle; of cores that are not there it gives out "
    "more than there are.",
    source="slurm.conf(5), NODE CONFIGURATION",
    remedy="correct the node's line in slurm.conf after slurmd -C, then: scontrol reconfigure",
)
def _scheduled(observation: Observation) -> Iterator[NodeJudgement]:
    for node, facts in observation.facts.items():
        promised, wanted = observation.promised.get(node), _promised_cores(observation, node)
        if promised is None or observation.shares_one_kernel:
            yield NodeJudgement((node,), idle("no scheduler was asked of it, or the lab declares its nodes"))
            continue
        has = facts.processors.cores if facts.processors else facts.cpus
        right = promised.cores in (has, facts.cpus, wanted) and promised.memory_bytes <= facts.memory_bytes
        found = f"its scheduler says {promised.cores} cores, {format_bytes(promised.memory_bytes)}"
        expected = f"{has} cores, {format_bytes(facts.memory_bytes)} at most"
        yield NodeJudgement((node,), judged(right, found, expected))


SCHEDULER = Topic("Scheduler")


@SCHEDULER.check(
    "scheduler-setting-harmful",
    "warning",
    "a setting of the scheduler loses jobs or nodes",
    reason="What it costs is said with each.",
    source="gridwright help slurm, An existing Slurm",
    remedy="change it where the site keeps its scheduler's configuration",
)
def _harmful(observation: Observation) -> Iterator[NodeJudgement]:
    return _compared(observation, harmful=True)


@SCHEDULER.check(
    "scheduler-setting-differs",
    "info",
    "a setting of the scheduler leaves cores idle for longer than need be",
    reason="What it costs is said with each.",
    source="gridwright help slurm, An existing Slurm",
    remedy="change it where the site keeps its scheduler's configuration, or silence it with the reason",
)
def _differing(observation: Observation) -> Iterator[NodeJudgement]:
    return _compared(observation, harmful=False)


@SCHEDULER.check(
    "state-directory-unsafe",
    "warning",
    "the state directory is not as set-up makes it: a part is missing, or another user's",
    reason="Users cannot use a part that is missing. Whoever owns one, or can write a directory above it, "
    "keeps others from their queue. Nothing of it is run: each command stops there.",
    source="gridwright help jobs, The state directory",
    remedy="run gridwright setup as root; look at what is another user's, and move it away; what is above it "
    "is to be root's, writable for no other",
)
def _state(observation: Observation) -> Iterator[NodeJudgement]:
    if observation.state_faults is None:
        yield NodeJudgement((), idle("the grid has no state directory that users share"))
        return
    for state_fault in observation.state_faults or ["all is root's"]:
        yield NodeJudgement(
            (), judged(not observation.state_faults, state_fault, "root's, mode 755, and parts of mode 1777")
        )


def _compared(observation: Observation, *, harmful: bool) -> Iterator[NodeJudgement]:
    settings = [
        scheduler_setting
        for scheduler_setting in observation.scheduler_settings
        if scheduler_setting.harmful is harmful
    ]
    if not settings:
        yield NodeJudgement((), idle("no scheduler tells its settings"))
    for setting in settings:
        found = f"{setting.name} is {setting.found}" + ("" if setting.ok else f": {setting.cost}")
        recommended = f"{setting.name} {setting.recommended} ({setting.source})"
        yield NodeJudgement((), judged(setting.ok, found, recommended, setting.remedy))
