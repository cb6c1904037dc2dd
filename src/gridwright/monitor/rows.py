"""The rows that `top` shows, made of what nodes were read to have done between two snapshots (pure).

Rates are in bytes per second, times in seconds, parts from 0 to 1. None is what cannot be told. Whether
somebody waits for storage, and for how much of the time, is told by jobs, pressure and CPUs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gridwright.monitor.readings import Figures, NodeSamples, Snapshot, figures


@dataclass(frozen=True, slots=True)
class SeenNode:
    """A node that answered: its last snapshot, and what both tell together."""

    name: str
    last: Snapshot
    seconds: float
    """Between its snapshots."""
    figures: Figures


def seen(samples: Sequence[NodeSamples]) -> list[SeenNode]:
    """The nodes that answered."""
    return [
        SeenNode(
            sample.node,
            sample.after,
            sample.after.at_s - sample.before.at_s,
            figures(sample.before, sample.after),
        )
        for sample in samples
        if sample.before is not None and sample.after is not None
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """A node. CPU time is in CPUs: seconds per second, over all CPUs of its machine."""

    node: str
    absent: str = ""
    """Why nothing is known of it; empty where it answered."""
    machine: str = ""
    cpus: int = 0
    cores: int = 0
    user: float | None = None
    """With nice."""
    system: float | None = None
    """With interrupts."""
    iowait: float | None = None
    steal: float | None = None
    busy_cores: float | None = None
    """Cores that a job holds: CPUs that run or wait for I/O, at most the physical cores."""
    memory_bytes: float | None = None
    memory_used_bytes: float | None = None
    cpu_pressure: float | None = None
    io_pressure: float | None = None
    memory_pressure: float | None = None
    received_bytes_per_s: float | None = None
    sent_bytes_per_s: float | None = None
    network_part: float | None = None
    """Of the fullest direction of the fullest card; None where no card tells its speed."""
    network_card: str = ""
    network_rate: float | None = None
    """Of that card, in bytes per second."""
    network_limited: bool = False
    """Whether that is what its queue lets through, and not what the card could do."""
    booted: float | None = None
    """In seconds since 1970."""
    sampler_part: float | None = None
    """Of one core, that sampling took."""
    silent: dict[str, str] = field(default_factory=dict)
    """What of it did not answer, and why."""


def node_rows(samples: Sequence[NodeSamples], nodes: Sequence[SeenNode]) -> list[NodeRow]:
    """One row for each node, those that are away included."""
    rows = {node.name: _node_row(node) for node in nodes}
    return [rows.get(sample.node) or NodeRow(node=sample.node, absent=sample.absent) for sample in samples]


def _node_row(node: SeenNode) -> NodeRow:
    told = node.figures
    modes = {
        mode: told.rate("node_cpu_seconds_total", mode) for (mode,) in told.labels("node_cpu_seconds_total")
    }
    user = _sum([modes.get("user"), modes.get("nice")])
    system = _sum([modes.get("system"), modes.get("irq"), modes.get("softirq")])
    total, free = told.gauge("node_memory_MemTotal_bytes"), told.gauge("node_memory_MemAvailable_bytes")
    part, card, rate, limited = max(_network_parts(told), default=(None, "", None, False))
    return NodeRow(
        node=node.name,
        machine=node.last.machine,
        cpus=node.last.cpus,
        cores=node.last.cores,
        user=user,
        system=system,
        iowait=modes.get("iowait"),
        steal=modes.get("steal"),
        busy_cores=_busy_cores(user, system, modes.get("iowait"), node.last.cores),
        memory_bytes=total,
        memory_used_bytes=None if total is None or free is None else total - free,
        cpu_pressure=as_part(told.rate("node_pressure_cpu_waiting_seconds_total")),
        io_pressure=as_part(told.rate("node_pressure_io_waiting_seconds_total")),
        memory_pressure=as_part(told.rate("node_pressure_memory_waiting_seconds_total")),
        received_bytes_per_s=_of_cards(told, "node_network_receive_bytes_total"),
        sent_bytes_per_s=_of_cards(told, "node_network_transmit_bytes_total"),
        network_part=part,
        network_card=card,
        network_rate=rate,
        network_limited=limited,
        booted=told.gauge("node_boot_time_seconds"),
        sampler_part=node.last.cost_s / node.seconds if node.seconds > 0 else None,
        silent=node.last.silent,
    )


def _busy_cores(user: float | None, system: float | None, iowait: float | None, cores: int) -> float | None:
    """A core that waits for I/O is one that a job holds: without it a slow file system would look good.

    Linux may take back iowait that it had counted (proc_stat(5)); then it has no rate, and is left out.
    """
    if user is None or system is None:
        return None
    return min(float(cores), user + system + (iowait or 0.0))


def _network_parts(told: Figures) -> Iterator[tuple[float, str, float, bool]]:
    """Of each direction of each card: the part that is used, the card, its rate, and whether that is set."""
    limits = {labels[0] for labels in told.labels("gridwright_network_limit_bytes")}
    for device in {*limits, *(labels[0] for labels in told.labels("node_network_speed_bytes"))}:
        speed = told.gauge("node_network_speed_bytes", device)
        limit = told.gauge("gridwright_network_limit_bytes", device)
        for way in ("receive", "transmit"):
            moved = told.rate(f"node_network_{way}_bytes_total", device)
            # A queue holds back what is sent.
            limited = limit is not None and way == "transmit" and (not speed or limit < speed)
            rate = limit if limited else speed
            if moved is not None and rate:
                yield moved / rate, device, rate, limited


def _of_cards(told: Figures, metric: str) -> float | None:
    return _sum([told.rate(metric, *labels) for labels in told.labels(metric)])


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskRow:
    """A block device; nodes of one machine have the same ones, and the first of them is named."""

    node: str
    device: str
    read_bytes_per_s: float | None
    written_bytes_per_s: float | None
    reads_per_s: float | None
    writes_per_s: float | None
    utilisation: float | None
    """Part of the time with a request in flight: 1 is the limit of a single disk, and none for NVMe."""
    in_flight: float | None
    """Requests in flight on average."""
    takes_many: bool = False
    """Whether it serves many requests at once: it does not rotate, as far as its driver says."""


def disk_rows(nodes: Sequence[SeenNode]) -> list[DiskRow]:
    """One row for each disk of each machine."""
    rows: dict[tuple[str, str], DiskRow] = {}
    for node in nodes:
        for (device,) in node.figures.labels("node_disk_read_bytes_total"):
            key = node.last.machine or node.name, device
            if key not in rows:
                rows[key] = _disk_row(node, device)
    return list(rows.values())


def _disk_row(node: SeenNode, device: str) -> DiskRow:
    def rate(name: str) -> float | None:
        return node.figures.rate(f"node_disk_{name}_total", device)

    return DiskRow(
        node=node.name,
        device=device,
        read_bytes_per_s=rate("read_bytes"),
        written_bytes_per_s=rate("written_bytes"),
        reads_per_s=rate("reads_completed"),
        writes_per_s=rate("writes_completed"),
        utilisation=as_part(rate("io_time_seconds")),
        in_flight=rate("io_time_weighted_seconds"),
        takes_many=node.figures.gauge("gridwright_disk_rotational", device) == 0.0
        or device.startswith("nvme"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MountRow:
    """A mount of a node; `read_bytes_per_s` and so on are what its client moved, where its kind counts it."""

    node: str
    mount_point: str
    kernel_type: str
    source: str
    size_bytes: float | None
    used_part: float | None
    read_bytes_per_s: float | None
    written_bytes_per_s: float | None
    targets: int
    silent: str = ""
    """Why it does not answer, or which of its targets are not reached; empty where all of it answers."""


def mount_rows(nodes: Sequence[SeenNode]) -> list[MountRow]:
    """One row for each mount of each node that has room, moves something, or hangs."""
    return [row for node in nodes for row in _mounts_of(node)]


def _mounts_of(node: SeenNode) -> Iterator[MountRow]:
    told = node.figures
    spaces = {labels[0]: labels for labels in told.labels("node_filesystem_size_bytes")}
    moved = moved_by_mount(node)
    names = {*spaces, *moved, *(name for name in node.last.silent if name.startswith("/"))}
    for point in sorted(names):
        labels = spaces.get(point, (point, "", ""))
        size = told.gauge("node_filesystem_size_bytes", *labels)
        free = told.gauge("node_filesystem_avail_bytes", *labels)
        read, written, targets = moved.get(point, (None, None, 0))
        yield MountRow(
            node=node.name,
            mount_point=point,
            kernel_type=labels[1],
            source=labels[2],
            size_bytes=size,
            used_part=1 - free / size if size and free is not None else None,
            read_bytes_per_s=read,
            written_bytes_per_s=written,
            targets=targets,
            silent=node.last.silent.get(point, ""),
        )


def moved_by_mount(node: SeenNode) -> dict[str, tuple[float | None, float | None, int]]:
    """What a client read and wrote by mount point, and of how many targets; None if one has no rate."""
    known = node.figures.labels("gridwright_mount_read_bytes_total")
    found = {}
    for point in {labels[0] for labels in known}:
        targets = [labels for labels in known if labels[0] == point]
        read, written = (
            whole([node.figures.rate(f"gridwright_mount_{way}_bytes_total", *labels) for labels in targets])
            for way in ("read", "written")
        )
        found[point] = read, written, len(targets)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetLoad:
    """A target of a file system, as the sum of what its clients count; requests are those to its server."""

    target: str
    clients: int
    """Nodes that have it mounted."""
    read_bytes_per_s: float | None
    written_bytes_per_s: float | None
    reads_per_s: float | None
    writes_per_s: float | None


def target_rows(nodes: Sequence[SeenNode]) -> list[TargetLoad]:
    """One row for each target that clients tell apart."""
    held: dict[str, list[tuple[SeenNode, tuple[str, ...]]]] = {}
    for node in nodes:
        for point, target in node.figures.labels("gridwright_mount_read_bytes_total"):
            if target != point:
                held.setdefault(target, []).append((node, (point, target)))
    return [_target_load(target, held[target]) for target in sorted(held)]


def _target_load(target: str, held: Sequence[tuple[SeenNode, tuple[str, ...]]]) -> TargetLoad:
    # A file system that a node has mounted twice has the same connections in both places.
    clients = {node.name: (node, labels) for node, labels in reversed(held)}.values()

    def total(name: str) -> float | None:
        return whole(
            [node.figures.rate(f"gridwright_mount_{name}_total", *labels) for node, labels in clients]
        )

    return TargetLoad(
        target=target,
        clients=len(clients),
        read_bytes_per_s=total("read_bytes"),
        written_bytes_per_s=total("written_bytes"),
        reads_per_s=total("reads"),
        writes_per_s=total("writes"),
    )


def _sum(values: Sequence[float | None]) -> float | None:
    """The sum of what is known; None where nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def whole(values: Sequence[float | None]) -> float | None:
    """The sum; None where a part of it is not known, which would make it too small."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def as_part(rate: float | None) -> float | None:
    """A time per time; clocks are read a moment apart, so that it may be a little above 1."""
    return None if rate is None else min(1.0, rate)


WAITING = 0.05
"""From this part of the time or of the CPUs on somebody waits for storage."""
HOLDS_UP = 0.25
"""From this part of the time on storage may be why cores get less than is required: without any wait, those
that wait for less would move a third more at most. A machine whose CPUs others use waits for 5 to 10 %."""


def jobs_wait(seen: Sequence[SeenNode]) -> bool | None:
    """Whether any job waits, where the kernel counts it exactly for each of them (see `job_waits`).

    What waits on nodes may then be nobody's of the grid, such as a backup that is held back on purpose.
    """
    metric, waits = "gridwright_job_waiting_seconds_total", []
    for node in seen:
        figures = node.figures
        for job, *_ in figures.labels("gridwright_job_processes"):
            waits.append(figures.rate(metric, job, "pressure"))
    if any((wait or 0.0) >= WAITING for wait in waits):
        return True
    return None if not waits or None in waits else False


def most_waited(seen: Sequence[SeenNode]) -> float:
    """The part of its time in which the job waits that waits most, as far as that is counted."""
    metric = "gridwright_job_waiting_seconds_total"
    rates = (node.figures.rate(metric, *labels) for node in seen for labels in node.figures.labels(metric))
    return max((min(1.0, rate) for rate in rates if rate is not None), default=0.0)


def somebody_waits(nodes: Sequence[NodeRow]) -> bool:
    """Whether anybody does on any node that answered."""
    return any(_waits(row) for row in nodes if not row.absent)


def _waits(row: NodeRow) -> bool:
    """Without pressure (psi=0, as RHEL has it), CPUs tell it: one job that waits of 64 is somebody, too."""
    iowait = row.iowait or 0.0
    if row.io_pressure is None:
        return iowait >= WAITING * max(1.0, row.busy_cores or 0.0)
    return row.io_pressure >= WAITING or iowait >= WAITING * row.cpus


def waiting_part(row: NodeRow) -> float:
    """The part of the time in which a task of a node waits for I/O; by CPUs, the most that it can be."""
    return max(row.io_pressure or 0.0, min(1.0, row.iowait or 0.0))
