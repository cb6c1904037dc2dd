"""Nodes are replaced a few at a time, empty, the first one alone; what fails stops the rest."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridwright.providers.aws.roll.deciding import SetUp, decide
from tests.unit.providers.aws.roll.roll_world import BOOT, World


def bound(count: int, longest: int) -> int:
    """What docs/aws.md says: three times the longest job, and 21 starts, each with two looks."""
    return 3 * longest + (min(count, 20) + 1) * (BOOT + 3) + 5


@pytest.mark.parametrize("count", [1, 2, 3, 19, 20, 21, 64, 1000])
def test_all_are_replaced_in_bounded_time_and_no_job_ends_for_it(count: int) -> None:
    world = World(count, longest=30)
    for _ in range(30):
        world.pass_time()
    ticks = world.until_over(bound(count, 30))
    assert world.killed_jobs == 0 == world.requeued
    assert world.most_away <= max(1, math.ceil(count / 20))
    assert world.most_idle <= max(1, math.ceil(count / 2))
    assert ticks > BOOT


@settings(max_examples=25, deadline=None)
@given(count=st.integers(1, 45), seed=st.integers(0, 10**6), rate=st.floats(0, 0.5))
def test_a_program_that_is_killed_anywhere_loses_no_place_for_ever(
    count: int, seed: int, rate: float
) -> None:
    chance = random.Random(seed)  # noqa: S311 - events of a test
    world = World(count, chance=chance)
    for _ in range(10):
        world.pass_time()
    world.until_over(20 * bound(count, 10), kill=lambda: chance.random() < rate)
    assert world.killed_jobs == 0
    assert world.most_away <= max(1, math.ceil(count / 20))
    assert not [each for each in world.places if each.reason]


@settings(max_examples=20, deadline=None)
@given(count=st.integers(2, 60), seed=st.integers(0, 10**6))
def test_machines_that_die_meanwhile_count_as_away(count: int, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - events of a test
    world = World(count, chance=chance)
    for _ in range(5):
        world.pass_time()
    most = max(1, math.ceil(count / 20))
    for _ in range(40):
        before = sum(bool(each.booting) for each in world.places)
        due = world.run()
        assert len(due.terminate) <= max(0, most - before)
        if chance.random() < 0.2:
            dead = chance.choice(world.places)
            dead.jobs.clear()
            world.terminate(dead)
        world.pass_time()
    world.until_over(5 * bound(count, 10))


@pytest.mark.parametrize("count", [1, 40, 300])
def test_an_image_that_does_not_come_up_takes_one_node_and_no_more(count: int) -> None:
    world = World(count, longest=5, broken=frozenset({2}))
    for _ in range(60):
        due = world.run()
        world.pass_time()
    assert sum(each.version == 2 for each in world.places) == 1
    assert sum(not each.takes_jobs for each in world.places) == 1
    assert due.halted
    (standing,) = due.standing
    (failed,) = (each for each in world.places if each.failed)
    assert standing.halted.startswith(f"{failed.name}: the playbook failed")
    # A launch template that is mended goes on with that very node.
    world.wanted = 3
    assert world.run().drain == ()
    world.until_over(bound(count, 5) + 10)
    assert world.killed_jobs == 0


def test_one_that_fails_after_others_worked_gives_back_what_was_drained() -> None:
    world = World(100, longest=50)
    for _ in range(10):
        world.pass_time()
    while sum(each.version == 2 and each.takes_jobs for each in world.places) < 3:
        world.run()
        world.pass_time()
    assert sum(bool(each.reason) for each in world.places) > 20
    world.broken = frozenset({2})
    for _ in range(12):
        due = world.run()
        world.pass_time()
    assert due.halted
    away = [each for each in world.places if each.booting or each.failed]
    assert len(away) <= 5
    assert [each for each in world.places if each.reason and each not in away] == []


def test_a_job_without_an_end_holds_its_node_alone_until_the_limit() -> None:
    world = World(20, longest=3)
    world.places[7].jobs = [10**6]
    for _ in range(200):
        due = world.run()
        world.pass_time()
    assert [each.name for each in world.places if each.version == 1] == ["compute8"]
    (standing,) = due.standing
    assert (standing.left, standing.halted) == (1, "")
    assert "compute8 has 1 jobs, for" in standing.waits[-1]
    assert world.killed_jobs == 0
    # The limit counts from when the node was drained, which Slurm keeps.
    world.until_over(30, limit_s=3600)
    assert (world.killed_jobs, world.requeued) == (0, 1)


def test_the_limit_gives_a_node_its_time_from_its_own_drain_on() -> None:
    world = World(4, longest=1, load=0)
    for each in world.places:
        each.jobs = [10**6]
    world.run(limit_s=1200)
    for _ in range(18):
        world.pass_time()
        assert world.run(limit_s=1200).end_on == ()
    for _ in range(3):
        world.pass_time()
        world.run(limit_s=1200)
    assert world.requeued == 1, "the first one alone"


def test_a_clock_that_was_set_back_ends_no_job() -> None:
    world = World(2, load=0)
    for each in world.places:
        each.jobs = [10**6]
    world.run(limit_s=60)
    world.now -= 86400
    world.pass_time()
    assert world.run(limit_s=60).end_on == ()


def test_nothing_is_done_while_slurm_does_not_answer() -> None:
    world = World(10)
    world.run()
    world.queue_answers = False
    for _ in range(5):
        due = world.run()
        assert (due.drain, due.terminate, due.resume) == ((), (), ())
        assert "Slurm does not answer" in due.standing[0].halted
    world.queue_answers = True
    world.until_over(bound(10, 10))


def test_what_somebody_else_drained_is_left_and_named() -> None:
    world = World(10, longest=3)
    world.places[3].reason = "broken fan"
    for _ in range(100):
        due = world.run()
        world.pass_time()
    assert [each.name for each in world.places if each.version == 1] == ["compute4"]
    assert world.places[3].reason == "broken fan"
    assert any(
        "compute4 stays as it is: somebody drained it (broken fan)" in w for w in due.standing[0].waits
    )


def test_a_node_that_tells_of_a_time_before_it_was_replaced_fools_nobody() -> None:
    """What is told counts for the instance that told it, and not for the name."""
    world = World(40, longest=2)
    while not any(each.booting for each in world.places):
        world.run()
        world.pass_time()
    (place,) = (each for each in world.places if each.booting)
    seen = world.look()
    told = {**seen.set_up, "i-1": SetUp("done"), place.instance: SetUp("running")}
    stale = type(seen)(seen.groups, seen.names, told, True, seen.queue, "", seen.now)
    assert decide(stale).terminate == ()
    assert decide(stale).drain == ()


def test_a_node_that_is_set_up_and_not_used_by_slurm_holds_its_place() -> None:
    world = World(40, longest=2)
    while not any(each.version == 2 and not each.booting for each in world.places):
        world.run()
        world.pass_time()
    (place,) = (each for each in world.places if each.version == 2)
    place.reason = "Low RealMemory"
    for _ in range(10):
        due = world.run()
        world.pass_time()
    assert sum(each.version == 2 for each in world.places) == 1
    waits = due.standing[0].waits
    assert f"{place.name} is set up, and Slurm does not use it: DRAIN+IDLE (Low RealMemory)" in waits


def test_a_grid_without_a_scheduler_is_replaced_in_steps() -> None:
    world = World(40, load=0)
    for _ in range(200):
        seen = world.look()
        world.carry_out(decide(type(seen)(seen.groups, seen.names, seen.set_up)))
        world.pass_time()
    assert world.is_over
    assert world.most_away == 2


def test_idle_nodes_go_first() -> None:
    world = World(10, load=0)
    for each in world.places:
        each.jobs = [50]
    world.places[6].jobs = []
    assert world.run().drain == ("compute7",)
