"""The phases of a launch: few, in order, and nothing of the launch is lost or moved far."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridwright.runs.launch_record import LaunchPhase, LibraryTraffic
from gridwright.workload.launches.traffic import (
    FIELDS,
    LIBRARIES,
    MOST_PHASES,
    Interval,
    LaunchSeries,
    merged,
    misplaced,
    weight,
)

MB = 1_000_000


def interval(**values: float) -> Interval:
    return [float(values.get(name, 0.0)) for name in FIELDS]


amounts = st.floats(0.0, 1e10, allow_subnormal=False)
intervals = st.lists(st.lists(amounts, min_size=len(FIELDS), max_size=len(FIELDS)), max_size=40)


@settings(deadline=None)
@given(intervals, st.integers(1, 12), st.floats(0.0, 0.5))
def test_merging_keeps_sums_and_order(given_: list[Interval], most: int, share: float) -> None:
    found = merged(given_, most=most, share=share)
    assert len(found) <= max(most, 0)
    for place, _ in enumerate(FIELDS):
        running, reached = 0.0, []
        for each in given_:
            running += each[place]
            reached.append(running)
        total = 0.0
        for each in found:
            total += each[place]
            # Each phase ends where one of the intervals ended.
            assert any(total == pytest.approx(end, rel=1e-9, abs=1e-6) for end in reached)
        assert total == pytest.approx(running, rel=1e-9, abs=1e-6)


@settings(deadline=None)
@given(st.lists(amounts, min_size=len(FIELDS), max_size=len(FIELDS)), st.floats(0.1, 10.0))
def test_the_same_mix_costs_nothing_to_merge(one: Interval, factor: float) -> None:
    assert misplaced(one, [value * factor for value in one]) <= 1e-9 * max(1.0, weight(one) * factor)


def test_what_differs_most_stays_apart() -> None:
    reading = interval(seconds=0.1, data_read_bytes=10 * MB)
    computing = interval(seconds=0.1, cpu_s=0.1)
    found = merged([reading] * 5 + [computing] * 7 + [reading] * 3, most=12, share=0.01)
    assert [round(each[FIELDS.index("seconds")], 6) for each in found] == [0.5, 0.7, 0.3]
    assert misplaced(reading, computing) == pytest.approx(0.1)


def moved(**values: int) -> dict[str, LibraryTraffic]:
    """Traffic by `library_way`; waits are a second per call counted."""
    return {
        name: LibraryTraffic(values.get(f"{name}_read", 0), values.get(f"{name}_written", 0), 0.0, 0.0)
        for name in LIBRARIES
    }


def test_cpu_time_of_a_process_and_its_children_is_seen_while_they_run() -> None:
    burn = "import time\nend = time.monotonic() + 0.6\nwhile time.monotonic() < end: pass"
    series = LaunchSeries(declared=True)
    with subprocess.Popen([sys.executable, "-c", burn]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        series.look(0.7, 0.0, [process.pid], moved())
    (phase,) = series.phases(0.9)
    assert phase.cpu_s == pytest.approx(0.9)
    assert phase.seconds == pytest.approx(0.7)
    idle = LaunchSeries(declared=True)
    idle.look(1.0, 0.0, [], moved())
    assert idle.phases(0.9) == [LaunchPhase(seconds=1.0, cpu_s=0.0)]


def test_a_spill_is_placed_where_the_process_moved_it(monkeypatch: pytest.MonkeyPatch) -> None:
    # Imports read 50 MB before; the spill writes 60 MB, then reads them, and is counted at its end.
    looks = [(50, 0), (50, 30), (50, 60), (80, 60), (110, 60)]
    series = LaunchSeries(declared=True)
    for number, (read, written) in enumerate(looks, start=1):
        io = (read * MB, written * MB, 0)
        monkeypatch.setattr("gridwright.workload.launches.traffic._io", lambda _, io=io: io)
        series.look(float(number), 0.0, [1], moved(data_read=1))
    counted = {
        "util": LibraryTraffic(60 * MB, 60 * MB, 2.0, 0.0),
        "data": LibraryTraffic(1, 0, 0, 0),
        "work": LibraryTraffic(0, 0, 0, 0),
    }
    series.look(6.0, 0.0, [1], counted)
    phases = series.phases(0.0)
    assert sum(each.util_written_bytes for each in phases) == 60 * MB
    assert sum(each.util_read_bytes for each in phases) == 60 * MB
    assert sum(each.io_wait_s for each in phases) == pytest.approx(2.0)
    writing = [number for number, each in enumerate(phases) if each.util_written_bytes]
    reading = [number for number, each in enumerate(phases) if each.util_read_bytes]
    assert max(writing) < min(reading)
    assert all(each.other_read_bytes == 0 for each in phases)


@pytest.mark.parametrize("seconds", [5, 60, 600])
def test_the_phases_stay_few_however_long_the_launch(monkeypatch: pytest.MonkeyPatch, seconds: int) -> None:
    monkeypatch.setattr("gridwright.workload.launches.traffic._io", lambda _: (0, 0, 0))
    series = LaunchSeries(declared=True)
    data = work = 0
    for look in range(1, seconds * 10 + 1):
        data += 3 * MB if look % 40 < 20 else 0
        work += 5 * MB if look % 40 >= 20 else 0
        series.look(look / 10, 0.0, [], moved(data_read=data, work_written=work))
    phases = series.phases(seconds * 0.8)
    assert 1 <= len(phases) <= MOST_PHASES
    assert len(phases) > 1 or seconds == 600, "what takes a tenth of the launch is a phase of its own"
    assert sum(each.seconds for each in phases) == pytest.approx(seconds, abs=0.01)
    assert sum(each.data_read_bytes for each in phases) == data
    assert sum(each.work_written_bytes for each in phases) == work


def test_a_command_keeps_what_it_moved_as_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gridwright.workload.launches.traffic._io", lambda _: (9 * MB, 4 * MB, 2 * MB))
    series = LaunchSeries(declared=False)
    series.look(1.0, 0.0, [1], moved())
    assert series.phases(0.0) == [
        LaunchPhase(
            seconds=1.0,
            cpu_s=0.0,
            other_read_bytes=9 * MB,
            other_written_bytes=4 * MB,
            device_read_bytes=2 * MB,
        )
    ]


def test_the_start_of_a_test_is_a_phase_of_its_own() -> None:
    series = LaunchSeries(declared=True)
    for number in range(1, 60):
        read = 0 if number <= 4 else (number - 4) * 100 * MB
        series.look(number * 0.1, 0.0, [], moved(data_read=read))
    start, reading = series.phases(0.0)
    assert start == LaunchPhase(seconds=0.4, cpu_s=0.0)
    assert reading.data_read_bytes == 5500 * MB


def test_intervals_are_in_order_of_time() -> None:
    series = LaunchSeries(declared=True)
    for number in range(1, 5):
        series.look(number * 0.1, number * 0.01, [], moved(data_read=number**2))
    starts = [0.0]
    for phase in series.phases(0.0):
        starts.append(starts[-1] + phase.seconds)
    assert all(before < after for before, after in pairwise(starts))
