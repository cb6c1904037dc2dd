"""Median, spread and least change of repeats, against oracles and against chance."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from gridwright.runs.repeats import contrast, reaches, repeated

MEDIAN_ERROR = math.sqrt(math.pi / 2)
"""By how much the median of many is less certain than their mean."""


def test_a_figure_is_summed_up() -> None:
    found = repeated("per_core_bytes_per_s", [98.0, 104.0, 101.0], ran=4, of="write")
    assert (found.median, found.lowest, found.highest, found.ran) == (101.0, 98.0, 104.0, 4)
    assert found.spread == pytest.approx(3.0 / 101)
    assert found.values == [98.0, 104.0, 101.0]


def test_one_repeat_that_counts_has_no_spread() -> None:
    found = repeated("ratio", [0.9], ran=5)
    assert (found.median, found.spread, found.least_change) == (0.9, None, None)
    assert repeated("ratio", [], ran=5).median is None


@pytest.mark.parametrize("number", [2, 3, 5, 10, 30])
def test_the_least_change_is_that_of_a_power_analysis(number: int) -> None:
    logarithms = np.linspace(-0.03, 0.03, number)
    found = repeated("rate", np.exp(logarithms).tolist(), ran=number)
    assert found.least_change is not None
    error = logarithms.std(ddof=1) * math.sqrt(2 / number) * (MEDIAN_ERROR if number > 2 else 1.0)
    freedom = 2 * (number - 1)
    power = stats.nct.sf(stats.t.ppf(0.975, freedom), freedom, math.log1p(found.least_change) / error)
    assert power == pytest.approx(0.8, abs=1e-4)


@pytest.mark.parametrize(("b", "differs"), [([110.0, 112.0], True), ([104.0, 112.0], False)])
def test_two_repeats_are_compared_as_by_students_test(b: list[float], differs: bool) -> None:
    """Of two values the median is the mean, so that the oracle's answer is ours."""
    a = [100.0, 101.0]
    found = contrast(a, b)
    assert found is not None
    assert bool(stats.ttest_ind(np.log(a), np.log(b)).pvalue < 0.05) is differs
    assert found.differs is differs


@pytest.mark.parametrize("number", [2, 3, 5])
def test_chance_alone_seldom_differs_and_the_least_change_mostly_does(number: int) -> None:
    random = np.random.default_rng(20261122)
    deviation, trials = 0.02, 1500
    # Values of exactly this deviation say what change so many repeats can tell.
    shape = np.arange(number) - (number - 1) / 2
    values = (1 + deviation * shape / shape.std(ddof=1)).tolist()
    change = repeated("rate", values, ran=number).least_change
    assert change is not None
    false = told = 0
    for _ in range(trials):
        a, b = random.normal(1, deviation, (2, number)).tolist()
        same, other = contrast(a, b), contrast(a, [each + change for each in b])
        assert same is not None
        assert other is not None
        false += same.differs
        told += other.differs
    assert false / trials < 0.07
    assert told / trials > 0.74


def test_a_run_without_repeats_has_the_spread_of_the_other() -> None:
    several, once = [100.0, 102.0, 98.0, 101.0, 99.0], [101.0]
    found, reverse = contrast(several, once), contrast(once, several)
    assert found is not None
    assert reverse is not None
    assert found.noise > contrast(several, several).noise  # type: ignore[union-attr]
    assert found.noise / found.ratio == pytest.approx(reverse.noise / reverse.ratio)


def test_unlike_numbers_of_repeats_have_welchs_degrees_of_freedom() -> None:
    a, b = [100.0, 101.0, 99.0, 100.5, 99.5], [90.0, 110.0]
    found = contrast(a, b)
    assert found is not None
    errors = [
        np.log(a).std(ddof=1) / math.sqrt(5) * MEDIAN_ERROR,
        np.log(b).std(ddof=1) / math.sqrt(2),
    ]
    freedom = sum(e**2 for e in errors) ** 2 / (errors[0] ** 4 / 4 + errors[1] ** 4 / 1)
    width = stats.t.ppf(0.975, freedom) * math.hypot(*errors)
    assert found.noise == pytest.approx(found.ratio * math.sinh(width))


def test_wide_spreads_tell_the_same_both_ways() -> None:
    a, b = [0.15, 0.14, 0.16], [0.006, 0.2, 0.005]
    found, reverse = contrast(a, b), contrast(b, a)
    assert found is not None
    assert reverse is not None
    assert (found.differs, reverse.differs) == (False, False)
    assert found.noise / found.ratio == pytest.approx(reverse.noise / reverse.ratio)


@pytest.mark.parametrize("nothing", [([], [1.0, 2.0]), ([1.0], [2.0]), ([0.0, 0.0], [1.0, 2.0])])
def test_without_repeats_nothing_is_known_of_noise(nothing: tuple[list[float], list[float]]) -> None:
    assert contrast(*nothing) is None


@pytest.mark.parametrize(
    ("values", "answer"),
    [
        ([110.0, 111.0, 112.0], True),
        ([99.0, 101.0, 107.0], None),  # the median reaches it, and chance could have lifted it there
        ([98.0, 99.0, 140.0], False),  # one lucky repeat, as the best of all, met it
        ([101.0], None),
        ([99.0], False),
        ([], None),
    ],
)
def test_a_requirement_within_the_spread_is_not_met(values: list[float], answer: bool | None) -> None:
    assert reaches(values, 100.0) is answer
    assert reaches([-each for each in values], -100.0, at_most=True) is answer


def test_a_grid_at_its_limit_is_seldom_called_good() -> None:
    random = np.random.default_rng(7)
    lucky = sum(reaches(random.normal(100, 3, 3).tolist(), 100.0) is True for _ in range(1500))
    assert lucky / 1500 < 0.07
