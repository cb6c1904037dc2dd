"""Who writes and reads what: every file by one stream, every byte of a shared file by one stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.iotest.coordinator.members import NodePlans, NodeShare, ring, space_of, streams_of, target_of
from gridwright.iotest.engine import StreamPlan
from gridwright.iotest.options import IotestOptions, LibraryTarget
from gridwright.iotest.stream_plan import NotEnoughSpace, Room, readable
from tests.unit.iotest.test_figures import outcome, stream

BLOCK = 65536
GIB = 1 << 30
TARGET = LibraryTarget("data", "/mnt/data", "shared", 1e8, cores=2)
STREAMS = st.lists(st.integers(1, 9), min_size=1, max_size=8)


def shares(streams: Sequence[int]) -> list[NodeShare]:
    return [NodeShare(f"n{i}", count, count, f"/mnt/data/{i}") for i, count in enumerate(streams)]


def written(plans: NodePlans, streams: int | None = None) -> list[StreamPlan]:
    return [plan for own in plans.writers(streams).values() for plan in own]


@given(STREAMS, st.one_of(st.none(), st.integers(1, 5)))
def test_every_stream_has_its_own_file_and_number(counts: list[int], step: int | None) -> None:
    plans = written(NodePlans(shares(counts), BLOCK, None), step)
    assert len(plans) == (sum(counts) if step is None else step * len(counts))
    assert len({plan.path for plan in plans}) == len(plans)
    assert sorted(plan.file for plan in plans) == list(range(len(plans)))
    assert not any(plan.shared for plan in plans)


@given(STREAMS, st.integers(1, 1000))
def test_parts_of_a_shared_file_lie_side_by_side(counts: list[int], blocks: int) -> None:
    size = blocks * BLOCK
    plans = written(NodePlans(shares(counts), size, "/mnt/data/0/shared-1.dat"))
    assert len({plan.path for plan in plans}) == 1
    assert {plan.file for plan in plans} == {0}
    assert [plan.base for plan in plans] == [number * size for number in range(sum(counts))]
    assert all(plan.file_bytes == size and plan.shared for plan in plans)


@given(STREAMS.filter(lambda counts: len(counts) > 1))
def test_in_pairs_nobody_reads_its_own_and_everything_is_read(counts: list[int]) -> None:
    alike = [max(counts)] * len(counts)
    plans = NodePlans(shares(alike), BLOCK, None)
    files = {node: [replace(plan, role="read") for plan in own] for node, own in plans.writers(None).items()}
    readers = plans.readers(files, None, pairs=True)
    for node, own in readers.items():
        assert {plan.path for plan in own}.isdisjoint(plan.path for plan in files[node])
    read = [plan.path for own in readers.values() for plan in own]
    assert sorted(read) == sorted(plan.path for own in files.values() for plan in own)
    # What is read knows the number that was stamped into it.
    numbers = {plan.path: plan.file for own in files.values() for plan in own}
    assert all(numbers[plan.path] == plan.file for own in readers.values() for plan in own)


def test_a_failed_node_is_left_out_of_the_ring_and_keeps_its_numbers() -> None:
    plans = NodePlans(shares([2, 2, 2]), BLOCK, None)
    files = {node: own for node, own in plans.writers(None).items() if node != "n1"}
    readers = plans.readers(files, None, pairs=True)
    assert list(readers) == ["n0", "n2"]
    assert [plan.file for plan in readers["n0"]] == [4, 5]
    assert [plan.file for plan in readers["n2"]] == [0, 1]


def test_a_ring_of_one_reads_its_own() -> None:
    assert ring(["a"], pairs=True) == {"a": "a"}
    assert ring(["a", "b", "c"], pairs=True) == {"a": "c", "b": "a", "c": "b"}
    assert ring(["a", "b"], pairs=False) == {"a": "a", "b": "b"}


def test_a_mixed_phase_reads_with_one_half_and_writes_with_the_other() -> None:
    plans = NodePlans(shares([4, 1]), BLOCK, None)
    files = {node: [replace(plan, role="read") for plan in own] for node, own in plans.writers(None).items()}
    found = plans.mixed(files)
    assert [plan.role for plan in found["n0"]] == ["read", "read", "write", "write"]
    assert [plan.role for plan in found["n1"]] == ["read", "write"]
    paths = [plan.path for own in found.values() for plan in own]
    assert len(set(paths)) == len(paths)


def test_what_was_not_written_is_not_read() -> None:
    plans = written(NodePlans(shares([3]), 4 * BLOCK, "/mnt/data/0/shared-1.dat"))
    done = outcome(*(stream("write", size, 1.0) for size in (4 * BLOCK, BLOCK + 5, BLOCK - 1)))
    found = readable(plans, done, BLOCK)
    assert [(plan.role, plan.base, plan.file_bytes) for plan in found] == [
        ("read", 0, 4 * BLOCK),
        ("read", 4 * BLOCK, BLOCK),
    ]


def test_the_room_of_a_shared_file_system_is_divided_once() -> None:
    rooms = {"n0": Room(100 * GIB, 1000), "n1": Room(99 * GIB, None)}
    both = shares([4, 4])
    options = IotestOptions()
    together = space_of(rooms, both, TARGET, options, shared=True)
    assert 8 * together.file_bytes <= 99 * GIB / 2
    assert together.file_bytes > 99 * GIB / 2 / 8 - BLOCK - 1
    apart = space_of(rooms, both, TARGET, options, shared=False)
    assert 4 * apart.file_bytes <= 99 * GIB / 2
    assert apart.file_bytes > 1.9 * together.file_bytes


def test_a_size_that_does_not_fit_all_nodes_together_is_refused() -> None:
    rooms = {f"n{i}": Room(10 * GIB, None) for i in range(4)}
    options = IotestOptions(size_bytes=GIB)
    with pytest.raises(NotEnoughSpace):
        space_of(rooms, shares([3] * 4), TARGET, options, shared=True)
    space_of(rooms, shares([3] * 4), TARGET, options, shared=False)


def test_streams_are_one_for_each_core_unless_said_otherwise() -> None:
    assert streams_of(IotestOptions(), 6) == 6
    assert streams_of(IotestOptions(streams=3), 6) == 3


def test_cores_of_all_nodes_are_those_they_have() -> None:
    assert target_of(TARGET, [2, 2, 2]).total_cores == 6
    assert target_of(TARGET, [2, 2]) == replace(TARGET, nodes=2)
    assert target_of(TARGET, [2, 8]).total_cores == 10
