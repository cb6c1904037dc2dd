"""The rule that says when a rate is steady, on series made by hand."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridwright.iotest.steadiness import RULE, Level, hold_s, levels, may_end, steady_rate
from tests.support.examples import examples


def series(*parts: tuple[int, float], noise: float = 0.02, seed: int = 1) -> tuple[list[float], list[float]]:
    """Seconds and rates: each part lasts so many seconds at such a rate."""
    chance = random.Random(seed)  # noqa: S311 - a test's noise
    rates = [rate * chance.gauss(1, noise) for seconds, rate in parts for _ in range(seconds)]
    return [float(second + 1) for second in range(len(rates))], rates


def drift(
    seconds: int, first: float, last: float, noise: float, seed: int
) -> tuple[list[float], list[float]]:
    chance = random.Random(seed)  # noqa: S311 - a test's noise
    rates = [
        (first + (last - first) * second / seconds) * chance.gauss(1, noise) for second in range(seconds)
    ]
    return [float(second + 1) for second in range(seconds)], rates


def test_no_samples_say_nothing() -> None:
    assert levels([], []) == []
    assert steady_rate([], 60) is None
    assert not may_end([], 60)


def test_few_samples_are_one_level() -> None:
    assert levels([1.0, 2.0], [100.0, 300.0]) == [Level(0.0, 2.0, 200.0)]


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("noise", [0.0, 0.02, 0.08])
def test_an_even_rate_is_one_level(seed: int, noise: float) -> None:
    times, rates = series((300, 500.0), noise=noise, seed=seed)
    (level,) = levels(times, rates)
    assert (level.start_s, level.end_s) == (0.0, 300.0)
    assert level.rate == pytest.approx(500, rel=0.02)


@settings(deadline=None, max_examples=examples(40))
@given(
    burst=st.integers(20, 200),
    after=st.integers(60, 300),
    drop=st.floats(0.1, 0.75),
    noise=st.floats(0.0, 0.03),
    seed=st.integers(0, 1000),
)
def test_a_burst_is_found_where_it_ends(burst: int, after: int, drop: float, noise: float, seed: int) -> None:
    times, rates = series((burst, 1e9), (after, drop * 1e9), noise=noise, seed=seed)
    found = levels(times, rates)
    assert found[-1].start_s == pytest.approx(burst, abs=2)
    result = steady_rate(found, float(burst + after))
    assert result is not None
    assert result.peak_bytes_per_s == pytest.approx(1e9, rel=0.1)
    assert result.peak_lasted_s <= burst + 2
    if after >= hold_s(burst + after):
        assert result.steady
        assert result.steady_bytes_per_s == pytest.approx(drop * 1e9, rel=0.05)
        assert result.rule == RULE


def test_a_change_of_less_than_a_tenth_is_noise() -> None:
    times, rates = series((100, 1000.0), (100, 950.0), noise=0.005)
    assert len(levels(times, rates)) == 1


@settings(deadline=None, max_examples=examples(40))
@given(
    last=st.floats(0.2, 0.4),
    noise=st.floats(0.0, 0.03),
    seed=st.integers(0, 1000),
    seconds=st.integers(120, 900),
)
def test_a_rate_that_keeps_falling_is_not_steady(last: float, noise: float, seed: int, seconds: int) -> None:
    times, rates = drift(seconds, 1e9, last * 1e9, noise, seed)
    found = levels(times, rates)
    result = steady_rate(found, float(seconds))
    assert result is not None
    assert not result.steady
    assert result.steady_bytes_per_s is None


@pytest.mark.parametrize(("after", "ends"), [(200, False), (290, False), (310, True), (400, True)])
def test_a_phase_ends_when_the_level_has_held_for_its_time(after: int, ends: bool) -> None:
    longest = 1200.0
    times, rates = series((100, 1000.0), (after, 300.0))
    assert may_end(levels(times, rates), longest) is ends


def test_a_drop_right_at_the_start_is_the_page_cache_and_ends_nothing() -> None:
    times, rates = series((10, 5000.0), (500, 300.0))
    assert not may_end(levels(times, rates), 1200.0)


def test_a_rise_ends_nothing() -> None:
    times, rates = series((100, 300.0), (500, 1000.0))
    assert not may_end(levels(times, rates), 1200.0)


def test_a_level_holds_ten_minutes_at_most() -> None:
    assert hold_s(120.0) == 30.0
    assert hold_s(4200.0) == 600.0


def test_long_series_are_folded_and_lose_no_time() -> None:
    times, rates = series((2000, 1000.0), (2000, 200.0))
    found = levels(times, rates)
    assert found[-1].end_s == 4000.0
    # A folded point in which the drop lies is a level of its own.
    assert found[0].end_s == pytest.approx(2000, abs=20)
    assert found[-1].start_s == pytest.approx(2000, abs=20)


def test_a_volume_that_stood_still_has_a_level_of_nothing() -> None:
    times, rates = series((50, 1000.0), (50, 0.0), noise=0.0)
    result = steady_rate(levels(times, rates), 100.0)
    assert result is not None
    assert result.steady
    assert result.steady_bytes_per_s == 0.0
