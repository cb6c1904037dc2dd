"""Whether a rate still fell at the end of its phase, on series that try to fool the rule."""

from __future__ import annotations

import itertools
import math
import random
import threading
from collections.abc import Callable
from dataclasses import replace
from statistics import fmean
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gridwright.iotest.drive import drive
from gridwright.iotest.engine import PhasePlan, Sample, StreamPlan
from gridwright.iotest.options import IotestOptions, NullVolume
from gridwright.iotest.steadiness import FEWEST, burst_finding, falling_finding, still_falling, with_levels
from gridwright.runs.phase_record import Falling, PhaseRecord, Steady
from gridwright.runs.records import IotestRecord
from gridwright.runs.verdict import grade_of, judge_library
from gridwright.units import format_rate
from tests.support.examples import examples
from tests.support.records import library_record, phase_record
from tests.support.virtual_phase import VirtualPhase

TOP = 1e9
Shape = Callable[[float], float]
"""The rate at a part of the phase, 0 to 1."""


def verdict(shape: Shape, seconds: int, noise: float = 0.0, seed: int = 0) -> Falling | None:
    chance = random.Random(seed)  # noqa: S311 - a test's noise
    rates = [max(0.0, shape(each / seconds) * chance.gauss(1, noise)) for each in range(seconds)]
    return still_falling([each + 1.0 for each in range(seconds)], rates)


def mostly(found: list[bool]) -> bool:
    """One in ten may go astray: the rule is a test of noise."""
    return sum(found) >= 0.9 * len(found)


SEEDS = range(40)


@settings(deadline=None, max_examples=examples(60))
@given(part=st.floats(0.2, 0.85), at=st.floats(0.76, 0.87), seconds=st.integers(40, 900))
def test_a_drop_in_the_last_quarter_is_found(part: float, at: float, seconds: int) -> None:
    found = [verdict(lambda x: TOP if x < at else part * TOP, seconds, 0.02, seed) for seed in range(5)]
    assert all(found)
    for each in found:
        assert each is not None
        assert each.from_bytes_per_s == pytest.approx(TOP, rel=0.05)
        assert each.to_bytes_per_s == pytest.approx(part * TOP, rel=0.05)


@settings(deadline=None, max_examples=examples(60))
@given(last=st.floats(0.2, 0.7), seconds=st.integers(30, 900))
def test_a_slope_is_found(last: float, seconds: int) -> None:
    assert mostly([bool(verdict(lambda x: TOP * (1 - (1 - last) * x), seconds, 0.02, s)) for s in SEEDS])


def test_a_decay_that_has_not_come_to_its_end_is_found() -> None:
    assert verdict(lambda x: 0.2 * TOP + 0.8 * TOP * math.exp(-2 * x), 60, 0.03) is not None
    assert verdict(lambda x: 0.2 * TOP + 0.8 * TOP * math.exp(-20 * x), 60, 0.03) is None


@settings(deadline=None, max_examples=examples(60))
@given(noise=st.floats(0.0, 0.5), seconds=st.integers(10, 600))
def test_noise_alone_does_not_fall(noise: float, seconds: int) -> None:
    assert mostly([verdict(lambda _: TOP, seconds, noise, seed) is None for seed in SEEDS])


@settings(deadline=None, max_examples=examples(60))
@given(
    periods=st.floats(2.2, 12.0),
    depth=st.floats(0.1, 0.9),
    offset=st.floats(0.0, 1.0),
    noise=st.floats(0.0, 0.2),
    seconds=st.integers(60, 600),
)
# The last sample is the deepest of its trough, which no earlier one came to.
@example(periods=3.5, depth=0.75, offset=0.5, noise=0.0, seconds=325)
def test_a_sawtooth_does_not_fall(
    periods: float, depth: float, offset: float, noise: float, seconds: int
) -> None:
    """Writeback and burst credits rise and fall all the time; the end of a phase may be a trough."""
    shape = lambda x: TOP * (1 - depth * ((periods * x + offset) % 1))  # noqa: E731
    assert mostly([verdict(shape, seconds, noise, seed) is None for seed in SEEDS])


@pytest.mark.parametrize(
    ("why", "shape"),
    [
        ("it fell long ago", lambda x: TOP if x < 0.5 else 0.3 * TOP),
        ("it rises", lambda x: TOP * (0.5 + x / 2)),
        ("it fell and came back", lambda x: 0.3 * TOP if 0.5 < x < 0.7 else TOP),
        ("a twelfth over the phase is noise", lambda x: TOP * (1 - x / 12)),
        ("nothing moved", lambda x: 0.0),
    ],
)
def test_what_does_not_fall(why: str, shape: Shape) -> None:
    for seconds in (10, 30, 60, 700):
        assert verdict(shape, seconds, 0.02) is None or (seconds == 10 and why == "it fell long ago"), why


def test_stalls_that_come_and_go_are_no_fall() -> None:
    chance = random.Random(5)  # noqa: S311 - a test's noise
    assert mostly(
        [verdict(lambda _: 0.0 if chance.random() < 0.1 else TOP, 60, 0.05, s) is None for s in SEEDS]
    )


def test_too_few_samples_say_nothing() -> None:
    falling = [TOP * (1 - each / 20) for each in range(FEWEST)]
    times = [each + 1.0 for each in range(FEWEST)]
    assert still_falling(times, falling) is not None
    assert still_falling(times[1:], falling[1:]) is None
    assert still_falling([], []) is None


def history(rates: list[float]) -> list[Sample]:
    moved, samples = 0, []
    for second, rate in enumerate(rates):
        moved += int(rate)
        samples.append(Sample(second + 1.0001, 0, moved, 0))
    return samples


EVEN = [TOP] * 20


@pytest.mark.parametrize(
    ("why", "own", "limit"),
    [
        ("the rest is the closing fsync", {"seconds_first": 26.0, "fsync_s": 6.0}, 20.0),
        ("a stream that had written all of its size had ended", {"seconds_first": 20.0}, None),
        ("metadata has no rate", {"op": "metadata", "seconds_first": 26.0}, None),
        ("it was interrupted", {"status": "interrupted", "seconds_first": 26.0}, None),
    ],
)
def test_only_what_all_streams_did_counts(why: str, own: dict[str, Any], limit: float | None) -> None:
    record = phase_record(**{"op": "write"} | own)
    tail = [0.1 * TOP] * 6
    assert with_levels(record, limit, history(EVEN + tail)).falling is None, why
    whole = phase_record("write", seconds_first=26.0)
    assert with_levels(whole, 26.0, history(EVEN + tail)).falling is not None, (
        "the same samples, all of them counting"
    )


def test_what_was_found_steady_does_not_fall() -> None:
    steady = Steady(
        steady=True, rule="", peak_bytes_per_s=TOP, peak_lasted_s=1.0,
        steady_bytes_per_s=TOP, change_points_s=[],
    )  # fmt: skip
    record = phase_record("write", seconds_first=26.0, steady=None)
    fell = with_levels(record, 26.0, history(EVEN + [0.1 * TOP] * 6))
    assert fell.falling is not None
    assert next(iter(falling_finding("data", fell))).text.startswith(
        "library data, phase write: the rate still fell"
    )
    assert with_levels(replace(record, steady=steady), 26.0, history(EVEN + [0.1 * TOP] * 6)).falling is None


def test_a_burst_that_ends_within_the_phase_is_found_by_the_engine_s_own_samples(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A volume of a token bucket, as clouds sell them, measured until shortly after its bucket is empty."""
    monkeypatch.setattr("gridwright.iotest.drive.Phase", VirtualPhase)
    burst, lasting = 4.0e7, 8.0e6

    def measured(lasts_s: float) -> PhaseRecord:
        volume = NullVolume(
            burst_bytes_per_s=burst, steady_bytes_per_s=lasting, bucket_bytes=lasts_s * (burst - lasting)
        )
        options = IotestOptions(engine="null", null=volume, block_bytes=16 << 10, seconds=2.0, sample_s=0.05)
        stream = StreamPlan("write", "/nowhere/0", 0, 1 << 40)
        plan = PhasePlan(streams=(stream,), seed=1, bytes_per_stream=None, seconds=2.0)
        driven = drive(plan, options, device=None, live=lambda _: None, stop=threading.Event())
        record = phase_record("write", seconds_first=driven.outcome.seconds_last)
        return with_levels(record, 2.0, driven.history)

    fell = measured(1.7).falling
    assert fell is not None
    assert (fell.from_bytes_per_s, fell.to_bytes_per_s) == pytest.approx((burst, lasting), rel=0.1)
    assert measured(0.3).falling is None
    assert measured(60.0).falling is None


def measured(rates: list[float], **own: Any) -> PhaseRecord:
    """A phase with these rates of each second, on two cores."""
    mean = sum(rates) / len(rates)
    record = phase_record("write", per_core=mean / 2, **own)
    record = replace(record, rate_last_bytes_per_s=mean, seconds_first=float(len(rates)), fsync_s=0.0)
    moved = list(itertools.accumulate(rates))
    history = [Sample(float(second), 0, int(each), 0) for second, each in enumerate(moved, 1)]
    return with_levels(record, None, history)


@settings(deadline=None, max_examples=examples(40))
@given(
    part=st.floats(0.02, 0.8), at=st.floats(0.1, 0.74), seconds=st.integers(30, 600), seed=st.integers(0, 99)
)
def test_what_lasts_is_judged_and_not_the_burst_before_it(
    part: float, at: float, seconds: int, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311 - a test's noise
    rates = [
        max(0.0, TOP * (1.0 if each < at * seconds else part) * chance.gauss(1, 0.02))
        for each in range(seconds)
    ]
    record = measured(rates)
    assert record.judged_bytes_per_s_per_core == pytest.approx(part * TOP / 2, rel=0.06)
    (told,) = burst_finding("data", record) if part < 0.8 * fmean(rates) / TOP else [None]
    if told is not None:
        assert f"{format_rate(record.levels[0].bytes_per_s)} held for " in told.text


@pytest.mark.parametrize("seconds", [20, 60, 120, 300])
@pytest.mark.parametrize(
    "shape",
    [
        lambda second, chance: chance.gauss(1, 0.05),
        lambda second, chance: 1.5 if second % 4 < 2 else 0.5,
        lambda second, chance: 1.5 - (second % 10) / 10,
        lambda second, chance: 1.6 if second % 10 < 5 else 0.4,
        lambda second, chance: 0.01 if second % 19 == 18 else chance.gauss(1, 0.02),
        lambda second, chance: min(1.0, (second + 1) / 5) * chance.gauss(1, 0.03),
        lambda second, chance: (0.2 if second in (12, 13) else 1.0) * chance.gauss(1, 0.03),
    ],
    ids=["noise", "square 4 s", "sawtooth 10 s", "square 10 s", "pauses", "slow start", "dip"],
)
def test_an_even_rate_is_judged_over_the_whole_phase(
    shape: Callable[[int, random.Random], float], seconds: int
) -> None:
    chance = random.Random(seconds)  # noqa: S311 - a test's noise
    rates = [TOP * max(0.0, shape(second, chance)) for second in range(seconds)]
    record = measured(rates)
    assert record.levels == []
    assert record.judged_bytes_per_s_per_core == record.per_core_bytes_per_s
    assert list(burst_finding("data", record)) == []


def test_a_burst_that_moved_more_than_what_lasts_proves_nothing_yet() -> None:
    """As it was measured: 2.1 GB/s for 54 s, then 79 MB/s for 60 s, where 523 MB/s were required."""
    record = measured([2.105e9] * 54 + [78.9e6] * 60, bytes=118_000_000_000)
    library = library_record(phases=[record, replace(record, op="read")], requires=523e6 / 2)
    assert judge_library(library) is False
    iotest = IotestRecord(run="run", status="complete", libraries=[library], findings=[], met=False)
    graded = grade_of(iotest, None, 1 << 30)
    assert graded is not None
    assert graded.grade == "quick look"
    later = measured([2.105e9] * 54 + [78.9e6] * 2000, bytes=270_000_000_000)
    whole = replace(library, phases=[later, replace(later, op="read")])
    graded = grade_of(iotest.model_copy(update={"libraries": [whole]}), None, 1 << 30)
    assert graded is not None
    assert graded.grade == "proof"


def test_a_rate_that_still_fell_below_what_is_required_is_open() -> None:
    record = measured([1e9] * 50 + [1e8] * 8)
    assert record.falling is not None
    assert record.levels == []
    for required, met in ((1e8 / 2.5, True), (3e8, None), (9e8 / 2, False)):
        library = library_record(phases=[record, replace(record, op="read")], requires=required)
        assert judge_library(library) is met, required
