"""Resources on the way to a library: what of each is used, and whether it is at its limit (pure).

Use and limit are both measured (disks, cards, control groups, CPUs), or what clients measured is held against
limits of the model; of servers and targets clients tell how long requests take and how many are under way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from gridwright.interference.judge import limits
from gridwright.monitor.readings import MountedPlace
from gridwright.monitor.rows import DiskRow, NodeRow, SeenNode
from gridwright.units import format_rate

FULL = 0.9
"""From this part of its limit on a resource binds: queues are long from there on."""


class ResourceSort(StrEnum):
    """What a resource is one of."""

    DISK = "disk"
    CARD = "card"
    ALLOWANCE = "allowance"
    """What a cloud lets a machine's network pass, bursts included."""
    GROUP = "control-group"
    """A limit that somebody has set for processes."""
    STATED = "stated"
    """A limit of the model: what the grid spec or the catalogue says that something delivers."""
    TARGET = "target"
    SERVER = "server"
    CPU = "cpu"
    STEAL = "steal"


STORAGE = frozenset(ResourceSort) - {ResourceSort.CPU, ResourceSort.STEAL}
"""What is on the way of bytes. A control group's limit of CPU time is of sort CPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceUse:
    """A resource and its use. `used` and `capacity` are in `unit`; None is what is not known."""

    sort: ResourceSort
    name: str
    """Such as `disk sda of n1`; the same in each picture."""
    node: str = ""
    """Empty where it is of no one node."""
    used: float | None = None
    capacity: float | None = None
    unit: str = "bytes/s"
    """bytes/s, requests/s, requests (in flight), CPUs, or parts of the time."""
    part: float | None = None
    """Utilisation; 1 is its limit."""
    binds: bool = False
    text: str = ""
    """A sentence without its full stop, that says what was measured."""
    source: str = ""
    """Where the figures were read."""
    capacity_source: str = ""
    """Who says what the limit is; empty where it is the thing's own."""


@dataclass(frozen=True, slots=True)
class StatedLimit:
    """A limit of the model for one file system, in plain values, so that recordings can hold it.

    `read` and `write` say how many bytes of it each byte takes that is read or written; 0 where such bytes
    do not pass it. With scope `node` each of `nodes` has one (all where none is named), with `grid` there is
    one for all; with `stream` it is what one sequence of I/O can have.
    """

    resource: str
    what: str
    scope: str
    bytes_per_s: float
    source: str
    read: float
    write: float
    burst_bytes_per_s: float | None = None
    nodes: tuple[str, ...] = ()


MANY_AT_ONCE = 32
"""Requests in flight from which on a disk that takes many at once counts as full: what a disk of SATA takes
at most (Serial ATA 3.x, native command queuing). Those of NVMe take more, and have room while fewer wait."""
_STACKED = ("md", "dm-")
"""Devices whose work is done by others, which are looked at instead where they are known."""


def disk_use(disk: DiskRow) -> ResourceUse:
    """A disk. One that does things in turn is full when it is busy; others only with many waiting."""
    busy, waiting = disk.utilisation, disk.in_flight
    name = f"disk {disk.device} of {disk.node}"
    many = disk.takes_many
    full = busy is not None and busy >= FULL
    text = f"{name} is busy {0.0 if busy is None else busy:.0%} of the time"
    if busy is None:
        text = f"of {name} it is not known how busy it is"
    elif many:
        text += f" with {'an unknown number of' if waiting is None else f'{waiting:.1f}'} requests in flight"
        if full and (waiting is None or waiting < MANY_AT_ONCE):
            text += ": it takes many at once, and may have room"
    return ResourceUse(
        sort=ResourceSort.DISK,
        name=name,
        node=disk.node,
        used=waiting if many else busy,
        capacity=MANY_AT_ONCE if many else 1.0,
        unit="requests" if many else "parts of the time",
        part=(None if waiting is None else waiting / MANY_AT_ONCE) if many else busy,
        binds=full and (not many or (waiting or 0.0) >= MANY_AT_ONCE),
        text=text,
        source="/proc/diskstats",
    )


def disks_to_judge(place: MountedPlace) -> tuple[str, ...]:
    """The disks below a place; of arrays and volumes, those that they are made of."""
    lowest = tuple(disk for disk in place.disks if not disk.startswith(_STACKED))
    return lowest or place.disks


def card_use(row: NodeRow) -> ResourceUse | None:
    """The fullest card of a node; None where no rate of any is known."""
    if row.network_part is None:
        return None
    name = f"card {row.network_card} of {row.node}"
    capacity = row.network_rate
    text = f"{name} moves {row.network_part:.0%} of its rate"
    if row.network_limited and capacity is not None:
        text = (
            f"{name} sends {row.network_part:.0%} of the {format_rate(capacity)} that its queue lets through"
        )
    return ResourceUse(
        sort=ResourceSort.CARD,
        name=name,
        node=row.node,
        used=None if capacity is None else row.network_part * capacity,
        capacity=capacity,
        part=row.network_part,
        binds=row.network_part >= FULL,
        text=text,
        source="/proc/net/dev",
        capacity_source="its queue (tc tbf)" if row.network_limited else "/sys/class/net/*/speed",
    )


HELD_BACK_PER_S = 100.0
"""Packets that a cloud holds back, from which on the network is at what it is allowed: fewer come of moments,
and a rate of 1 GB/s has more than 100 000."""
_ALLOWED = {"bw_in": "what it may receive", "bw_out": "what it may send", "pps": "packets that it may move"}
"""By the name of the allowance; others are of connections and of services, and no storage waits for these."""


def allowance_uses(node: SeenNode) -> Iterator[ResourceUse]:
    """Cards whose machine has used up what its cloud allows it: bursts are spent."""
    metric = "gridwright_network_held_back_packets_total"
    for device, allowance in node.figures.labels(metric):
        rate = node.figures.rate(metric, device, allowance)
        if allowance not in _ALLOWED or rate is None:
            continue
        name = f"network allowance {allowance} of {device} of {node.name}"
        yield ResourceUse(
            sort=ResourceSort.ALLOWANCE,
            name=name,
            node=node.name,
            used=rate,
            unit="packets/s",
            binds=rate >= HELD_BACK_PER_S,
            text=f"the cloud held back {rate:.0f} packets/s of card {device} of {node.name}, which has used "
            f"up {_ALLOWED[allowance]}",
            source=f"the card's own count {allowance}_allowance_exceeded",
        )


def group_uses(node: SeenNode, devices: Sequence[str]) -> Iterator[ResourceUse]:
    """Limits of control groups on these devices, with what their processes move."""
    figures = node.figures
    for kind, unit in (("bytes", "bytes/s"), ("requests", "requests/s")):
        for labels in figures.labels(f"gridwright_group_io_limit_{kind}"):
            group, device, way = labels
            limit = figures.gauge(f"gridwright_group_io_limit_{kind}", *labels)
            rate = figures.rate(f"gridwright_group_io_{kind}_total", *labels)
            if device not in devices or not limit:
                continue
            verb = "read from" if way == "read" else "written to"
            spoken = [
                "-" if each is None else format_rate(each) if kind == "bytes" else f"{each:.0f} requests/s"
                for each in (limit, rate)
            ]
            part = None if rate is None else rate / limit
            yield ResourceUse(
                sort=ResourceSort.GROUP,
                name=f"limit of control group {group} on {device} of {node.name} ({way})",
                node=node.name,
                used=rate,
                capacity=limit,
                unit=unit,
                part=part,
                binds=rate is not None
                and rate >= min(FULL * limit, limit - _one_request(node, kind, labels)),
                text=f"control group {group} of {node.name} may have {spoken[0]} {verb} {device}, and has "
                f"{spoken[1]}",
                source="io.stat or blkio.throttle of the group",
                capacity_source="io.max or blkio.throttle of the group",
            )


def _one_request(node: SeenNode, kind: str, labels: Sequence[str]) -> float:
    """What one request of mean size adds to a rate: it counts whole when it is let through.

    At most half of the limit is made up for: a group that used less was not held by it.
    """
    _, device, way = labels
    figures = node.figures
    size: float | None = 1.0
    if kind == "bytes":
        moved = figures.rate(f"node_disk_{'read' if way == 'read' else 'written'}_bytes_total", device)
        requests = figures.rate(f"node_disk_{way}s_completed_total", device)
        size = moved / requests if moved and requests else None
    if size is None or not node.seconds > 0:
        return 0.0
    limit = figures.gauge(f"gridwright_group_io_limit_{kind}", *labels) or 0.0
    return min(size / node.seconds, limit / 2)


def cpu_uses(nodes: Sequence[NodeRow]) -> Iterator[ResourceUse]:
    """CPUs of each machine, once, and what the hypervisor took of them."""
    machines = {row.machine: row for row in reversed(nodes) if not row.absent}
    for row in reversed(machines.values()):
        cpus = max(1, row.cpus)
        used = None if row.user is None or row.system is None else row.user + row.system
        if used is None:
            continue
        part = min(1.0, used / cpus)
        yield ResourceUse(
            sort=ResourceSort.CPU,
            name=f"CPUs of {row.node}",
            node=row.node,
            used=used,
            capacity=float(cpus),
            unit="CPUs",
            part=part,
            binds=part >= FULL,
            text=f"CPUs of {row.node} run {part:.0%} of the time",
            source="/proc/stat",
        )
        taken = (row.steal or 0.0) / cpus
        if taken >= limits().steal:
            yield ResourceUse(
                sort=ResourceSort.STEAL,
                name=f"steal of {row.node}",
                node=row.node,
                used=row.steal,
                capacity=float(cpus),
                unit="CPUs",
                part=taken,
                binds=True,
                text=f"the hypervisor took {taken:.0%} of the CPU time of {row.node} (steal)",
                source="/proc/stat",
                capacity_source="limits of disturbances",
            )


def cpu_group_uses(node: SeenNode) -> Iterator[ResourceUse]:
    """Limits of CPU time that stopped processes in more periods than a proof can bear."""
    figures = node.figures
    for (group,) in figures.labels("gridwright_group_periods_total"):
        periods = figures.rate("gridwright_group_periods_total", group)
        stopped = figures.rate("gridwright_group_throttled_periods_total", group)
        if not periods or stopped is None or stopped / periods <= limits().throttling:
            continue
        yield ResourceUse(
            sort=ResourceSort.CPU,
            name=f"CPU limit of control group {group} of {node.name}",
            node=node.name,
            used=stopped,
            capacity=periods,
            unit="parts of the time",
            part=stopped / periods,
            binds=True,
            text=f"the CPU limit of control group {group} of {node.name} stopped processes in "
            f"{stopped / periods:.0%} of its periods",
            source="cpu.stat of the group",
            capacity_source="cpu.max or cpu.cfs_quota_us of the group",
        )


Flows = Mapping[str, Mapping[str, tuple[float, float]]]
"""By file system and node, bytes per second that were read and written there; only what is known."""
BEYOND = 1.1
"""What passes so many times what is said to pass shows that the statement is too low, and no limit."""
LASTING = 0.1
"""A rate this near to what lasts, of a resource that can burst, is the lasting one."""


def stated_uses(filesystem: str, limits: Mapping[str, Sequence[StatedLimit]], flows: Flows,
                busy_cores: float | None) -> Iterator[ResourceUse]:  # fmt: skip
    """Each limit on the way to a file system, with what all file systems that share it take of it."""
    for limit in limits.get(filesystem, ()):
        sharing = [
            (flows.get(other, {}), each)
            for other, those in limits.items()
            for each in those
            if each.resource == limit.resource and each.scope == limit.scope and each.nodes == limit.nodes
        ]
        if limit.scope == "stream":
            yield from _of_streams(limit, flows.get(filesystem, {}), busy_cores)
        elif limit.scope == "node":
            nodes = {node for flow, _ in sharing for node in flow if not limit.nodes or node in limit.nodes}
            for node in sorted(nodes):
                yield _use(limit, node, sum(_taken(each, flow.get(node)) for flow, each in sharing))
        elif any(flow for flow, _ in sharing):
            total = sum(_taken(each, moved) for flow, each in sharing for moved in flow.values())
            yield _use(limit, "", total)


def _taken(limit: StatedLimit, moved: tuple[float, float] | None) -> float:
    read, written = moved or (0.0, 0.0)
    return read * limit.read + written * limit.write


def _use(limit: StatedLimit, node: str, used: float) -> ResourceUse:
    most = max(limit.bytes_per_s, limit.burst_bytes_per_s or 0.0)
    part = used / most if most > 0 else None
    lasting = (
        most > limit.bytes_per_s > 0 and abs(used / limit.bytes_per_s - 1) <= LASTING and part is not None
    )
    of = f" of {node}" if node else ""
    text = f"{limit.what}{of}: {format_rate(used)} pass it, {part or 0.0:.0%} of what it is said to deliver"
    if lasting:
        text = f"{limit.what}{of}: {format_rate(used)} pass it, what it delivers when its burst is spent"
    beyond = part is not None and part > BEYOND
    if beyond:
        text = f"{limit.what}{of}: {format_rate(used)} pass it, more than it is said to deliver"
    return ResourceUse(
        sort=ResourceSort.STATED,
        name=f"{limit.resource}{of}",
        node=node,
        used=used,
        capacity=limit.bytes_per_s if lasting else most,
        part=used / limit.bytes_per_s if lasting else part,
        binds=not beyond and (lasting or (part is not None and part >= FULL)),
        text=text,
        source="what clients moved, times what the model says each byte takes",
        capacity_source=limit.source,
    )


def _of_streams(
    limit: StatedLimit, flow: Mapping[str, tuple[float, float]], busy_cores: float | None
) -> Iterator[ResourceUse]:
    """What each stream can have, as far as every busy core has one."""
    total = sum(_taken(limit, moved) for moved in flow.values())
    if busy_cores is None or busy_cores < 1 or limit.bytes_per_s <= 0:
        return
    each = total / busy_cores
    part = each / limit.bytes_per_s
    yield ResourceUse(
        sort=ResourceSort.STATED,
        name=limit.resource,
        used=each,
        capacity=limit.bytes_per_s,
        part=part,
        binds=FULL <= part <= BEYOND,
        text=f"a stream moves {format_rate(each)} for each busy core, {part:.0%} of what it can have of "
        f"{limit.what}",
        source="what clients moved, for each busy core",
        capacity_source=limit.source or "the model",
    )


SLOW = 3.0
"""A target whose requests take so many times what those of the others take in the middle: targets of a file
system are alike, and requests are spread over them without looking at what each one can do."""
LEAST_S = 0.01
"""Shorter requests are no trouble whatever others take; a seek of a rotating disk takes as long."""
LEAST_PER_S = 1.0
"""With fewer requests a mean says little: clients ping each target every few seconds."""
_OTHERS = 2
"""So many other targets have to be at work, or nobody knows what is usual."""
UNDER_WAY = 0.5
"""From this many requests under way on average on, somebody waits half of the time or more."""


@dataclass(frozen=True, slots=True)
class TargetWait:
    """Requests to a target, by all nodes together."""

    requests_per_s: float
    under_way: float
    """On average: the time that all requests took, per second."""
    bytes_per_s: float

    @property
    def seconds_per_request(self) -> float:
        """What one takes."""
        return self.under_way / self.requests_per_s if self.requests_per_s else 0.0


def waits_of(nodes: Sequence[SeenNode], points: Mapping[str, Sequence[str]]) -> dict[str, TargetWait]:
    """By target, of the mounts at these points of each node; only those whose clients count time."""
    waits: dict[str, TargetWait] = {}
    for node in nodes:
        figures = node.figures
        for labels in figures.labels("gridwright_mount_waited_seconds_total"):
            point, target = labels
            rates = [
                figures.rate(f"gridwright_mount_{name}_total", *labels)
                for name in ("reads", "writes", "waited_seconds", "read_bytes", "written_bytes")
            ]
            known = [rate for rate in rates if rate is not None]
            if point not in points.get(node.name, ()) or len(known) != len(rates):
                continue
            reads, writes, under_way, read, written = known
            before = waits.get(target, TargetWait(0.0, 0.0, 0.0))
            waits[target] = TargetWait(
                before.requests_per_s + reads + writes,
                before.under_way + under_way,
                before.bytes_per_s + read + written,
            )
    return waits


def target_uses(waits: Mapping[str, TargetWait]) -> Iterator[ResourceUse]:
    """Targets that are slower than the others."""
    at_work = {name: each for name, each in waits.items() if each.requests_per_s >= LEAST_PER_S}
    for name, wait in at_work.items():
        others = [other.seconds_per_request for it, other in at_work.items() if it != name]
        if len(others) < _OTHERS:
            return
        usual = median(others)
        if wait.seconds_per_request < max(LEAST_S, SLOW * usual):
            continue
        total = sum(wait.under_way for wait in at_work.values())
        yield ResourceUse(
            sort=ResourceSort.TARGET,
            name=f"target {name}",
            used=wait.under_way,
            capacity=None,
            unit="requests",
            part=wait.under_way / total if total else None,
            binds=True,
            text=f"requests to target {name} take {_time(wait.seconds_per_request)}, and {_time(usual)} to "
            f"the {len(others)} others in the middle; {wait.under_way / total if total else 0:.0%} of all "
            "waiting is for it",
            source="what clients count of their requests",
        )


def server_use(filesystem: str, waits: Mapping[str, TargetWait]) -> ResourceUse | None:
    """The servers of a file system, where clients wait for their answers much of the time; else None."""
    under_way = sum(wait.under_way for wait in waits.values())
    requests = sum(wait.requests_per_s for wait in waits.values())
    if under_way < UNDER_WAY or requests < LEAST_PER_S:
        return None
    return ResourceUse(
        sort=ResourceSort.SERVER,
        name=f"servers of {filesystem}",
        used=under_way,
        capacity=None,
        unit="requests",
        binds=True,
        text=f"requests to the servers of {filesystem} take {_time(under_way / requests)}, {under_way:.1f} "
        "are under way: clients wait for them, or for the network in between",
        source="what clients count of their requests",
    )


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"
