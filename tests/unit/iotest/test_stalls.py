"""Stalls: noted with place and length when something moves again, and not before they are long."""

from __future__ import annotations

import pytest

from gridwright.iotest import stalls
from gridwright.iotest.engine import Sample
from gridwright.iotest.stalls import Stall, StallWatch, stall_finding


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(stalls, "time", clock)
    return clock


def watch(clock: Clock) -> StallWatch:
    return StallWatch(_since=clock.now)


def look(watch: StallWatch, clock: Clock, at: float, moved: int, *, syncing: bool = False) -> float:
    clock.now = 100.0 + at
    return watch.quiet_s(Sample(at, moved, 0, 0), syncing=syncing)


def test_a_stall_is_noted_when_it_is_over(clock: Clock) -> None:
    found = watch(clock)
    for at, moved in [(0.5, 1), (1.0, 2), (5.0, 2), (7.5, 2)]:
        quiet = look(found, clock, at, moved)
    assert quiet == pytest.approx(6.5)
    assert found.stalls == []
    assert look(found, clock, 8.0, 3) == 0.0
    assert found.end() == [Stall(1.0, 7.0)]


def test_a_short_pause_is_none(clock: Clock) -> None:
    found = watch(clock)
    look(found, clock, 1.0, 1)
    look(found, clock, 3.9, 2)
    clock.now += 1.0
    assert found.end() == []


def test_a_stall_at_the_end_counts_too(clock: Clock) -> None:
    found = watch(clock)
    look(found, clock, 1.0, 1)
    clock.now += 4.0
    assert found.end() == [Stall(1.0, 4.0)]


def test_an_fsync_that_works_is_no_stall(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = iter(range(100))
    monkeypatch.setattr(stalls, "_dirty", lambda: (f"Dirty: {next(pages)} kB",))
    found = watch(clock)
    for second in range(1, 9):
        look(found, clock, float(second), 1, syncing=True)
    assert found.end() == []


def test_the_user_is_told_where_and_for_how_long() -> None:
    told = stall_finding(Stall(3.1, 6.44), library="data", op="write", node="compute2")
    assert told.text.startswith(
        "library data, phase write on node compute2: no byte moved for 6.4 s, from 3.1 s"
    )
    assert " on node " not in stall_finding(Stall(3.1, 6.4), library="data", op="read", node=None).text
