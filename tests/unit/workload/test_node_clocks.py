"""Clocks of nodes that are off are noticed from the times of launches, and never when they may be right."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gridwright.workload.on_grid.process import NodeClocks
from tests.support.records import launch_record

Launch = tuple[float, float, float]
"""Seconds in the queue, of the launch, and until its result is seen."""
LAUNCHES = st.lists(st.tuples(*[st.floats(0.0, 100.0)] * 3), min_size=1, max_size=8)


def seen(launches: list[Launch], offset: float) -> NodeClocks:
    clocks = NodeClocks()
    now = 1.7e9
    for queued, real, late in launches:
        started = now + queued + offset
        launch = launch_record(node="n1", submitted=now, started=started, ended=started + real)
        clocks.see(launch, seen=now + queued + real + late)
        now += queued + real + late
    return clocks


@given(LAUNCHES, st.floats(-0.9, 0.9))
def test_a_clock_that_is_right_within_a_second_is_never_blamed(launches: list[Launch], offset: float) -> None:
    assert seen(launches, offset).findings() == []


@given(LAUNCHES, st.floats(-1e4, 1e4))
def test_no_clock_is_said_to_be_off_by_more_than_it_is(launches: list[Launch], offset: float) -> None:
    for finding in seen(launches, offset).findings():
        words = finding.text.split()
        said = float(words[words.index("least") + 1])
        assert said <= abs(offset) + 0.06
        assert ("ahead of" in finding.text) == (offset > 0)


def test_a_clock_that_is_off_is_named() -> None:
    ahead, behind = (seen([(0.2, 5.0, 0.1)], offset).findings() for offset in (30.0, -30.0))
    assert "n1 is at least 29.9 s ahead of" in ahead[0].text
    assert "n1 is at least 29.8 s behind" in behind[0].text
