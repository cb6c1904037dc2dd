"""How files lie on targets: the simulation against the closed form, and what has to hold of any placement."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridwright.filesystems.placements import (
    PLACEMENTS,
    SURE,
    chance_of_at_most,
    simulated_fullest,
    spread,
)

FILES, TARGETS = st.integers(1, 400), st.integers(1, 120)


@pytest.mark.parametrize(("files", "targets"), [(1, 1), (1, 5), (3, 2), (5, 3), (4, 6), (7, 4)])
def test_the_closed_form_counts_every_placement(files: int, targets: int) -> None:
    placements = list(itertools.product(range(targets), repeat=files))
    for most in range(files + 1):
        within = sum(max(map(placement.count, range(targets))) <= most for placement in placements)
        assert chance_of_at_most(most, files, targets) == pytest.approx(within / len(placements), abs=1e-9)


@given(files=FILES, targets=TARGETS)
@settings(max_examples=60, deadline=None)
def test_the_simulation_agrees_with_the_closed_form(files: int, targets: int) -> None:
    fullest = simulated_fullest(files, targets, 1)
    for most in range(math.ceil(files / targets), int(fullest.max()) + 1):
        chance = chance_of_at_most(most, files, targets)
        # Five standard deviations of a part of 1000 placements.
        assert np.mean(fullest <= most) == pytest.approx(chance, abs=5 * math.sqrt(0.25 / PLACEMENTS))


@given(files=FILES, targets=TARGETS, stripes=st.integers(1, 130))
@settings(max_examples=60, deadline=None)
def test_no_placement_delivers_more_than_all_targets(files: int, targets: int, stripes: int) -> None:
    found = spread(files, targets, stripes)
    assert 0 < found.floor <= found.median <= found.in_order <= 1
    if stripes >= targets:
        assert found.floor == 1
    if files == 1:
        assert found.floor == pytest.approx(min(stripes, targets) / targets), "one stream has its own targets"
        assert found.of_streams == 1


@given(files=FILES, targets=st.integers(2, 120), stripes=st.integers(1, 60))
@settings(max_examples=60, deadline=None)
def test_twice_as_many_stripes_make_no_placement_worse(files: int, targets: int, stripes: int) -> None:
    if 2 * stripes > targets:
        stripes = targets // 2
    narrow, wide = (simulated_fullest(files, targets, each) for each in (stripes, 2 * stripes))
    assert (wide <= 2 * narrow).all()


def test_every_stripe_lies_on_a_target_of_its_own() -> None:
    """A file over all but one of five targets leaves one of them free; three such files leave some at two."""
    assert set(simulated_fullest(1, 5, 4)) == {1}
    assert set(simulated_fullest(3, 5, 4)) == {3}


def test_one_file_for_each_of_many_targets_leaves_most_idle() -> None:
    """At n = m the fullest target is about ln m / ln ln m over the mean, as balls into bins are."""
    found = spread(86, 86, 1)
    assert round(1 / found.median) == 4
    assert found.in_order == 1
    assert found.floor < found.median
    assert (
        chance_of_at_most(round(1 / found.floor), 86, 86)
        >= SURE
        > chance_of_at_most(round(1 / found.floor) - 1, 86, 86)
    )
