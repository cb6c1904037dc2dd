"""Readings that the native part writes are those that Python's own JSON reads."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gridwright._native import readings_json
from gridwright.monitor.readings import Reading

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
TIMES = st.sampled_from([0.0, -0.0, 1795228009.95, 5e-324, 1e300]) | st.floats(allow_nan=False)
READINGS = st.lists(
    st.builds(
        Reading,
        TEXTS,
        st.lists(TEXTS, max_size=3).map(tuple),
        st.integers(-(1 << 70), 1 << 70) | st.floats() | st.booleans(),
        TIMES,
        st.none() | TIMES,
    ),
    max_size=6,
)


@given(READINGS)
@example([Reading("a", ('"\\\n\x7fé😀',), math.inf, 1.0), Reading("b", (), -math.inf, 1.0, 1.0)])
def test_what_is_written_is_what_was_read(readings: list[Reading]) -> None:
    written = readings_json(readings)
    assert written.isascii()
    back = [Reading(each[0], tuple(each[1]), *each[2:]) for each in json.loads(b"[" + written + b"]")]
    assert repr(back) == repr([each._replace(value=_number(each.value)) for each in readings])


def _number(value: float) -> float:
    """A truth value is written as the number that it is."""
    return int(value) if isinstance(value, bool) else value


@pytest.mark.parametrize(
    "wrong", [[("a", (), 1.0, 1.0)], ["abcde"], [(1, (), 1.0, 1.0, None)], [("a", (), "1", 1.0, None)]]
)
def test_what_is_no_reading_is_refused(wrong: list[Reading]) -> None:
    with pytest.raises((TypeError, ValueError)):
        readings_json(wrong)
