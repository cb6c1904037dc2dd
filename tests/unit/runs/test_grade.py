"""How much a run shows: what moved less than memory can hold is never a proof."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gridwright.messages import plain, typed
from gridwright.runs.grade import Graded, grade_of
from gridwright.runs.phase_record import Falling, NodePhaseRecord, PhaseRecord, RecordedNode, Steady
from gridwright.runs.records import IotestRecord
from tests.fixtures.runs import built_runs
from tests.support.records import launch_record, workload_record

GIB = 1 << 30
MEMORY = 8 * GIB


def record(*phases: PhaseRecord, nodes: tuple[RecordedNode, ...] = ()) -> IotestRecord:
    library = built_runs.library("data", 100, True, [plain(each) for each in phases])
    return built_runs.iotest_record([library], True).model_copy(update={"nodes": list(nodes)})


def phase(op: str, size: int, **own: Any) -> PhaseRecord:
    return replace(typed(built_runs.phase(op, 140), PhaseRecord), bytes=size, **own)


def steady_at(found: bool) -> Steady:
    return Steady(
        steady=found, rule="", peak_bytes_per_s=1e9, peak_lasted_s=3.0,
        steady_bytes_per_s=1e9 if found else None, change_points_s=[],
    )  # fmt: skip


def graded(iotest: IotestRecord | None, workload: Any = None) -> Graded:
    found = grade_of(iotest, workload, MEMORY)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("written", "read", "grade"), [(16, 16, "proof"), (16, 15, "quick look"), (4, 16, "quick look")]
)
def test_each_judged_phase_moves_twice_the_memory(written: int, read: int, grade: str) -> None:
    found = graded(record(phase("write", written * GIB), phase("read", read * GIB)))
    assert found.grade == grade
    assert ("data" in found.not_shown) is (grade == "quick look")


def test_a_rate_that_was_found_steady_is_a_proof_and_one_that_was_not_is_none() -> None:
    assert graded(record(phase("write", GIB, steady=steady_at(True)))).grade == "proof"
    assert graded(record(phase("write", GIB, steady=steady_at(False)))).grade == "quick look"


def test_every_node_counts_by_its_own_memory() -> None:
    """Much on a small node does not make up for little on a large one."""
    of = [
        NodePhaseRecord(node=name, cores=4, streams=1, bytes=size * GIB)
        for name, size in (("a", 60), ("b", 20))
    ]
    nodes = (
        RecordedNode(node="a", cores=4, memory_bytes=4 * GIB),
        RecordedNode(node="b", cores=4, memory_bytes=16 * GIB),
    )
    assert graded(record(phase("write", 80 * GIB, nodes=of), nodes=nodes)).grade == "quick look"


def test_a_workload_moves_twice_the_memory_too() -> None:
    def ran(size: int) -> Any:
        return workload_record([launch_record(1, read_bytes=size * GIB, written_bytes=0)])

    assert graded(None, ran(16)).grade == "proof"
    assert "the workload" in graded(None, ran(15)).not_shown
    assert graded(record(phase("write", 16 * GIB)), ran(1)).grade == "quick look"


def test_what_measured_nothing_has_no_grade() -> None:
    assert grade_of(record(), None, MEMORY) is None
    assert grade_of(None, None, MEMORY) is None
    assert grade_of(record(phase("write", GIB, status="interrupted")), None, MEMORY) is None


def test_a_rate_that_still_fell_is_no_proof_however_much_was_moved() -> None:
    falling = Falling(1e9, 3e8, 10.0)
    found = graded(record(phase("write", 16 * GIB, falling=falling), phase("read", 16 * GIB)))
    assert found.grade == "quick look"
    assert "still fell when a phase ended" in found.not_shown
    assert "twice the memory" not in found.not_shown, "that is not why"
