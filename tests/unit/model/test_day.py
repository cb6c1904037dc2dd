"""A day's load spends burst credits at its peaks, and no average can hide a peak that outlasts them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridwright.errors import GridwrightError
from gridwright.filesystems.resources import Resource, Route, Use
from gridwright.model.day import (
    DAY_S,
    NAMES,
    DayCurve,
    DayPrediction,
    DemandOnRoute,
    LibraryDay,
    SharedResources,
    day_curve,
    load_day,
    predict_day,
    settled_day,
    walked_day,
)
from gridwright.model.grid import grid_model
from tests.unit.model.test_predict import CATALOG, spec

HOUR = 3600.0
BUSY = st.lists(st.floats(0, 1), min_size=6, max_size=6).map(
    lambda parts: [each for each in parts for _ in range(4)]
)


def curve(busy: list[float]) -> DayCurve:
    return day_curve("test", [(hour * HOUR, part) for hour, part in enumerate(busy)])


def peak(hours: int, low: float = 0.0) -> DayCurve:
    return curve([1.0] * hours + [low] * (24 - hours))


def shared(
    demand: float,
    steady: float = 100.0,
    burst: float = 300.0,
    hours: float = 1.0,
    refill_s: float | None = None,
) -> SharedResources:
    disk = Resource("disk", "a disk", "node", steady, "a test", burst, hours * HOUR, refill_s=refill_s)
    return SharedResources([DemandOnRoute(Route((Use(disk),)), 1, demand, float("inf"))])


def moved(resources: SharedResources, of: DayCurve) -> float:
    day, settled = settled_day(resources, of)
    assert settled
    return sum(each.rate * (each.end_s - each.start_s) for each in day)


@given(BUSY, st.floats(10, 1000), st.floats(0.1, 30))
@settings(max_examples=40, deadline=None)
def test_no_day_moves_more_than_its_baseline_and_none_earns_what_it_spends_twice(
    busy: list[float], demand: float, hours: float
) -> None:
    resources = shared(demand, hours=hours)
    # Balances at midnight agree, so all that is spent above the baseline was earned the same day.
    assert moved(resources, curve(busy)) <= 100.0 * DAY_S * (1 + 1e-6)
    first = list(walked_day(resources, curve(busy), [hours * HOUR * 200]))
    assert sum(each.rate * (each.end_s - each.start_s) for each in first) <= (
        100.0 * DAY_S + hours * HOUR * 200
    ) * (1 + 1e-9)
    assert all(0 <= each.balances[0] <= hours * HOUR * 200 for each in first)


@given(BUSY, BUSY, st.floats(10, 600), st.sampled_from([None, DAY_S]))
@settings(max_examples=40, deadline=None)
def test_more_load_never_leaves_more_credits_and_holds_no_better(
    one: list[float], other: list[float], demand: float, refill_s: float | None
) -> None:
    resources = shared(demand, refill_s=refill_s)
    higher = [max(a, b) for a, b in zip(one, other, strict=True)]
    (less, _), (more, _) = (settled_day(resources, curve(each)) for each in (one, higher))
    assert min(each.balances[0] for each in more) <= min(each.balances[0] for each in less) + 1e-3
    assert not any(each.short for each in less) or any(each.short for each in more)


@given(BUSY)
@settings(max_examples=30, deadline=None)
def test_what_asks_for_no_more_than_the_baseline_never_runs_dry(busy: list[float]) -> None:
    day, settled = settled_day(shared(100.0), curve(busy))
    assert settled
    assert not any(each.short for each in day)
    assert {each.balances[0] for each in day} == {HOUR * 200}


def test_a_peak_outlasts_the_bucket_though_the_average_is_below_the_baseline() -> None:
    # 3 h at 3 times the baseline: 9 of 24 hours' worth, and the credits last for one of the three.
    day, settled = settled_day(shared(300.0), peak(3))
    assert settled
    assert sum(each.demand * (each.end_s - each.start_s) for each in day) < 100.0 * DAY_S / 2
    short = [each for each in day if each.short]
    assert [short[0].start_s, short[-1].end_s] == pytest.approx([HOUR, 3 * HOUR])
    assert {each.bound_by for each in short} == {"disk"}
    assert short[0].least == pytest.approx(1 / 3)
    assert not any(each.short for each in settled_day(shared(300.0), peak(1))[0])


def test_a_peak_that_the_first_day_serves_is_missed_when_the_night_is_too_short_to_earn_it_again() -> None:
    resources = shared(300.0, hours=20.0)
    full = [20 * HOUR * 200]
    assert not any(each.short for each in walked_day(resources, peak(9), full))
    assert any(each.short for each in settled_day(resources, peak(9))[0])
    # Just below the mean that lasts, years of days are walked in a moment, and all agree.
    day, settled = settled_day(resources, peak(8))
    assert settled
    assert not any(each.short for each in day)


def test_credits_that_fall_a_little_every_day_are_spent_in_the_end() -> None:
    day, settled = settled_day(shared(300.0, hours=20.0), peak(8, low=0.0001))
    assert settled
    assert any(each.short for each in day)


def test_half_an_hour_in_a_day_is_what_an_instance_promises_and_not_twice() -> None:
    promised = shared(300.0, hours=0.5, refill_s=DAY_S - HOUR / 2)
    half = [(0.0, 1.0), (HOUR / 2, 0.0)]
    assert not any(each.short for each in settled_day(promised, day_curve("once", half))[0])
    twice = [*half, (12 * HOUR, 1.0), (12.5 * HOUR, 0.0)]
    assert any(each.short for each in settled_day(promised, day_curve("twice", twice))[0])
    assert not any(each.short for each in settled_day(shared(300.0, hours=0.5), day_curve("twice", twice))[0])


def predicted(name: str, work: dict[str, Any], requires: str, instance: str = "c5.xlarge") -> DayPrediction:
    grid = spec(
        nodes={"compute": {"instance": instance, "count": 4}},
        filesystems={"disk": {"type": "local", "path": "/w", "disks": work}},
        libraries={"work": {"filesystem": "disk", "requires": requires}},
    )
    return predict_day(grid_model(grid, CATALOG), load_day(name))


def write(found: DayPrediction) -> LibraryDay:
    return next(each for each in found.walks if each.operation == "write")


def test_published_buckets_of_volumes_and_of_an_instance_are_walked() -> None:
    gp2 = {"type": "gp2", "count": 1, "size": "100 GiB"}
    day = write(predicted("business-day", gp2, "60 MB/s/core"))
    volumes = next(each for each in day.credits if each.resource == "disk.volumes")
    # 5.4 million credits of 256 KiB at each of four nodes (EBS User Guide).
    assert volumes.full_bytes == pytest.approx(4 * 5.4e6 * 256 * 1024)
    assert day.holds
    assert 0 < volumes.lowest < 1
    assert not write(predicted("all-day", gp2, "60 MB/s/core")).holds, "it is above the baseline"
    # The bandwidth of an instance to its volumes: 30 minutes in 24 hours.
    wide = {"type": "gp3", "count": 4, "size": "500 GiB", "throughput": "250 MiB/s"}
    day = write(predicted("business-day", wide, "200 MB/s/core"))
    bandwidth = next(each for each in day.credits if each.resource == "node.volume-bandwidth")
    assert "30 minutes" in bandwidth.source
    assert (day.bound_by, day.holds) == ("node.volume-bandwidth", False)
    assert day.first_short_s == pytest.approx(9.5 * HOUR, abs=HOUR)


def test_a_burst_without_a_published_length_counts_as_none() -> None:
    scratch = {"type": "fsx-lustre", "path": "/f", "deployment": "scratch-2", "capacity": "1.2 TiB"}
    grid = spec(
        nodes={"compute": {"instance": "m5n.8xlarge", "count": 2}},
        filesystems={"fsx": scratch},
        libraries={"data": {"filesystem": "fsx", "requires": "10 MB/s/core"}},
    )
    day = write(predict_day(grid_model(grid, CATALOG), load_day("business-day")))
    assert "fsx.throughput" in day.unpublished
    assert not day.holds
    assert day.first_short_s is not None
    assert all(each.resource != "fsx.throughput" for each in day.credits)


def test_a_curve_of_ones_own_is_read_and_all_that_is_wrong_with_it_told(tmp_path: Path) -> None:
    own = tmp_path / "own.csv"
    own.write_text("from,busy\n8,60 %\n18:30,0.1\n")
    steps = [(each.start_s / HOUR, each.end_s / HOUR, each.busy) for each in load_day(str(own)).steps]
    assert steps == [(0.0, 8.0, 0.1), (8.0, 18.5, 0.6), (18.5, 24.0, 0.1)], "the last lasts over midnight"
    own.write_text("from,busy\n8,110 %\n25,0.5\n9,1\n9:00,1\n10\n")
    with pytest.raises(GridwrightError) as caught:
        load_day(str(own))
    assert [problem.where for problem in caught.value.problems] == [f"{own}:{line}" for line in (2, 3, 5, 6)]
    with pytest.raises(GridwrightError, match="did you mean business-day"):
        load_day("bussiness-day")
    for name in NAMES:
        assert sum(each.end_s - each.start_s for each in load_day(name).steps) == DAY_S
