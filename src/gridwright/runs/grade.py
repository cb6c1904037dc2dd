"""Grades a run by what it can show: a quick look, or a proof of sustained rates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gridwright.runs.judge import JUDGED
from gridwright.runs.phase_record import PhaseRecord
from gridwright.runs.records import IotestRecord, LibraryRecord
from gridwright.runs.workload_record import WorkloadRecord

Grade = Literal["quick look", "proof"]
TIMES_MEMORY = 2
"""How many times the memory of a node its streams move before memory can no longer hide a rate. Half of what
was moved went to the disk then, at the least."""


@dataclass(frozen=True, slots=True)
class Graded:
    """The grade of a run, and in one line what was not shown; empty where all was."""

    grade: Grade
    not_shown: str = ""


def grade_of(
    iotest: IotestRecord | None, workload: WorkloadRecord | None, memory_bytes: int
) -> Graded | None:
    """Grade what was measured; None where nothing was.

    `memory_bytes` is that of the machine that ran it. A library is proven where every phase that is judged
    moved, on each node, twice the memory of the node, or was found steady, and did not still fall at its
    end; a workload where its launches moved as much on all nodes together. What a server or a controller
    holds is not known here.
    """
    short: list[str] = []
    falling: list[str] = []
    measured = False
    memory = _memory_by_node(iotest, memory_bytes)
    for library in iotest.libraries if iotest else []:
        phases = _judged(library)
        measured = measured or bool(phases)
        if any(not _lasted(phase, memory, memory_bytes) for phase in phases):
            short.append(library.library)
        elif any(phase.falling is not None for phase in phases):
            falling.append(library.library)
    if workload is not None and workload.launches and workload.matrix is not None:
        measured = True
        nodes = max(1, len({launch.node for launch in workload.launches}))
        moved = sum((x.read_bytes or 0) + (x.written_bytes or 0) for x in workload.launches)
        if moved < TIMES_MEMORY * nodes * max(memory.values(), default=memory_bytes):
            short.append("the workload")
    if not measured:
        return None
    if not short and not falling:
        return Graded("proof")
    return Graded("quick look", _not_shown(short, falling))


def _judged(library: LibraryRecord) -> list[PhaseRecord]:
    return [phase for phase in library.phases if phase.op in JUDGED and phase.status == "complete"]


def _memory_by_node(iotest: IotestRecord | None, memory_bytes: int) -> dict[str, int]:
    return {node.node: node.memory_bytes or memory_bytes for node in (iotest.nodes if iotest else [])}


def _lasted(phase: PhaseRecord, memory: dict[str, int], default: int) -> bool:
    if phase.steady is not None and phase.steady.steady:
        return True
    if not phase.nodes:
        return (phase.bytes or 0) >= TIMES_MEMORY * default
    whole = [node for node in phase.nodes if node.status == "complete"]
    return bool(whole) and all(
        (node.bytes or 0) >= TIMES_MEMORY * memory.get(node.node, default) for node in whole
    )


def _not_shown(short: list[str], falling: list[str]) -> str:
    of = ", ".join([*short, *falling])
    why = []
    if short:
        why.append(
            "What was moved is less than twice the memory that can hold it, and a burst of the storage can "
            "outlast it"
        )
    if falling:
        why.append(f"The rate of {', '.join(falling)} still fell when a phase ended")
    return (
        f"Not shown: sustained rates, of {of}. {'. '.join(why)}. Longer phases (--seconds 10m), or "
        "gridwright iotest --until-steady, show it."
    )
