"""What is packed is what was there, as exactly as is promised; spoilt bytes are told, and do no more harm."""

from __future__ import annotations

import math
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.monitor.history.columns import BlockColumn, Labels, SpoiltPiece, decode, encode

NUMBERS = st.floats(0, 2.0**100, width=32) | st.just(math.nan)
"""Rates and gauges, and what is not known."""
NAMES = st.text(st.characters(), max_size=8)
"""Also such as no encoding has: names of mount points are what their bytes are."""


@st.composite
def series(draw: st.DrawFn) -> tuple[dict[Labels, BlockColumn], int]:
    steps = draw(st.integers(1, 7))
    values = st.lists(NUMBERS, min_size=steps, max_size=steps)
    seconds = st.lists(st.integers(0, 600), min_size=steps, max_size=steps)
    found: dict[Labels, BlockColumn] = {}
    for name in draw(st.lists(st.tuples(NAMES, NAMES), max_size=4, unique=True)):
        mean = array("f", draw(values))
        high = mean if draw(st.booleans()) else array("f", draw(values))
        covered = array("H", draw(seconds)) if draw(st.booleans()) else None
        found[name] = BlockColumn(mean, high, covered)
    return found, steps


def same(one: array[float], other: array[float], part: float) -> bool:
    return all(
        (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=part, abs_tol=1e-37)
        for a, b in zip(one, other, strict=True)
    )


@given(series(), st.booleans())
def test_what_was_packed_comes_back(given: tuple[dict[Labels, BlockColumn], int], rounded: bool) -> None:
    columns, steps = given
    found = decode(encode(columns, steps, rounded=rounded))
    assert list(found) == list(columns)
    for name, column in columns.items():
        part = 1 / 4096 if rounded else 0.0
        assert same(found[name].mean, column.mean, part)
        assert same(found[name].high, column.high, part)
        assert found[name].covered == column.covered


@given(st.integers(0, 4096))
def test_small_whole_numbers_stay_what_they_are(number: int) -> None:
    column = BlockColumn(values := array("f", [number]), values, None)
    assert decode(encode({("a",): column}, 1, rounded=True))["a",].mean[0] == number


def test_rounding_leans_to_no_side() -> None:
    rates = array("f", [1e6 + 997 * number for number in range(5000)])
    (found,) = decode(encode({(): BlockColumn(rates, rates, None)}, len(rates), rounded=True)).values()
    assert sum(found.mean) == pytest.approx(sum(rates), rel=1e-6)


@given(series(), st.data())
def test_spoilt_bytes_are_told_as_spoilt(
    given: tuple[dict[Labels, BlockColumn], int], data: st.DataObject
) -> None:
    columns, steps = given
    packed = encode(columns, steps, rounded=False)
    at = data.draw(st.integers(0, len(packed) - 1))
    for spoilt in (
        packed[:at],
        packed[:at] + bytes([packed[at] ^ data.draw(st.integers(1, 255))]) + packed[at + 1 :],
    ):
        try:
            decode(spoilt)
        except SpoiltPiece:
            continue


def test_a_series_that_does_nothing_takes_next_to_nothing() -> None:
    idle: dict[Labels, BlockColumn] = {
        (f"OST{number:04x}",): BlockColumn(zeros := array("f", bytes(240)), zeros, None)
        for number in range(100)
    }
    assert len(encode(idle, 60, rounded=True)) < 4 * len(idle)
