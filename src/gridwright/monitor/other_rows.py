"""What processes of no job use on each node, as far as that can be seen (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gridwright.monitor.rows import SeenNode


@dataclass(frozen=True, slots=True)
class OtherProcess:
    """Processes of one name and user that are of no job; None is what cannot be told."""

    process: str
    user: str
    cpus: float | None
    """CPU time per second."""
    moved_bytes_per_s: float | None
    """To and from storage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherLoad:
    """What of a node no job accounts for. Rates in bytes per second; None where only root may know."""

    node: str
    machine: str
    cpus: float | None
    read_bytes_per_s: float | None
    written_bytes_per_s: float | None
    written_back_bytes_per_s: float
    """By how much there was less in memory that is yet to be written: somebody wrote it earlier."""
    sees_all: bool
    """Whether all processes of its machine can be seen there: not from within a container."""
    processes: tuple[OtherProcess, ...] = ()
    """Those that moved or computed most."""


def other_rows(nodes: Sequence[SeenNode]) -> list[OtherLoad]:
    """One row for each node that answered."""
    return [_row(node) for node in nodes]


def _row(node: SeenNode) -> OtherLoad:
    figures = node.figures
    now, before = figures.gauge("node_memory_Dirty_bytes"), figures.earlier.get(("node_memory_Dirty_bytes",))
    fell = 0.0 if now is None or before is None else max(0.0, before - now)
    return OtherLoad(
        node=node.name,
        machine=node.last.machine or node.name,
        cpus=figures.rate("gridwright_others_cpu_seconds_total"),
        read_bytes_per_s=figures.rate("gridwright_others_read_bytes_total"),
        written_bytes_per_s=figures.rate("gridwright_others_written_bytes_total"),
        written_back_bytes_per_s=fell / node.seconds if node.seconds > 0 else 0.0,
        sees_all=figures.gauge("gridwright_sees_all_processes") == 1.0,
        processes=tuple(_processes(node)),
    )


def _processes(node: SeenNode) -> Iterator[OtherProcess]:
    figures = node.figures
    for labels in figures.labels("gridwright_process_moved_bytes_total"):
        moved = figures.rate("gridwright_process_moved_bytes_total", *labels)
        cpus = figures.rate("gridwright_process_cpu_seconds_total", *labels)
        if moved or cpus:
            yield OtherProcess(labels[0], labels[1], cpus, moved)
