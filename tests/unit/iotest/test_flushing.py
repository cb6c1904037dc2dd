"""How long a closing fsync takes, told from what is in memory, or from an earlier rate."""

from __future__ import annotations

from typing import Any

import pytest

from gridwright.cli.prove.progress import LineDisplay, flush_note
from gridwright.iotest.engine import FLUSH_WITHIN_S, PhasePlan, flush_within_s
from gridwright.iotest.options import IotestOptions
from gridwright.iotest.steadiness import (
    WINDOW_S,
    FlushForecast,
    MachineForecasts,
    by_earlier_rate,
    unflushed_bytes,
)
from gridwright.runs.iotest_events import PhaseProgress, Progress

MB = 10**6


def forecast(written: float, drained: float, seconds: int, *, flushing: int = 0) -> FlushForecast:
    """Streams write and a disk takes so many MB/s; then they write no more for `flushing` seconds."""
    found = FlushForecast()
    for tick in range(4 * (seconds + flushing) + 1):
        now = tick / 4
        done = written * min(now, seconds)
        found.see(now, int(done * MB), int(max(0.0, done - drained * now) * MB))
    return found


def test_what_is_in_memory_takes_its_size_over_the_rate_of_the_disk() -> None:
    # 5 s at 200 - 50 MB/s leave 750 MB.
    assert forecast(200, 50, 5).seconds == pytest.approx(15.0, rel=0.01)
    assert forecast(200, 50, 5, flushing=6).seconds == pytest.approx(9.0, rel=0.01)


def test_nothing_is_said_where_nothing_reaches_the_disk_yet_or_too_little_was_seen() -> None:
    assert forecast(200, 0, 5).seconds is None
    assert FlushForecast().seconds is None
    short = FlushForecast()
    short.see(0.0, 0, 0)
    short.see(0.5, 100 * MB, 50 * MB)
    assert short.seconds is None


def test_nodes_of_one_machine_share_its_memory() -> None:
    found = MachineForecasts()
    for tick in range(17):
        now = tick / 4
        # Ten nodes write 20 MB/s each; their machine has 150 MB/s more in memory each second.
        nodes = [
            Progress(False, now, 0, int(20 * MB * now), 0, unflushed_bytes=int(150 * MB * now), flush_s=99.0)
            for _ in range(10)
        ]
        found.see(now, [("a", each) for each in nodes])
    assert found.seconds == pytest.approx(600 / 50, rel=0.01)


def test_a_rate_is_that_of_the_last_seconds() -> None:
    found = FlushForecast()
    for second in range(20):
        fast = min(second, 10) * 100 + max(0, second - 10) * 10
        found.see(float(second), 2000 * MB, (2000 - fast) * MB)
    assert found.seconds == pytest.approx((2000 - 1090) / 10, rel=0.01)
    assert WINDOW_S < 9


def test_an_earlier_rate_with_its_fsync_tells_how_long_the_whole_takes() -> None:
    assert by_earlier_rate(300 * MB, 5.0, 20.0 * MB) == pytest.approx(10.0)
    assert by_earlier_rate(300 * MB, 30.0, 20.0 * MB) == 0.0
    assert by_earlier_rate(300 * MB, 5.0, None) is None


def test_the_kernel_of_this_machine_tells() -> None:
    assert (unflushed_bytes() or 0) >= 0
    assert unflushed_bytes() is not None


@pytest.mark.parametrize(
    ("fields", "seconds", "size", "within"),
    [
        ({}, 10.0, None, FLUSH_WITHIN_S),
        ({}, None, 1 << 30, None),
        ({"engine": "direct"}, 10.0, None, None),
        ({"until_steady_s": 60.0}, 60.0, None, None),
    ],
)
def test_what_ends_by_time_and_goes_through_memory_is_bounded(
    fields: dict[str, Any], seconds: float | None, size: int | None, within: float | None
) -> None:
    plan = PhasePlan(streams=(), seed=0, bytes_per_stream=size, seconds=seconds)
    assert flush_within_s(plan, IotestOptions(**fields)) == within


def test_each_flush_is_told_by_its_own_time(capsys: pytest.CaptureFixture[str]) -> None:
    display = LineDisplay()
    for elapsed in range(1, 8):
        display.take(progress(float(elapsed), 2.0, syncing=elapsed != 4))
    assert capsys.readouterr().err == ""


def progress(elapsed_s: float, flush_s: float | None, *, syncing: bool) -> PhaseProgress:
    return PhaseProgress(
        op="write", syncing=syncing, elapsed_s=elapsed_s, read_bytes=0, written_bytes=1, operations=0,
        unflushed_bytes=300 << 20 if syncing else None, flush_s=flush_s,
    )  # fmt: skip


def test_it_is_told_before_and_while_it_lasts(capsys: pytest.CaptureFixture[str]) -> None:
    display = LineDisplay()
    display._limit_s = 5.0
    for elapsed in (1.0, 2.0, 4.0, 4.5):
        display.take(progress(elapsed, 12.0, syncing=False))
    for elapsed in range(5, 14):
        display.take(progress(float(elapsed), 17.0 - elapsed, syncing=True))
    assert capsys.readouterr().err.splitlines() == [
        ": write: soon at its end, then about 12 s of fsync",
        ": write: flushing to disk, 300 MiB left, about 8 s; 4 s so far",
        ": write: flushing to disk, 300 MiB left, about 4 s; 8 s so far",
    ]


def test_a_short_one_is_worth_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    display = LineDisplay()
    display.take(progress(4.9, 0.4, syncing=False))
    display.take(progress(5.0, None, syncing=True))
    display.take(progress(5.5, None, syncing=True))
    assert capsys.readouterr().err == ""
    assert flush_note(progress(5.0, None, syncing=False)) == ""
