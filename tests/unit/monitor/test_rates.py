"""Rates out of counters: right where they can be told, and none where a counter or a clock did not go on."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gridwright.monitor.rates import figures, rate_between, rates
from gridwright.monitor.readings import Reading, Snapshot

COUNTS = st.integers(0, 2**63)
CLOCKS = st.floats(0, 1e9)
BYTES = "node_disk_read_bytes_total"


def reading(value: float, at_s: float, since_s: float | None = None, metric: str = BYTES) -> Reading:
    return Reading(metric, ("sda",), value, at_s, since_s)


def snapshot(*readings: Reading, machine: str = "boot") -> Snapshot:
    return Snapshot("n1", machine, 0.0, 0.0, 2, 2, readings)


@given(st.integers(0, 2**52), st.integers(0, 2**52), st.floats(0.01, 1e4), st.floats(0, 1e4))
def test_a_counter_that_goes_on_has_the_rate_that_it_moved_at(
    begun: int, moved: int, span: float, at: float
) -> None:
    old, new = reading(begun, at), reading(begun + moved, at + span)
    rate = rate_between(old, new)
    assert rate is not None
    assert abs(rate * (new.at_s - old.at_s) - moved) <= moved * 1e-9


@given(COUNTS, COUNTS, CLOCKS, CLOCKS)
def test_there_is_never_a_negative_or_an_endless_rate(one: int, other: int, at: float, then: float) -> None:
    rate = rate_between(reading(one, at), reading(other, then))
    assert rate is None or 0 <= rate < float("inf")
    assert rate is None or (other >= one and then > at)


@given(COUNTS, st.integers(1, 2**62), CLOCKS, st.floats(0.01, 1e3))
def test_a_counter_that_wrapped_or_was_cleared_has_no_rate(
    value: int, lost: int, at: float, span: float
) -> None:
    assert rate_between(reading(value + lost, at), reading(value, at + span)) is None


@given(COUNTS, COUNTS, CLOCKS, st.floats(0, 1e3))
def test_a_clock_that_stood_or_went_back_gives_no_rate(
    value: int, moved: int, at: float, back: float
) -> None:
    assert rate_between(reading(value, at), reading(value + moved, at - back)) is None


@given(st.integers(0, 2**40), st.integers(0, 2**40), st.floats(0, 100), st.floats(101, 200))
def test_a_counter_that_began_anew_has_no_rate_even_if_it_is_larger_now(
    value: int, more: int, since: float, anew: float
) -> None:
    old, new = reading(value, 300.0, since), reading(value + more, 400.0, anew)
    assert rate_between(old, new) is None
    assert rate_between(old._replace(since_s=anew), new) is not None


def test_counters_of_another_boot_have_no_rates_and_gauges_stay() -> None:
    gauge = reading(8.0, 1.0, metric="node_memory_Dirty_bytes")
    before, after = snapshot(reading(10, 1.0)), snapshot(reading(20, 2.0), gauge, machine="another")
    assert figures(before, after).rates == {}
    assert figures(before, after).gauges == {("node_memory_Dirty_bytes", "sda"): 8.0}
    assert figures(before, replace(after, machine="boot")).rates == {(BYTES, "sda"): 10.0}


def test_what_is_new_has_no_rate_yet_and_what_is_gone_none_any_more() -> None:
    sdb = Reading(BYTES, ("sdb",), 5.0, 1.0)
    assert rates([reading(1, 1.0)], [sdb]) == {}
