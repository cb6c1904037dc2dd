"""FSx for Lustre: which capacities can be had, what they pass and cost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.catalog import load_catalog
from gridwright.errors import GridwrightError

GIB, TIB = 2**30, 2**40
MANAGED = load_catalog().managed


def test_the_tiers_on_offer() -> None:
    tiers = {name: [rate / 1e6 for rate in each.tiers] for name, each in MANAGED.items()}
    assert tiers == {
        "scratch-2": [200],
        "persistent-1": [50, 100, 200],
        "persistent-2": [125, 250, 500, 1000],
    }
    assert not MANAGED["scratch-2"].durable
    assert MANAGED["persistent-1"].durable


@pytest.mark.parametrize(
    ("size", "valid"),
    [
        (1200 * GIB, True),
        (2400 * GIB, True),
        (3600 * GIB, False),
        (4800 * GIB, True),
        (100_800 * GIB, True),
        (round(100.8 * TIB), True),
        (round(1.2 * TIB), True),
        (round(1.3 * TIB), False),
        (0, False),
        (-2400 * GIB, False),
        (1, False),
    ],
)
def test_capacities_in_both_spellings(size: int, valid: bool) -> None:
    assert MANAGED["persistent-1"].valid_capacity(size) is valid


@given(st.integers(1, 2 * 10**15))
def test_the_nearest_capacities_are_on_offer_and_enclose_what_was_asked(size: int) -> None:
    deployment = MANAGED["persistent-2"]
    below, above = deployment.nearest_capacities(size)
    assert deployment.valid_capacity(above)
    if not deployment.valid_capacity(size):
        assert above > size
        assert (below is None) == (size < 1200 * GIB)
    if below is not None:
        assert deployment.valid_capacity(below)
        assert below <= size


@given(st.integers(1, 400))
def test_every_step_is_on_offer_in_both_spellings(steps: int) -> None:
    deployment = MANAGED["persistent-1"]
    assert deployment.valid_capacity(steps * 2400 * GIB)
    assert deployment.valid_capacity(round(steps * 2.4 * TIB))
    assert not deployment.valid_capacity(steps * 2400 * GIB + 2)


def test_throughput_as_the_console_shows_it() -> None:
    """Paper 4632-2020 prints 19.688 GB/s for 100.8 TiB at 200 MB/s per TiB: 100 800 GiB in TiB of 2^40."""
    found = MANAGED["persistent-1"].steady_bytes_per_s(100_800 * GIB, 200e6)
    assert found == pytest.approx(19.6875e9)
    assert MANAGED["persistent-1"].steady_bytes_per_s(round(100.8 * TIB), 200e6) == found


def test_bursts() -> None:
    assert MANAGED["persistent-1"].burst_bytes_per_s_per_tib(50e6) == 240e6
    assert MANAGED["persistent-2"].burst_bytes_per_s_per_tib(125e6) == 500e6
    assert MANAGED["persistent-2"].burst_bytes_per_s_per_tib(1000e6) is None
    assert MANAGED["scratch-2"].burst_bytes_per_s_per_tib(200e6) == 1300e6


def test_a_capacity_between_steps_is_refused_with_the_nearest() -> None:
    with pytest.raises(GridwrightError) as caught:
        MANAGED["persistent-2"].usd_per_hour(3000 * GIB, 125e6, "us-east-1")
    assert caught.value.problems[0].field == "capacity"
    assert "nearest is 2400 GiB or 4800 GiB" in str(caught.value)


def test_a_tier_not_on_offer_is_refused_with_the_nearest() -> None:
    with pytest.raises(GridwrightError, match="200 MB/s per TiB") as caught:
        MANAGED["persistent-2"].tier(200e6)
    assert caught.value.problems[0].field == "throughput"
    assert "nearest is 250" in str(caught.value)


def test_prices() -> None:
    month = MANAGED["persistent-2"].usd_per_hour(1200 * GIB, 125e6, "us-east-1") * 730
    assert month == pytest.approx(1200 * 0.145)
    with pytest.raises(GridwrightError, match="xy-west-1") as caught:
        MANAGED["persistent-2"].usd_per_hour(1200 * GIB, 125e6, "xy-west-1")
    assert "prices: storage: xy-west-1: persistent-2: 125" in str(caught.value)
