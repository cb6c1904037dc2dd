"""Reads the configuration, partitions and nodes of a running Slurm with scontrol."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gridwright.schedulers.batch.system import BatchFacts, BatchQueue
from gridwright.schedulers.job import NodeState
from gridwright.schedulers.slurm.record import JobRecord
from gridwright.schedulers.slurm.tools import Tools
from gridwright.spec.cluster_shell import NodeSet

KEPT_S = 60.0
"""How long what was read is used for submissions: nodes and partitions change seldom, and a wrong guess is
corrected by sbatch."""
MIB = 2**20
"""Slurm counts memory in MiB (slurm.conf(5), RealMemory)."""

_DOWN = frozenset(
    {
        "DOWN",
        "DRAIN",
        "DRAINED",
        "DRAINING",
        "ERROR",
        "FAIL",
        "FAILING",
        "FUTURE",
        "INVALID_REG",
        "MAINT",
        "NOT_RESPONDING",
        "POWERED_DOWN",
        "POWERING_DOWN",
        "POWERING_UP",
        "REBOOT_ISSUED",
        "REBOOT_REQUESTED",
        "UNKNOWN",
    }
)


SUBMIT_LINE = 1_048_576
"""Bytes that slurmctld takes of a command line of sbatch by default (max_submit_line_size, slurm.conf(5))."""
_POWER = frozenset({"POWERED_DOWN", "POWERING_DOWN", "POWERING_UP"})
"""Of nodes that Slurm powers on when a job waits for them, where nothing else is wrong with them."""
_QUIET = frozenset({"NOT_RESPONDING"})
"""Nobody who is off, or starting, answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition(BatchQueue):
    """A queue, with what Slurm alone tells of it."""

    default: bool
    has_default_memory: bool
    fields: Mapping[str, str] = field(default_factory=dict)
    """All of it, as `scontrol show partition` has it."""


@dataclass(frozen=True, slots=True)
class SlurmNode:
    """A node, with what its scheduler gives to jobs."""

    state: NodeState
    threads: int
    """CPUs of a core, of which jobs get all."""
    features: frozenset[str] = frozenset()
    """What jobs may ask for by --constraint."""

    @property
    def memory_per_core(self) -> int:
        """Bytes."""
        return self.state.memory_bytes // max(1, self.state.cores)


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Slurm."""

    config: Mapping[str, str]
    """As `scontrol show config` has it."""
    partitions: Mapping[str, Partition]
    nodes: Mapping[str, SlurmNode]

    def partition(self, name: str | None) -> Partition | None:
        """A partition by name, or the default one."""
        if name is not None:
            return self.partitions.get(name)
        return next((partition for partition in self.partitions.values() if partition.default), None)

    def nodes_of(self, partition: Partition | None) -> list[SlurmNode]:
        """The nodes that jobs of a partition can run on; all, where the partition is not known."""
        if partition is None:
            return list(self.nodes.values())
        return [self.nodes[name] for name in partition.nodes if name in self.nodes]

    def facts(self, default: str | None) -> BatchFacts:
        """Its queues and nodes as those of every batch system; `default` is the queue that the spec names."""
        usual = self.partition(default)
        return BatchFacts(
            queues=self.partitions,
            nodes={name: node.state for name, node in self.nodes.items()},
            default_queue=default or (usual.name if usual is not None else None),
        )

    @property
    def has_threads(self) -> bool:
        """Whether a CPU of Slurm's is less than a core anywhere."""
        return any(node.threads > 1 for node in self.nodes.values())

    @property
    def shares_memory(self) -> bool:
        """Whether Slurm gives out memory: then a job that names none would get all of a node."""
        return "MEMORY" in self.config.get("SelectTypeParameters", "").upper()

    @property
    def default_memory_per_core(self) -> int | None:
        """Bytes that a job which names none gets for each core, where Slurm is set up so."""
        text = self.config.get("DefMemPerCPU", "")
        return int(text) * MIB if text.isdigit() else None

    def longest_submit_line(self) -> int:
        """Bytes of the longest command line of sbatch that slurmctld takes."""
        for each in self.config.get("SchedulerParameters", "").split(","):
            name, _, value = each.partition("=")
            if name.strip() == "max_submit_line_size" and value.strip().isdigit():
                return int(value)
        return SUBMIT_LINE

    def largest_array_index(self) -> int:
        """The highest index of an array: one below MaxArraySize, 1001 by default."""
        return int(self.config.get("MaxArraySize") or 1001) - 1


def read_cluster(tools: Tools, record: JobRecord | None = None, *, fresh: bool = False) -> Cluster:
    """Ask Slurm, or take what was asked within KEPT_S. Raises GridwrightError (ENVIRONMENT)."""
    kept = None if fresh or record is None else record.fact("cluster", KEPT_S)
    texts = json.loads(kept) if kept else None
    if texts is None:
        texts = [
            tools.query(command).decode(errors="replace")
            for command in (
                ["scontrol", "show", "config"],
                ["scontrol", "-o", "-a", "show", "partitions"],
                ["scontrol", "-o", "-a", "show", "nodes"],
            )
        ]
        if record is not None:
            record.keep_fact("cluster", json.dumps(texts))
    config, partitions, nodes = texts
    return Cluster(parse_config(config), parse_partitions(partitions), parse_nodes(nodes))


def read_nodes(tools: Tools) -> Mapping[str, SlurmNode]:
    """The nodes as they are now. Raises GridwrightError (ENVIRONMENT)."""
    return parse_nodes(tools.query(["scontrol", "-o", "-a", "show", "nodes"]).decode(errors="replace"))


def read_boot_time(tools: Tools) -> float | None:
    """When slurmctld was started; seconds since 1970."""
    text = parse_config(tools.query(["scontrol", "show", "config"]).decode(errors="replace")).get(
        "BOOT_TIME", ""
    )
    return float(text) if text.isdigit() else None


def parse_config(text: str) -> dict[str, str]:
    """What `scontrol show config` prints, by key."""
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line)
    return {key.strip(): value.strip() for key, value in pairs}


def _lines(text: str) -> Sequence[dict[str, str]]:
    """The lines of `scontrol -o show`: KEY=VALUE with blanks between, and blanks in some values."""
    lines = []
    for line in text.splitlines():
        parts = re.split(r"(?:^|\s+)([A-Z][A-Za-z]*)=", line)
        lines.append(dict(zip(parts[1::2], (part.strip() for part in parts[2::2]), strict=False)))
    return [line for line in lines if line]


def parse_partitions(text: str) -> dict[str, Partition]:
    """What `scontrol -o show partitions` prints, by name."""
    found = {}
    for line in _lines(text):
        if "PartitionName" not in line:
            continue
        cpus = line.get("MaxCPUsPerNode", "UNLIMITED")
        defaults = (line.get("DefMemPerCPU", "UNLIMITED"), line.get("DefMemPerNode", "UNLIMITED"))
        nodes = line.get("Nodes", "(null)")
        found[line["PartitionName"]] = Partition(
            name=line["PartitionName"],
            default=line.get("Default") == "YES",
            up=line.get("State") == "UP",
            nodes=() if nodes == "(null)" else tuple(NodeSet(nodes)),
            longest_s=parse_time_limit(line.get("MaxTime", "UNLIMITED")),
            cores_per_node=int(cpus) if cpus.isdigit() else None,
            has_default_memory=any(default.isdigit() for default in defaults),
            fields=line,
        )
    return found


def parse_time_limit(text: str) -> float | None:
    """Seconds in Slurm's days-hours:minutes:seconds; None for UNLIMITED and the like."""
    match = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d+)(?::(\d+))?", text)
    if match is None:
        return None
    days, first, second, third = (int(part) if part else 0 for part in match.groups())
    if match[4] is None and match[1] is None:
        return first * 60.0 + second
    return days * 86_400.0 + first * 3600.0 + second * 60.0 + third


def parse_nodes(text: str) -> dict[str, SlurmNode]:
    """What `scontrol -o show nodes` prints, by name. Cores are physical: a CPU may be a thread of one."""
    return {line["NodeName"]: _node(line) for line in _lines(text) if "NodeName" in line}


def _node(line: Mapping[str, str]) -> SlurmNode:
    def number(key: str) -> int:
        match = re.match(r"\d+", line.get(key, ""))
        return int(match[0]) if match else 0

    cpus = number("CPUEfctv") or number("CPUTot")
    directories = number("Sockets") * number("CoresPerSocket")
    # Slurm lets a node be declared with as many CPUs as it has cores, or as it has threads.
    threads = max(1, number("ThreadsPerCore")) if number("CPUTot") > directories else 1
    memory = number("RealMemory") - number("MemSpecLimit")
    # A sign after a state says more of it: * does not respond, ~ is powered down, and so on (sinfo(1)).
    words = {word.rstrip("*~#!%$@^-") for word in line.get("State", "UNKNOWN").split("+")}
    silent = "*" in line.get("State", "")
    reason = line.get("Reason", "")
    up = not silent and not _DOWN & words
    return SlurmNode(
        state=NodeState(
            name=line["NodeName"],
            up=up,
            state=line.get("State", "UNKNOWN").lower(),
            cores=cpus // threads,
            memory_bytes=memory * MIB,
            free_cores=max(0, cpus - number("CPUAlloc")) // threads,
            free_memory_bytes=max(0, memory - number("AllocMem")) * MIB,
            asleep=bool(_POWER & words) and not words & _DOWN - _POWER - _QUIET,
            reason=None if up else (reason.partition(" [")[0] or ("it does not respond" if silent else None)),
        ),
        threads=threads,
        features=frozenset(line.get("AvailableFeatures", "(null)").split(",")) - {"(null)", ""},
    )
