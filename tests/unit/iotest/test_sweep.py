"""Streams to try, and the knee among what they reached."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.iotest.options import LibraryTarget
from gridwright.iotest.stream_plan import knee, stream_counts, summarise_sweep
from gridwright.runs.phase_record import Sweep, SweepPoint

TARGET = LibraryTarget("data", "/data", None, None, cores=4)


@pytest.mark.parametrize(
    ("cores", "tried"),
    [
        (1, [1, 2, 4]),
        (2, [1, 2, 4, 8]),
        (3, [1, 2, 4, 8, 12]),
        (4, [1, 2, 4, 8, 16]),
        (12, [1, 2, 4, 8, 16, 32, 48]),
    ],
)
def test_streams_double_up_to_four_per_core(cores: int, tried: list[int]) -> None:
    assert stream_counts(cores) == tried


@given(st.integers(1, 4096))
def test_counts_rise_from_one_to_four_per_core(cores: int) -> None:
    tried = stream_counts(cores)
    assert tried[0] == 1
    assert tried[-1] == 4 * cores
    assert all(a < b <= 2 * a for a, b in itertools.pairwise(tried))


def test_the_knee_is_the_fewest_streams_that_reach_95_percent() -> None:
    assert knee([(1, 50.0), (2, 94.9), (4, 95.0), (8, 100.0)]) == (4, 100.0)
    assert knee([(1, 100.0), (2, 99.0)]) == (1, 100.0)


def test_a_peak_in_the_middle_has_its_knee_before_it() -> None:
    assert knee([(1, 60.0), (2, 120.0), (4, 90.0)]) == (2, 120.0)


def test_points_without_a_rate_do_not_count() -> None:
    assert knee([(1, None), (2, 80.0), (4, None)]) == (2, 80.0)
    assert knee([(1, None)]) == (None, None)
    assert knee([]) == (None, None)


@given(st.lists(st.floats(1.0, 1e12), min_size=1, max_size=12))
def test_the_knee_reaches_95_percent_and_none_before_it_does(rates: list[float]) -> None:
    points = [(2**number, rate) for number, rate in enumerate(rates)]
    found, peak = knee(points)
    assert peak == max(rates)
    for streams, rate in points:
        assert found is not None
        if streams == found:
            assert rate >= 0.95 * peak
        elif streams < found:
            assert rate < 0.95 * peak


def test_rates_per_core_are_of_all_cores_however_many_streams() -> None:
    record = summarise_sweep("write", [(1, 100.0), (2, None)], TARGET)
    assert record == Sweep("write", [SweepPoint(1, 100.0, 25.0), SweepPoint(2, None, None)], 1, 100.0)
