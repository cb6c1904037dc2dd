"""Stalls: told with place and length, where requests took far longer than they usually do."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.iotest import steadiness
from gridwright.iotest.engine import Sample
from gridwright.iotest.outcome import Outcome
from gridwright.iotest.steadiness import UNUSUAL, StallWatch, stall_finding, stalls_of
from gridwright.runs.phase_record import Stall
from tests.unit.iotest.test_figures import LATENCY, outcome, stream


def measured(*streams: list[tuple[float, float]], p50_us: float | None = 1000.0) -> Outcome:
    """An outcome whose streams had these stalls: start and length."""
    told = [
        stream("write", 1, 1.0)
        | {"stalls": [{"start_s": start, "seconds": seconds} for start, seconds in own]}
        for own in streams
    ]
    return outcome(*told, latency_us=None if p50_us is None else LATENCY | {"p50": p50_us})


def test_streams_that_stand_still_together_are_one_stall() -> None:
    found = stalls_of(measured([(2.0, 5.0)], [(1.0, 4.0), (20.0, 3.5)], []))
    assert found == [Stall(1.0, 5.0, 2), Stall(20.0, 3.5, 1)]


def test_a_stream_that_stands_still_twice_in_a_stall_is_one_stream() -> None:
    assert stalls_of(measured([(1.0, 3.0), (4.5, 3.0)], [(1.0, 8.0)])) == [Stall(1.0, 8.0, 2)]


def test_requests_that_always_take_long_are_no_stalls() -> None:
    slow = measured([(0.0, 4.0), (4.0, 4.0)], p50_us=4e6)
    assert stalls_of(slow) == []
    assert stalls_of(measured([(0.0, 4.0)], p50_us=4e6 / UNUSUAL)) == [Stall(0.0, 4.0, 1)]


def test_without_a_latency_there_is_none() -> None:
    assert stalls_of(measured(p50_us=None)) == []


@given(st.lists(st.lists(st.tuples(st.floats(0, 100), st.floats(3, 20)), max_size=5), min_size=1, max_size=5))
def test_every_stall_of_a_stream_lies_in_one_that_is_told(streams: list[list[tuple[float, float]]]) -> None:
    found = stalls_of(measured(*streams))
    single = [each for own in streams for each in own]
    assert len(found) <= len(single)
    assert max((stall.seconds for stall in found), default=0.0) == max((s for _, s in single), default=0.0)
    starts = [stall.start_s for stall in found]
    assert starts == sorted(starts)
    assert all(any(stall.start_s <= start for stall in found) for start, _ in single)


def test_the_user_is_told_who_where_and_for_how_long() -> None:
    stall = Stall(3.1, 6.44, 3)
    told = stall_finding(stall, library="data", op="write", streams=4, node="compute2")
    assert told.text.startswith(
        "library data, phase write on node compute2: 3 of 4 streams stood still for up to 6.4 s, from 3.1 s"
    )
    alone = stall_finding(stall, library="data", op="read", streams=3, node=None)
    assert alone.text.startswith("library data, phase read: all streams stood still")


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(steadiness, "time", clock)
    return clock


def look(watch: StallWatch, clock: Clock, at: float, moved: int, *, syncing: bool = False) -> float:
    clock.now = 100.0 + at
    return watch.quiet_s(Sample(at, moved, 0, 0), (lambda: None) if syncing else None)


def test_quiet_is_the_time_since_something_moved(clock: Clock) -> None:
    watch = StallWatch(_since=clock.now)
    assert look(watch, clock, 1.0, 2) == 0.0
    assert look(watch, clock, 7.5, 2) == pytest.approx(6.5)
    assert look(watch, clock, 8.0, 3) == 0.0


def test_an_fsync_that_works_is_not_quiet(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = iter(range(100))
    monkeypatch.setattr(steadiness, "_dirty", lambda: (f"Dirty: {next(pages)} kB",))
    watch = StallWatch(_since=clock.now)
    quiet = [look(watch, clock, second / 2, 1, syncing=True) for second in range(1, 20)]
    assert max(quiet) <= 1.0
    monkeypatch.setattr(steadiness, "_dirty", lambda: ("Dirty: 7 kB",))
    for second in range(20, 30):
        last = look(watch, clock, float(second), 1, syncing=True)
    assert last > 5.0


def test_what_others_write_is_no_progress_of_an_fsync(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a target of Lustre away a buffered test went on for 145 s, as others dirtied pages meanwhile."""
    others = iter(range(1000))
    monkeypatch.setattr(steadiness, "_dirty", lambda: (f"Dirty: {next(others)} kB",))
    watch = StallWatch(_since=clock.now)
    own = [4096, 2048, 1024, *[1024] * 70]
    quiet = []
    for second, pages in enumerate(own, start=1):
        clock.now = 100.0 + second
        quiet.append(watch.quiet_s(Sample(second, 1, 0, 0), partial(int, pages)))
    assert quiet[2] == 0.0
    assert quiet[-1] == pytest.approx(70.0)
    # A second stream that begins to flush adds pages; only fewer of them are progress.
    clock.now += 1.0
    assert watch.quiet_s(Sample(1.0, 1, 0, 0), lambda: 9000) > 70.0
    clock.now += 1.0
    assert watch.quiet_s(Sample(1.0, 1, 0, 0), lambda: 8000) == 0.0


def test_looks_that_take_long_are_rare(clock: Clock) -> None:
    looks = []

    def slow() -> int:
        looks.append(clock.now)
        clock.now += 0.5
        return 10**8 - len(looks)

    watch = StallWatch(_since=clock.now)
    for _ in range(1000):
        clock.now += 0.05
        watch.quiet_s(Sample(1.0, 1, 0, 0), slow)
    assert all(later - earlier >= 10.0 for earlier, later in pairwise(looks))
    assert len(looks) >= 4
