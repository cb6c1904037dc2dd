"""What file systems give the libraries on them against what these require, and what binds (pure).

A core works in one library at a time. So the bytes that a file system moves for all its libraries are held
against the largest of their requirements, for each busy core.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gridwright.monitor.causes.measured import (
    STORAGE,
    Flows,
    ResourceUse,
    StatedLimit,
    allowance_uses,
    card_use,
    cpu_group_uses,
    cpu_uses,
    disk_use,
    disks_to_judge,
    group_uses,
    server_use,
    stated_uses,
    target_uses,
    waits_of,
)
from gridwright.monitor.readings import MountedPlace
from gridwright.monitor.rows import (
    HOLDS_UP,
    WAITING,
    DiskRow,
    NodeRow,
    SeenNode,
    jobs_wait,
    most_waited,
    moved_by_mount,
    somebody_waits,
    waiting_part,
)
from gridwright.monitor.served_rows import unreached

SERVED_WELL = 2.0
"""So many times what is required, moved for the time in which cores wait, holds nobody up: a core that
computes half of the time moves less than it may, and waits a little whatever storage gives."""
_IDLE_CORES, _IDLE_BYTES_PER_S = 0.1, 1e6
"""Below both, nobody works on it."""


class Standing(StrEnum):
    """How what is delivered stands to what is required."""

    MET = "met"
    BELOW = "below"
    """Less is delivered, and somebody waits for it."""
    NOT_ASKED = "not-asked"
    """Less is delivered, and nobody waits for more: what runs computes."""
    NOT_REQUIRED = "not-required"
    IDLE = "idle"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class WatchedLibrary:
    """A library of the spec; `required` is what each core needs of it, in bytes per second."""

    name: str
    filesystem: str
    directory: str
    required: float | None
    limits: tuple[StatedLimit, ...] = ()
    """Those of the model for its file system."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryRow:
    """A file system with the libraries on it. Rates in bytes per second."""

    filesystem: str
    libraries: tuple[str, ...]
    required_per_core: float | None
    read_bytes_per_s: float | None
    written_bytes_per_s: float | None
    busy_cores: float | None
    per_core: float | None
    """What was moved, for each busy core."""
    standing: Standing
    binds: tuple[str, ...]
    """What is at its limit, storage first, in words; empty where nothing is, as far as measured."""
    note: str = ""
    """What a figure does not have in it."""
    wanted: bool = False
    """Whether somebody waits for it."""
    waiting: float | None = None
    """The part of the time in which a task waited for I/O, on the node where that was most."""
    waiting_cores: float | None = None
    """CPUs that waited for I/O, of all nodes."""
    under_way: float | None = None
    """Requests to its disks or servers, on average; None where they are not counted."""
    disks: tuple[str, ...] = ()
    """Those that it lies on, as `node device`; none where servers are behind it."""
    targets: tuple[str, ...] = ()
    """Those that its clients tell apart."""
    away: tuple[str, ...] = ()
    """Those that a client does not reach or waits for, with the reason."""
    uses: tuple[ResourceUse, ...] = ()
    """All resources of which anything is known: what binds first, then the fullest."""


def library_rows(
    libraries: Sequence[WatchedLibrary],
    seen: Sequence[SeenNode],
    nodes: Sequence[NodeRow],
    disks: Sequence[DiskRow],
) -> list[LibraryRow]:
    """One row for each file system that has libraries."""
    names = list(dict.fromkeys(library.filesystem for library in libraries))
    of = {name: [library for library in libraries if library.filesystem == name] for name in names}
    told = {name: _delivered(of[name], seen) for name in names}
    picture = _Picture(
        seen,
        nodes,
        disks,
        _busy_cores(seen, nodes),
        {name: each.limits for name in names for each in of[name][:1]},
        {name: each.by_node for name, each in told.items()},
        _fed_cores(of, told),
        jobs_wait(seen),
        most_waited(seen),
        {name: each.by_place for name, each in told.items()},
    )
    under_way = {name: _under_way(of[name], picture) for name in names}
    return [_row(name, of[name], told[name], under_way, picture) for name in names]


@dataclass(frozen=True, slots=True)
class _Picture:
    """What all rows are made of."""

    seen: Sequence[SeenNode]
    nodes: Sequence[NodeRow]
    disks: Sequence[DiskRow]
    busy: float | None
    limits: dict[str, Sequence[StatedLimit]]
    flows: Flows
    fed: dict[str, float]
    """Cores that have what is required, by file system."""
    jobs_wait: bool | None
    """Whether any job waits for I/O; None where that is not counted for all of them."""
    most_waited: float
    """The part of its time in which the job waits that waits most, as far as that is counted."""
    by_place: Mapping[str, frozenset[tuple[str, str]]]
    """By file system, the disks and mounts whose bytes are counted for it."""


@dataclass(frozen=True, slots=True)
class _Delivered:
    """What was read and written, and what that has in it or lacks."""

    read: float | None
    written: float | None
    note: str
    by_node: dict[str, tuple[float, float]]
    by_place: frozenset[tuple[str, str]] = frozenset()


def _row(
    name: str,
    libraries: Sequence[WatchedLibrary],
    told: _Delivered,
    under_way: dict[str, float | None],
    picture: _Picture,
) -> LibraryRow:
    required = max((library.required for library in libraries if library.required is not None), default=None)
    moved = None if told.read is None or told.written is None else told.read + told.written
    busy = picture.busy
    uses = _uses(name, libraries, picture)
    storage = [use for use in uses if use.binds and use.sort in STORAGE]
    cpus = [use for use in uses if use.binds and use.sort not in STORAGE]
    wanted = _is_waited_for(name, under_way, picture)
    without = [row.node for row in picture.nodes if row.absent]
    targets = sorted(_targets(libraries, picture))
    away = dict.fromkeys(
        f"{target}: {why}" for node in picture.seen for target, why in unreached(node, targets).items()
    )
    pressures = [row.io_pressure for row in picture.nodes if row.io_pressure is not None]
    return LibraryRow(
        filesystem=name,
        libraries=tuple(library.name for library in libraries),
        required_per_core=required,
        read_bytes_per_s=told.read,
        written_bytes_per_s=told.written,
        busy_cores=busy,
        per_core=moved / busy if moved is not None and busy is not None and busy >= _IDLE_CORES else None,
        standing=Standing.UNKNOWN
        if away
        else _standing(
            required,
            moved,
            busy,
            wanted=(wanted and not _computes(required, moved, picture))
            or (bool(storage) and picture.jobs_wait is not False),
            fed=not storage and _is_fed(name, under_way, picture),
        ),
        binds=tuple(each.text for each in (*storage, *cpus)),
        note="; ".join(
            [
                *([told.note] if told.note else []),
                *([f"without {', '.join(without)}"] if without else []),
                *away,
            ]
        ),
        wanted=wanted,
        waiting=max(pressures, default=None),
        waiting_cores=_of_machines(picture.nodes, [row.iowait for row in picture.nodes]),
        under_way=under_way[name],
        disks=tuple(dict.fromkeys(f"{row.node} {row.device}" for row in _own_disks(libraries, picture))),
        targets=tuple(targets),
        away=tuple(away),
        uses=tuple(sorted(uses, key=lambda each: (not each.binds, -(each.part or 0.0)))),
    )


def _uses(name: str, libraries: Sequence[WatchedLibrary], picture: _Picture) -> list[ResourceUse]:
    """All resources on the way to a file system, and CPUs."""
    uses = [disk_use(own_disk) for own_disk in _own_disks(libraries, picture)]
    by_name = {row.node: row for row in picture.nodes}
    points: dict[str, list[str]] = {}
    for node in picture.seen:
        places = _places(libraries, node)
        devices = {device for place in places for device in (place.device, *place.disks) if device}
        uses += group_uses(node, sorted(devices))
        points[node.name] = [place.mount_point for place in places if place.mount_point and not place.device]
        card = card_use(by_name[node.name]) if points[node.name] else None
        uses += [*([card] if card else []), *(allowance_uses(node) if points[node.name] else ())]
    uses += stated_uses(name, picture.limits, picture.flows, picture.busy)
    waits = waits_of(picture.seen, points)
    uses += target_uses(waits)
    if not any(use.binds for use in uses) and (server := server_use(name, waits)):
        # Whatever binds on the client explains why requests wait as well.
        uses.append(server)
    # Nodes of one machine show the same groups.
    groups = {(node.last.machine, use.name.partition(" of ")[0], use.capacity): use
              for node in reversed(picture.seen) for use in cpu_group_uses(node)}  # fmt: skip
    return [*{use.name: use for use in uses}.values(), *cpu_uses(picture.nodes), *groups.values()]


def _own_disks(libraries: Sequence[WatchedLibrary], picture: _Picture) -> list[DiskRow]:
    """The disks below the libraries."""
    below = {
        (node.last.machine or node.name, device)
        for node in picture.seen
        for place in _places(libraries, node)
        for device in disks_to_judge(place)
    }
    machines = {node.name: node.last.machine or node.name for node in picture.seen}
    return [disk for disk in picture.disks if (machines.get(disk.node, disk.node), disk.device) in below]


def _targets(libraries: Sequence[WatchedLibrary], picture: _Picture) -> set[str]:
    return {
        target
        for node in picture.seen
        for place in _places(libraries, node)
        for point, target in node.figures.labels("gridwright_mount_read_bytes_total")
        if point == place.mount_point != target
    }


def _under_way(libraries: Sequence[WatchedLibrary], picture: _Picture) -> float | None:
    """Requests to disks or servers of these libraries; None where any of them is not counted."""
    found: dict[tuple[str, str], float | None] = {}
    for node in picture.seen:
        for place in _places(libraries, node):
            figures = node.figures
            if place.device:
                key = node.last.machine or node.name, place.device
                found.setdefault(key, figures.rate("node_disk_io_time_weighted_seconds_total", place.device))
                continue
            rates = [
                figures.rate("gridwright_mount_waited_seconds_total", *labels)
                for labels in figures.labels("gridwright_mount_waited_seconds_total")
                if labels[0] == place.mount_point
            ]
            known = [rate for rate in rates if rate is not None]
            found[(node.name, place.mount_point)] = sum(known) if known and len(known) == len(rates) else None
    known = [each for each in found.values() if each is not None]
    return sum(known) if found and len(known) == len(found) else None


def _is_waited_for(name: str, under_way: dict[str, float | None], picture: _Picture) -> bool:
    """Whether it is this file system that somebody waits for.

    One without a request under way is not, where another one has some; where no other has any, whatever
    holds requests back does it before they are counted.
    """
    if not (somebody_waits(picture.nodes) if picture.jobs_wait is None else picture.jobs_wait):
        return False
    own = under_way[name]
    others = [each for other, each in under_way.items() if other != name]
    return own is None or own >= WAITING or not any((other or 0.0) >= WAITING for other in others)


def _computes(required: float | None, moved: float | None, picture: _Picture) -> bool:
    """Whether cores wait too little, or are served too well while they wait, for storage to hold them up."""
    if required is None or moved is None or picture.busy is None:
        return False
    parts = [waiting_part(row) for row in picture.nodes if not row.absent]
    waits = max([*parts, picture.most_waited], default=0.0)
    return waits < HOLDS_UP or moved >= SERVED_WELL * required * picture.busy * waits


def _standing(
    required: float | None, moved: float | None, busy: float | None, *, wanted: bool, fed: bool
) -> Standing:
    """`wanted`: somebody waits for it. `fed`: what all file systems move is enough for the busy cores."""
    if moved is None or busy is None:
        return Standing.UNKNOWN
    if busy < _IDLE_CORES and moved < _IDLE_BYTES_PER_S and not wanted:
        return Standing.IDLE
    if required is None:
        return Standing.NOT_REQUIRED
    if moved >= required * busy or fed:
        return Standing.MET
    return Standing.BELOW if wanted else Standing.NOT_ASKED


def _fed_cores(of: dict[str, list[WatchedLibrary]], told: dict[str, _Delivered]) -> dict[str, float]:
    """How many cores each file system gives what is required of it."""
    found = {}
    for name, libraries in of.items():
        required = max(
            (library.required for library in libraries if library.required is not None), default=None
        )
        read, written = told[name].read, told[name].written
        if required and read is not None and written is not None:
            found[name] = (read + written) / required
    return found


def _is_fed(name: str, under_way: dict[str, float | None], picture: _Picture) -> bool:
    """Whether the busy cores have what is required, those included that work with other file systems.

    A core works in one library at a time. The part of the cores that works with this one is told by the
    requests that are under way: without them, all busy cores count. File systems on one disk have the same
    bytes and requests, which count once.
    """
    busy, own, total = picture.busy, under_way[name], under_way[name] or 0.0
    counted, others = set(picture.by_place[name]), 0.0
    for other, requests in under_way.items():
        if counted.isdisjoint(picture.by_place[other]):
            counted |= picture.by_place[other]
            total += requests or 0.0
            others += picture.fed.get(other, 0.0)
    if busy is None or own is None or None in under_way.values() or total <= 0:
        return False
    return picture.fed.get(name, 0.0) + min(others, busy * (1 - own / total)) >= busy > 0


def _busy_cores(seen: Sequence[SeenNode], nodes: Sequence[NodeRow]) -> float | None:
    return _of_machines(nodes, [row.busy_cores for row in nodes]) if seen else None


def _of_machines(nodes: Sequence[NodeRow], values: Sequence[float | None]) -> float | None:
    """The sum over nodes; those of one machine see the same cores, and the first one's figure counts."""
    machines = {
        row.machine or row.node: value
        for row, value in reversed(list(zip(nodes, values, strict=True)))
        if not row.absent
    }
    known = [machine for machine in machines.values() if machine is not None]
    return sum(known) if known and len(known) == len(machines) else None


def _delivered(libraries: Sequence[WatchedLibrary], seen: Sequence[SeenNode]) -> _Delivered:
    read: dict[tuple[str, str], float | None] = {}
    written: dict[tuple[str, str], float | None] = {}
    first: dict[tuple[str, str], str] = {}
    notes = set()
    for node in seen:
        moved = moved_by_mount(node)
        for place in _places(libraries, node):
            if place.mount_point in moved:
                key = (node.name, place.counted_as)
                read[key], written[key], _ = moved[place.mount_point]
            elif place.device:
                key = (node.last.machine or node.name, place.device)
                if key in read:
                    continue
                read[key] = node.figures.rate("node_disk_read_bytes_total", place.device)
                written[key] = node.figures.rate("node_disk_written_bytes_total", place.device)
                notes.add(f"all that disk {place.device} moves")
            else:
                return _Delivered(None, None, _why_uncounted(node, place), {})
            first[key] = node.name
    by_node: dict[str, tuple[float, float]] = {}
    for key, name in first.items():
        if (one := read[key]) is not None and (other := written[key]) is not None:
            before = by_node.get(name, (0.0, 0.0))
            by_node[name] = before[0] + one, before[1] + other
    return _Delivered(_total(read), _total(written), ", ".join(sorted(notes)), by_node, frozenset(read))


def _why_uncounted(node: SeenNode, place: MountedPlace) -> str:
    if why := node.last.silent.get(place.mount_point):
        return f"{place.mount_point} of {node.name}: {why}"
    return f"clients of {place.kernel_type or 'what is mounted there'} count nothing"


def _total(moved: dict[tuple[str, str], float | None]) -> float | None:
    known = [each for each in moved.values() if each is not None]
    return sum(known) if moved and len(known) == len(moved) else None


def _places(libraries: Sequence[WatchedLibrary], node: SeenNode) -> list[MountedPlace]:
    found = [node.last.places.get(library.directory, MountedPlace()) for library in libraries]
    return list({(each.counted_as, each.device): each for each in found}.values())
