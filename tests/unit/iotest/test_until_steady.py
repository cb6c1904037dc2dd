"""`--until-steady` against a volume made of a token bucket: bursts, then holds its steady rate."""

from __future__ import annotations

import threading
import time

import pytest

from gridwright.iotest.drive import Driven, drive
from gridwright.iotest.engine import PhasePlan, StreamPlan
from gridwright.iotest.options import IotestOptions, NullVolume
from gridwright.runs.iotest_events import Progress
from gridwright.runs.samples import Measured
from tests.support.virtual_phase import VirtualPhase

BURST, STEADY = 4.0e7, 8.0e6
BLOCK = 16 << 10


def run(volume: NullVolume, longest_s: float, streams: int = 1) -> tuple[Driven, list[Measured | Progress]]:
    options = IotestOptions(
        engine="null", null=volume, block_bytes=BLOCK, until_steady_s=longest_s, sample_s=0.05
    )
    plan = PhasePlan(
        streams=tuple(
            StreamPlan("write", f"/nowhere/{number}", number, 1 << 40) for number in range(streams)
        ),
        seed=1,
        bytes_per_stream=None,
        seconds=longest_s,
    )
    events: list[Measured | Progress] = []
    return drive(plan, options, device=None, live=events.append, stop=threading.Event()), events


@pytest.fixture
def virtual(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rates are judged on a clock that no other work on this machine can disturb."""
    monkeypatch.setattr("gridwright.iotest.drive.Phase", VirtualPhase)


@pytest.mark.usefixtures("virtual")
def test_a_burst_and_the_rate_after_it_are_found_and_the_phase_ends_early() -> None:
    lasts = 1.0
    volume = NullVolume(
        burst_bytes_per_s=BURST, steady_bytes_per_s=STEADY, bucket_bytes=lasts * (BURST - STEADY)
    )
    driven, _ = run(volume, longest_s=6.0)
    found = driven.steady
    assert found is not None
    assert found.steady
    assert found.peak_bytes_per_s == pytest.approx(BURST, rel=0.15)
    assert found.peak_lasted_s == pytest.approx(lasts, abs=0.2)
    assert found.steady_bytes_per_s == pytest.approx(STEADY, rel=0.15)
    assert (driven.outcome.seconds_last or 0.0) < 5.0, "the phase must end before its longest time"
    assert driven.outcome.stopped is False
    # The mean over the phase flatters the volume: this is what the option is for.
    assert driven.outcome.bytes / (driven.outcome.seconds_last or 0.0) > 1.5 * STEADY


@pytest.mark.usefixtures("virtual")
def test_without_a_burst_the_phase_runs_to_its_longest_time_and_is_steady() -> None:
    driven, _ = run(NullVolume(burst_bytes_per_s=STEADY), longest_s=2.0)
    found = driven.steady
    assert found is not None
    assert found.steady
    assert found.steady_bytes_per_s == pytest.approx(STEADY, rel=0.15)
    assert found.change_points_s == []
    assert (driven.outcome.seconds_last or 0.0) >= 2.0


@pytest.mark.usefixtures("virtual")
def test_a_burst_that_outlasts_the_phase_is_the_steady_rate_as_far_as_anyone_can_see() -> None:
    volume = NullVolume(burst_bytes_per_s=BURST, steady_bytes_per_s=STEADY, bucket_bytes=60 * BURST)
    driven, _ = run(volume, longest_s=1.5)
    assert driven.steady is not None
    assert driven.steady.peak_bytes_per_s == pytest.approx(BURST, rel=0.15)


@pytest.mark.usefixtures("virtual")
def test_a_drop_too_late_to_hold_is_not_steady() -> None:
    volume = NullVolume(
        burst_bytes_per_s=BURST, steady_bytes_per_s=STEADY, bucket_bytes=1.75 * (BURST - STEADY)
    )
    driven, _ = run(volume, longest_s=2.0)
    assert driven.steady is not None
    assert not driven.steady.steady
    assert driven.steady.steady_bytes_per_s is None


def test_samples_and_progress_are_told_as_they_come() -> None:
    driven, events = run(NullVolume(burst_bytes_per_s=STEADY), longest_s=1.0)
    samples = [event for event in events if isinstance(event, Measured)]
    assert 5 < len(samples) < 27, "a busy machine leaves some out"
    assert sum(sample.written_bytes for sample in samples) == driven.outcome.bytes
    assert sum(sample.interval_s for sample in samples) == pytest.approx(samples[-1].elapsed_s)
    assert [event for event in events if isinstance(event, Progress)]


def test_the_delay_of_the_volume_is_the_latency_that_is_reported() -> None:
    driven, _ = run(NullVolume(delay_s=0.02), longest_s=0.6, streams=1)
    assert driven.outcome.latency_us is not None and driven.outcome.latency_us.p50 is not None
    # On a busy machine a stream also waits for a core.
    assert 19_900 <= driven.outcome.latency_us.p50 < 200_000


def test_the_harness_itself_costs_little() -> None:
    """A free volume shows it: a block must take far less of a core than any disk takes of time for it."""
    before = time.process_time()
    driven, _ = run(NullVolume(), longest_s=0.5, streams=1)
    assert time.process_time() - before < 50e-6 * driven.outcome.bytes / BLOCK


def test_an_order_to_stop_ends_it() -> None:
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    options = IotestOptions(engine="null", null=NullVolume(burst_bytes_per_s=1e6), seconds=60)
    plan = PhasePlan((StreamPlan("write", "/nowhere", 0, 1 << 40),), 1, None, 60.0)
    driven = drive(plan, options, device=None, live=lambda _: None, stop=stop)
    assert driven.outcome.stopped is True
    assert (driven.outcome.wall_s or 0.0) < 5
