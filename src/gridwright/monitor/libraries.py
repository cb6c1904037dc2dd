"""What file systems give the libraries on them against what these require, and what binds (pure).

A core works in one library at a time. So the bytes that a file system moves for all its libraries are held
against the largest of their requirements, for each busy core.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gridwright.monitor.readings import MountedPlace
from gridwright.monitor.rows import DiskRow, NodeRow, SeenNode, moved_by_mount

FULL = 0.9
"""From this part of its limit on a resource binds: queues are long from there on."""
WAITING = 0.05
"""From this part of the time or of the CPUs on somebody waits for storage."""
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


def library_rows(
    libraries: Sequence[WatchedLibrary],
    seen: Sequence[SeenNode],
    nodes: Sequence[NodeRow],
    disks: Sequence[DiskRow],
) -> list[LibraryRow]:
    """One row for each file system that has libraries."""
    names = dict.fromkeys(each.filesystem for each in libraries)
    return [
        _row(name, [each for each in libraries if each.filesystem == name], seen, nodes, disks)
        for name in names
    ]


def _row(
    name: str,
    libraries: Sequence[WatchedLibrary],
    seen: Sequence[SeenNode],
    nodes: Sequence[NodeRow],
    disks: Sequence[DiskRow],
) -> LibraryRow:
    required = max((each.required for each in libraries if each.required is not None), default=None)
    read, written, note = _delivered(libraries, seen)
    moved = None if read is None or written is None else read + written
    busy = _busy_cores(seen, nodes)
    storage = tuple(_full_storage(libraries, seen, nodes, disks))
    away = [row.node for row in nodes if row.absent]
    return LibraryRow(
        filesystem=name,
        libraries=tuple(each.name for each in libraries),
        required_per_core=required,
        read_bytes_per_s=read,
        written_bytes_per_s=written,
        busy_cores=busy,
        per_core=moved / busy if moved is not None and busy is not None and busy >= _IDLE_CORES else None,
        standing=_standing(required, moved, busy, wanted=bool(storage) or _somebody_waits(nodes)),
        binds=(*storage, *_full_cpus(nodes)),
        note="; ".join([*([note] if note else []), *([f"without {', '.join(away)}"] if away else [])]),
    )


def _standing(required: float | None, moved: float | None, busy: float | None, *, wanted: bool) -> Standing:
    if moved is None or busy is None:
        return Standing.UNKNOWN
    if busy < _IDLE_CORES and moved < _IDLE_BYTES_PER_S and not wanted:
        return Standing.IDLE
    if required is None:
        return Standing.NOT_REQUIRED
    if moved >= required * busy:
        return Standing.MET
    return Standing.BELOW if wanted else Standing.NOT_ASKED


def _somebody_waits(nodes: Sequence[NodeRow]) -> bool:
    return any(
        (row.io_pressure or 0.0) >= WAITING or (row.iowait or 0.0) >= WAITING * row.cpus
        for row in nodes
        if not row.absent
    )


def _busy_cores(seen: Sequence[SeenNode], nodes: Sequence[NodeRow]) -> float | None:
    """Of all nodes; those of one machine see the same cores, and the first one's figure counts."""
    machines = {row.machine or row.node: row.busy_cores for row in reversed(nodes) if not row.absent}
    known = [each for each in machines.values() if each is not None]
    return sum(known) if seen and len(known) == len(machines) else None


def _delivered(
    libraries: Sequence[WatchedLibrary], seen: Sequence[SeenNode]
) -> tuple[float | None, float | None, str]:
    """What was read and written, and what that has in it or lacks."""
    read: dict[tuple[str, ...], float | None] = {}
    written: dict[tuple[str, ...], float | None] = {}
    notes = set()
    for node in seen:
        for place in _places(libraries, node):
            moved = moved_by_mount(node)
            if place.mount_point in moved:
                key: tuple[str, ...] = (node.name, place.mount_point)
                read[key], written[key], _ = moved[place.mount_point]
            elif place.device:
                key = (node.last.machine or node.name, place.device)
                if key in read:
                    continue
                read[key] = node.figures.rate("node_disk_read_bytes_total", place.device)
                written[key] = node.figures.rate("node_disk_written_bytes_total", place.device)
                notes.add(f"all that disk {place.device} moves")
            else:
                return None, None, _why_untold(node, place)
    return _total(read), _total(written), ", ".join(sorted(notes))


def _why_untold(node: SeenNode, place: MountedPlace) -> str:
    if why := node.last.silent.get(place.mount_point):
        return f"{place.mount_point} of {node.name}: {why}"
    return f"clients of {place.kernel_type or 'what is mounted there'} count nothing"


def _total(moved: dict[tuple[str, ...], float | None]) -> float | None:
    known = [each for each in moved.values() if each is not None]
    return sum(known) if moved and len(known) == len(moved) else None


def _places(libraries: Sequence[WatchedLibrary], node: SeenNode) -> list[MountedPlace]:
    found = [node.last.places.get(each.directory, MountedPlace()) for each in libraries]
    return list({(each.mount_point, each.device): each for each in found}.values())


def _full_storage(
    libraries: Sequence[WatchedLibrary],
    seen: Sequence[SeenNode],
    nodes: Sequence[NodeRow],
    disks: Sequence[DiskRow],
) -> Iterator[str]:
    """Disks below the libraries, and cards where servers are behind them: what is at its limit."""
    machines = {node.name: node.last.machine for node in seen}
    for disk in disks:
        below = any(
            disk.device in place.disks and machines.get(disk.node) == node.last.machine
            for node in seen
            for place in _places(libraries, node)
        )
        if below and disk.utilisation is not None and disk.utilisation >= FULL:
            yield f"disk {disk.device} of {disk.node} is busy {disk.utilisation:.0%} of the time"
    by_name = {row.node: row for row in nodes}
    for node in seen:
        row = by_name[node.name]
        served = any(place.mount_point and not place.device for place in _places(libraries, node))
        if served and row.network_part is not None and row.network_part >= FULL:
            yield f"card {row.network_card} of {node.name} moves {row.network_part:.0%} of its rate"


def _full_cpus(nodes: Sequence[NodeRow]) -> Iterator[str]:
    """Machines whose CPUs run all the time, each once."""
    machines = {row.machine: row for row in reversed(nodes) if not row.absent}
    for row in reversed(machines.values()):
        used = None if row.user is None or row.system is None else (row.user + row.system) / max(1, row.cpus)
        if used is not None and used >= FULL:
            yield f"CPUs of {row.node} run {min(1.0, used):.0%} of the time"
