"""Which job starts next: nothing is given twice, order and limits hold, and no wide job starves."""

from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from gridwright.schedulers.local.policy import (
    Allocation,
    Demand,
    MachineResources,
    Obstacle,
    PendingJob,
    QueueLimits,
    decide,
)
from tests.support.examples import examples

GIB = 2**30


def capacity(cores: int = 4, memory: int = 8, **queues: int | None) -> MachineResources:
    limits = {name: QueueLimits(cores=most) for name, most in (queues or {"batch": None}).items()}
    return MachineResources(cores, memory * GIB, limits)


def pending_job(number: int, cores: int = 1, *, memory: int = 1, queue: str = "batch", priority: int = 1,
          time_s: float = math.inf, count: int = 1) -> PendingJob:  # fmt: skip
    return PendingJob((-priority, number), Demand(cores, memory * GIB, queue, cores), time_s, count)


def allocation(
    number: int, cores: int = 1, *, memory: int = 1, queue: str = "batch", ends: float = math.inf
) -> Allocation:
    return Allocation((-1, number), Demand(cores, memory * GIB, queue, cores), ends)


def test_jobs_start_in_order_until_the_cores_are_taken() -> None:
    decision = decide(
        capacity(4), [], [pending_job(1, 2), pending_job(2, 2), pending_job(3, 1)], 0.0, all_reasons=True
    )
    assert decision.starts == [(1, 1), (2, 1)]
    assert decision.blocks[3].obstacle is Obstacle.CORES


def test_an_array_fills_what_is_free() -> None:
    decision = decide(capacity(4), [allocation(1)], [pending_job(2, 1, count=1000)], 0.0)
    assert decision.starts == [(2, 3)]


def test_memory_is_a_limit_as_cores_are() -> None:
    decision = decide(
        capacity(4, 8),
        [],
        [pending_job(1, memory=6), pending_job(2, memory=3), pending_job(3, memory=2)],
        0.0,
    )
    assert decision.blocks[2].obstacle is Obstacle.MEMORY
    assert decision.starts == [(1, 1), (3, 1)]


def test_a_job_that_ends_in_time_passes_a_wide_one() -> None:
    running = [allocation(1, 3, ends=100.0)]
    wide, short, long = pending_job(2, 4), pending_job(3, 1, time_s=50), pending_job(4, 1, time_s=200)
    assert decide(capacity(4), running, [wide, short], 0.0).starts == [(3, 1)]
    blocked = decide(capacity(4), running, [wide, long], 0.0)
    assert blocked.starts == []
    assert (blocked.blocks[4].obstacle, blocked.blocks[4].behind) == (Obstacle.RESERVED, 2)


def test_a_long_job_passes_where_the_wide_one_leaves_room() -> None:
    """At 100 s there are 4 cores, of which the first in line needs 3."""
    running = [allocation(1, 3, ends=100.0)]
    assert decide(capacity(4), running, [pending_job(2, 3), pending_job(3, 1)], 0.0).starts == [(3, 1)]


def test_nothing_passes_a_job_that_needs_all_where_no_time_is_known() -> None:
    decision = decide(capacity(4), [allocation(1, 1)], [pending_job(2, 4), pending_job(3, 1, time_s=1)], 0.0)
    assert decision.starts == []


def test_a_full_queue_holds_up_its_own_jobs_only() -> None:
    there = capacity(4, 8, batch=None, narrow=2)
    running = [allocation(1, 2, queue="narrow")]
    waiting = [pending_job(2, 2, queue="narrow"), pending_job(3, 1, queue="narrow"), pending_job(4, 1)]
    decision = decide(there, running, waiting, 0.0)
    assert decision.starts == [(4, 1)]
    assert decision.blocks[2].obstacle is Obstacle.QUEUE


def test_a_wide_job_does_not_starve_within_its_queue() -> None:
    """One core of the queue is free: a small job of the same queue must not take it for ever."""
    there = capacity(8, 16, narrow=2)
    decision = decide(
        there,
        [allocation(1, 1, queue="narrow")],
        [pending_job(2, 2, queue="narrow"), pending_job(3, 1, queue="narrow")],
        0,
    )
    assert decision.starts == []
    assert decision.blocks[3].behind == 2


def test_what_never_fits_holds_up_nobody() -> None:
    decision = decide(capacity(2), [], [pending_job(1, 3), pending_job(2, 2)], 0.0)
    assert decision.starts == [(2, 1)]
    assert decision.blocks[1].obstacle is Obstacle.TOO_LARGE


QUEUES = {"batch": None, "narrow": 3}
pending = st.builds(
    pending_job,
    st.integers(1, 40),
    st.integers(1, 5),
    memory=st.integers(1, 9),
    queue=st.sampled_from(sorted(QUEUES)),
    priority=st.integers(0, 2),
    time_s=st.sampled_from([1.0, 5.0, 30.0, math.inf]),
    count=st.integers(1, 4),
)


def ordered(found: list[PendingJob]) -> list[PendingJob]:
    """By rank, each number once, as the scheduler has them."""
    unique = {each.job: each for each in found}
    return sorted(unique.values(), key=lambda each: each.rank)


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(pending, max_size=12), st.data())
def test_no_more_is_given_than_there_is_and_all_that_can_be_done_is_done(
    found: list[PendingJob], data: st.DataObject
) -> None:
    """Runs a whole schedule: every job that fits the empty machine runs once, within all limits."""
    there = capacity(4, 8, **QUEUES)
    waiting = {each.job: each for each in ordered(found)}
    running: list[Allocation] = []
    started: dict[int, int] = {}
    now = 0.0
    for _ in range(200):
        decision = decide(there, running, ordered(list(waiting.values())), now)
        for job, count in decision.starts:
            one = waiting[job]
            started[job] = started.get(job, 0) + count
            running += [Allocation(one.rank, one.demand, now + one.time_s)] * count
            left = one.count - count
            waiting[job] = replace(one, count=left)
            if not left:
                del waiting[job]
        assert sum(each.demand.cores for each in running) <= there.cores
        assert sum(each.demand.memory_bytes for each in running) <= there.memory_bytes
        assert sum(each.demand.cores for each in running if each.demand.queue == "narrow") <= 3
        if not running:
            break
        running.remove(data.draw(st.sampled_from(running)))
        now += 0.5
    for demand in (each.demand for each in waiting.values()):
        limit = 3 if demand.queue == "narrow" else 4
        assert demand.cores > limit or demand.memory_bytes > 8 * GIB, "it could have run, and did not"


smalls = st.builds(
    pending_job,
    st.just(0),
    st.integers(1, 2),
    memory=st.integers(1, 2),
    queue=st.sampled_from(sorted(QUEUES)),
    time_s=st.sampled_from([100.0, math.inf]),
)


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(pending, max_size=6), st.integers(2, 4), st.booleans(), st.lists(smalls, min_size=5, max_size=20)
)
def test_a_wide_job_starts_once_those_before_it_have_ended(
    before: list[PendingJob], cores: int, limited: bool, kinds: list[PendingJob]
) -> None:
    """However many small jobs arrive: each turn brings more than the machine can take, and ends but one."""
    there = capacity(4, 8, **QUEUES)
    first = [replace(each, rank=(-1, number), count=1) for number, each in enumerate(before, 1)]
    wide = pending_job(100, cores, memory=8, queue="narrow" if limited and cores <= 3 else "batch")
    waiting = {each.job: each for each in [*first, wide]}
    # The machine is full to begin with.
    running = [Allocation((-1, 0), Demand(1, GIB, "batch", 1)) for _ in range(4)]
    for turn in range(1, 100):
        for extra in range(5):
            number = 1000 + 5 * turn + extra
            waiting[number] = replace(kinds[number % len(kinds)], rank=(-1, number))
        decision = decide(there, running, ordered(list(waiting.values())), float(turn))
        for job, _ in decision.starts:
            one = waiting.pop(job)
            running.append(Allocation(one.rank, one.demand, turn + one.time_s))
        if 100 not in waiting:
            return
        assert running, "nothing runs, and the wide job waits"
        running.remove(min(running, key=lambda each: each.rank[1]))
    raise AssertionError("the wide job starves")
