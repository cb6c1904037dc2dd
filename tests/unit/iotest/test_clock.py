"""How far a clock is off, out of messages there and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.iotest.coordinator.remote_node import Exchange, best

SECONDS = st.floats(0, 5)


def exchange(start: float, offset: float, there: float, thinks: float, back: float) -> Exchange:
    """A message to a node whose clock is `offset` ahead."""
    received = start + there + offset
    return Exchange(start, received, received + thinks, start + there + thinks + back)


@given(st.floats(0, 1e6), st.floats(-1e5, 1e5), SECONDS, SECONDS, SECONDS)
def test_the_offset_is_wrong_by_half_of_the_way_at_most(
    start: float, offset: float, there: float, thinks: float, back: float
) -> None:
    measured = exchange(start, offset, there, thinks, back)
    assert measured.round_trip_s == pytest.approx(there + back, abs=1e-6)
    assert abs(measured.offset_s - offset) <= (there + back) / 2 + 1e-6


@given(st.floats(-1e5, 1e5), SECONDS, SECONDS)
def test_the_offset_is_right_where_both_ways_take_as_long(offset: float, way: float, thinks: float) -> None:
    assert exchange(7.0, offset, way, thinks, way).offset_s == pytest.approx(offset, abs=1e-6)


def test_the_fastest_exchange_is_believed() -> None:
    slow, fast = exchange(0, 1.0, 0.5, 0, 0.0), exchange(9, 1.0, 0.001, 0, 0.002)
    assert best([slow, fast, slow]) is fast
    with pytest.raises(ValueError, match="empty"):
        best([])
