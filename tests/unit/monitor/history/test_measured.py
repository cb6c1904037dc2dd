"""A gap is told as a gap, never as a wrong rate; what a late sample counted is not lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gridwright.monitor.history.measured import SAMPLER, MeasuredSecond, Measurements
from gridwright.monitor.rates import Key
from gridwright.monitor.readings import Reading, Snapshot
from tests.unit.monitor.history.nodes import DISK, MEMORY, START, SampledNode

CPU = ("node_cpu_seconds_total", "user")
WROTE = ("gridwright_job_written_bytes_total", "7")


def rates(second: MeasuredSecond | None) -> dict[Key, tuple[float, int]]:
    assert second is not None
    return {key: (value, back) for key, value, back in second.values if key != (SAMPLER,)}


def test_counters_become_rates_of_the_second_they_were_read_in_and_gauges_stay() -> None:
    node, told = SampledNode(), Measurements()
    assert told.add(node.sample({DISK: 5e6})) is None
    node.passes()
    second = told.add(node.sample({DISK: 1e6}, {MEMORY: 7.0}))
    assert second is not None
    assert second.slot == START + 1
    assert rates(second) == {DISK: (1e6, 0), MEMORY: (7.0, 0)}
    assert {key: value for key, value, _ in second.values}[(SAMPLER,)] == 0.004


def test_a_late_sample_stands_for_the_seconds_that_were_missed() -> None:
    node, told = SampledNode(), Measurements()
    told.add(node.sample({DISK: 0.0}))
    node.passes(4)
    assert rates(told.add(node.sample({DISK: 8e6})))[DISK] == (2e6, 3)


def test_two_samples_of_a_second_are_one_and_nothing_is_lost() -> None:
    node, told = SampledNode(time=START + 0.1), Measurements()
    told.add(node.sample({DISK: 0.0}))
    node.passes(0.5)
    assert told.add(node.sample({DISK: 1e6})) is None
    node.passes(0.5)
    assert rates(told.add(node.sample({DISK: 2e6})))[DISK] == (3e6, 0)


@pytest.mark.parametrize("clock", [-30.0, -0.9, 30.0, 86400.0])
def test_a_clock_that_was_set_spoils_no_rate_and_fills_no_gap(clock: float) -> None:
    node, told = SampledNode(), Measurements()
    told.add(node.sample({DISK: 0.0}))
    node.passes(1, clock=clock)
    second = told.add(node.sample({DISK: 3e6}))
    assert second is not None
    assert second.clock_was_set
    assert second.slot == int(START + 1.5 + clock)
    assert rates(second)[DISK] == (3e6, 0)


def test_a_counter_that_fell_or_began_anew_has_no_rate_then_and_one_later() -> None:
    node, told = SampledNode(counters={DISK: 9e9}), Measurements()
    told.add(node.sample())
    node.passes()
    node.counters[DISK] = 100.0
    assert DISK not in rates(told.add(node.sample()))
    node.passes()
    assert rates(told.add(node.sample({DISK: 50.0})))[DISK] == (50.0, 0)


def test_counters_of_another_boot_are_others() -> None:
    node, told = SampledNode(counters={DISK: 1.0}), Measurements()
    told.add(node.sample())
    node.machine, node.at_s = "boot2", 3.0
    node.passes(60)
    assert told.add(node.sample({DISK: 1e12})) is None
    node.passes()
    assert rates(told.add(node.sample({DISK: 5.0})))[DISK] == (5.0, 0)


def test_a_source_that_tells_nothing_new_is_waited_for_and_its_rate_is_over_all_of_it() -> None:
    node, told = SampledNode(), Measurements()
    told.add(node.sample({DISK: 0.0}))
    stale = node.sample()
    for _ in range(2):
        node.passes()
        fresh = node.sample()
        held = tuple(each._replace(at_s=stale.at_s) for each in fresh.readings)
        assert DISK not in rates(told.add(replace(fresh, readings=held)))
    node.passes()
    assert rates(told.add(node.sample({DISK: 6e6})))[DISK] == (2e6, 2)


def test_what_is_read_for_the_first_time_has_no_rate_yet() -> None:
    node, told = SampledNode(), Measurements()
    told.add(node.sample({DISK: 0.0}))
    node.passes()
    new = ("node_disk_read_bytes_total", "sdb")
    assert set(rates(told.add(node.sample({new: 1e9})))) == {DISK}
    assert Reading(new[0], new[1:], 1.0, 0.0).key == new


def test_a_job_that_began_meanwhile_has_all_that_it_moved() -> None:
    """Jobs fill the cache in their first second: without that, a history would have less than `top`."""
    node, told = SampledNode(), Measurements()
    told.add(node.sample({CPU: 1.0}))
    node.passes()
    assert rates(told.add(begun(node, WROTE, 6e8, 0.7)))[WROTE] == (6e8, 0)
    node.passes(3)
    assert rates(told.add(begun(node, ("gridwright_job_written_bytes_total", "8"), 6e8, 0.1)))[
        ("gridwright_job_written_bytes_total", "8")
    ] == (2e8, 2)


def test_a_job_that_was_there_before_anybody_looked_has_no_rate_yet() -> None:
    node, told = SampledNode(), Measurements()
    told.add(node.sample({CPU: 1.0}))
    node.passes()
    assert WROTE not in rates(told.add(begun(node, WROTE, 6e8, 5.0)))
    assert told.add(begun(SampledNode(machine="boot2", at_s=9.0), WROTE, 6e8, 0.1)) is None


def begun(node: SampledNode, key: Key, value: float, ago_s: float) -> Snapshot:
    """A sample with a counter that began at zero so long ago."""
    sample = node.sample({CPU: 0.5})
    new = Reading(key[0], key[1:], value, node.at_s, node.at_s - ago_s)
    return replace(sample, readings=(*sample.readings, new))
