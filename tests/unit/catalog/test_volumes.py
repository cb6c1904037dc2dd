"""What volumes pass and cost, against the providers' own tables and by properties that always hold."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.catalog import VolumeType, load_catalog
from gridwright.errors import GridwrightError

GIB, MIB = 2**30, 2**20
VOLUMES = load_catalog().volumes
BY_SIZE = [name for name in VOLUMES if not VOLUMES[name].provisions_iops]


@pytest.mark.parametrize(
    ("name", "gib", "steady", "burst"),
    [
        # General Purpose SSD volumes: 3 operations of 256 KiB per GiB, capped by size.
        ("gp2", 100, 75, 128),
        ("gp2", 170, 127.5, 128),
        ("gp2", 171, 128.25, 250),
        ("gp2", 334, 250, None),
        ("gp2", 750, 250, None),
        # Throughput Optimized and Cold HDD volumes: rows of the tables of base and burst throughput.
        ("st1", 512, 20, 125),
        ("st1", 2048, 80, 500),
        ("st1", 12800, 500, None),
        ("sc1", 1024, 12, 80),
        ("sc1", 16384, 192, 250),
        ("gp3", 500, 125, None),
    ],
)
def test_throughput_by_size(name: str, gib: int, steady: float, burst: float | None) -> None:
    found = VOLUMES[name].limits(gib * GIB)
    assert found.steady_bytes_per_s == pytest.approx(steady * MIB)
    assert found.burst_bytes_per_s == (None if burst is None else pytest.approx(burst * MIB))


@pytest.mark.parametrize(
    ("name", "gib", "megabytes", "iops"),
    [
        ("balanced", 700, 336, 25_000),
        ("balanced", 1000, 480, 25_000),
        ("higher-performance", 800, 480, 50_000),
        ("lower-cost", 1500, 360, 3_000),
        ("ultra-high-performance-120", 1600, 2680, 300_000),
    ],
)
def test_oracle_volumes(name: str, gib: int, megabytes: float, iops: float) -> None:
    found = VOLUMES[name].limits(gib * GIB)
    assert found.steady_bytes_per_s == pytest.approx(megabytes * 1e6)
    assert found.iops == pytest.approx(iops)


def test_gp2_bursts_last_as_long_as_its_credits() -> None:
    """The guide's table: 100 GiB can do 3000 operations a second for 2000 seconds."""
    found = VOLUMES["gp2"].limits(100 * GIB)
    assert found.burst_bytes_per_s
    assert found.burst_s
    # Large blocks: 128 MiB/s are 512 operations of 256 KiB a second, of which 300 are free.
    assert found.burst_s == pytest.approx(5.4e6 / (512 - 300))
    assert 5.4e6 / (3000 - found.iops) == pytest.approx(2000)


def test_a_full_st1_bucket_reads_the_volume_once() -> None:
    """The guide's table of scan times: 5 TiB at 500 MiB/s in 2.91 h; credits for more than that are there."""
    found = VOLUMES["st1"].limits(5 * 1024 * GIB)
    assert found.burst_bytes_per_s
    assert found.burst_s
    assert found.burst_s * found.burst_bytes_per_s > 5 * 2**40
    assert 5 * 2**40 / found.burst_bytes_per_s / 3600 == pytest.approx(2.91, abs=0.01)


def test_gp3_gives_what_was_bought() -> None:
    found = VOLUMES["gp3"].limits(500 * GIB, iops=8000, throughput_bytes_per_s=500 * MIB)
    assert (found.steady_bytes_per_s, found.iops, found.limited_by) == (500 * MIB, 8000, "throughput")


def test_io2_throughput_follows_its_operations() -> None:
    found = VOLUMES["io2"].limits(1000 * GIB, iops=10_000)
    assert found.steady_bytes_per_s == pytest.approx(2560 * MIB)
    assert VOLUMES["io2"].limits(1000 * GIB, iops=16_000).steady_bytes_per_s == 4000 * MIB


@given(name=st.sampled_from(BY_SIZE), data=st.data())
def test_a_larger_volume_is_never_slower_and_a_burst_never_below_the_steady_rate(
    name: str, data: st.DataObject
) -> None:
    volume = VOLUMES[name]
    low, high = volume.minimum_bytes // GIB, volume.maximum_bytes // GIB
    small, large = sorted(data.draw(st.tuples(*[st.integers(low, high)] * 2)))
    a, b = volume.limits(small * GIB), volume.limits(large * GIB)
    assert a.steady_bytes_per_s <= b.steady_bytes_per_s
    for each in (a, b):
        assert (each.burst_bytes_per_s is None) == (each.burst_s is None)
        if each.burst_bytes_per_s and each.burst_s:
            assert each.burst_bytes_per_s > each.steady_bytes_per_s
            assert 0 < each.burst_s < math.inf


def refusal(volume: VolumeType, size: int, **bought: float) -> str:
    with pytest.raises(GridwrightError) as caught:
        volume.limits(size, **bought)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "size", "near"),
    [
        ("gp3", 0, "1 GiB"),
        ("gp3", -5 * GIB, "1 GiB"),
        ("gp3", 3 * GIB // 2, "2 GiB"),
        ("gp3", 80_000 * GIB, "64 TiB"),
        ("st1", 100 * GIB, "125 GiB"),
        ("balanced", 40 * GIB, "50 GiB"),
        ("gp2", 750 * 10**9, "698 GiB"),
    ],
)
def test_a_size_not_on_offer_is_refused_with_the_nearest(name: str, size: int, near: str) -> None:
    text = refusal(VOLUMES[name], size)
    assert "field: size" in text
    assert f"nearest is {near}" in text


@pytest.mark.parametrize(
    ("name", "bought", "field", "near"),
    [
        ("gp3", {"iops": 100}, "iops", "3000"),
        ("gp3", {"iops": 100_000}, "iops", "50000"),
        ("gp3", {"throughput_bytes_per_s": 2000 * MIB}, "throughput", "750 MiB/s"),
        ("gp3", {"iops": 4000, "throughput_bytes_per_s": 2000 * MIB}, "throughput", "1000 MiB/s"),
        ("gp3", {"throughput_bytes_per_s": 1}, "throughput", "125 MiB/s"),
        ("gp2", {"iops": 3000}, "iops", "leave iops out"),
        ("io2", {}, "iops", "from 100 to 100000"),
        ("io2", {"iops": 1000, "throughput_bytes_per_s": 1e9}, "throughput", "leave throughput out"),
    ],
)
def test_operations_or_throughput_not_on_offer_are_refused(
    name: str, bought: dict[str, float], field: str, near: str
) -> None:
    text = refusal(VOLUMES[name], 100 * GIB, **bought)
    assert f"field: {field}" in text
    assert near in text


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(GridwrightError) as caught:
        VOLUMES["gp3"].limits(0, iops=1, throughput_bytes_per_s=1)
    assert [problem.field for problem in caught.value.problems] == ["size", "iops", "throughput"]


def test_prices_of_aws_volumes() -> None:
    month = 730.0
    gp3 = VOLUMES["gp3"]
    bought = {"iops": 5000.0, "throughput_bytes_per_s": 325.0 * MIB}
    assert gp3.usd_per_hour(1000 * GIB, "us-east-1") * month == pytest.approx(80)
    extra = gp3.usd_per_hour(1000 * GIB, "us-east-1", **bought) * month
    assert extra == pytest.approx(80 + 2000 * 0.005 + 200 * 0.04)
    assert VOLUMES["gp2"].usd_per_hour(750 * GIB, "us-east-1") * month == pytest.approx(75)


def test_io2_operations_get_cheaper_in_tiers() -> None:
    io2 = VOLUMES["io2"]
    capacity = 1000 * 0.125
    month = io2.usd_per_hour(1000 * GIB, "us-east-1", iops=70_000) * 730
    assert month == pytest.approx(capacity + 32_000 * (0.065 + 0.0455) + 6_000 * 0.03185)


def test_prices_of_oracle_volumes_hold_in_every_region() -> None:
    expected = 800 * (0.0255 + 20 * 0.0017)
    for region in ("us-ashburn-1", ""):
        month = VOLUMES["higher-performance"].usd_per_hour(800 * GIB, region) * 730
        assert month == pytest.approx(expected)


def test_an_unknown_price_says_where_one_is_known_and_how_to_state_it() -> None:
    with pytest.raises(GridwrightError) as caught:
        VOLUMES["gp3"].usd_per_hour(100 * GIB, "xy-west-1")
    text = str(caught.value)
    assert "gp3 (capacity)" in text
    assert "xy-west-1" in text
    assert "us-east-1" in text
    assert "prices: storage: xy-west-1: gp3: capacity" in text
