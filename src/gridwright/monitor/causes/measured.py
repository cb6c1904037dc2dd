"""Resources whose use and whose limit are both measured: disks, cards, control groups, CPUs (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gridwright.interference.judge import limits
from gridwright.monitor.causes.use import FULL, ResourceSort, ResourceUse
from gridwright.monitor.readings import MountedPlace
from gridwright.monitor.rows import DiskRow, NodeRow, SeenNode
from gridwright.units import format_rate

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
