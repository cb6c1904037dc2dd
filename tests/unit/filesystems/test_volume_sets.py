"""The cheapest volumes for a need, against trying every number, size and throughput of them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridwright.catalog import load_catalog
from gridwright.errors import GridwrightError
from gridwright.filesystems.lustre.rates import LustreOffer, MetadataServer, file_share, object_servers
from gridwright.filesystems.offers import GIB, MIB, VolumeMarket, volume_market
from tests.support.examples import examples

CATALOG = load_catalog()
REGIONS = {"gp3": "us-east-1", "gp2": "us-east-1", "st1": "us-east-1", "balanced": "", "lower-cost": ""}
AWS = ("gp3", "gp2", "st1")


def market(*types: str) -> VolumeMarket:
    return volume_market(CATALOG, types, "us-east-1")


def tried(name: str, rate: float, room: float, most: int, region: str) -> float:
    """The least cost per hour of all sets of one type, by the catalogue's own rates and prices."""
    volume = CATALOG.volumes[name]
    bought = range(125, 400) if volume.provisions_throughput else (None,)
    sizes = range(volume.minimum_bytes // GIB, volume.minimum_bytes // GIB + 60)
    best = math.inf
    for count in range(1, most + 1):
        for mib in bought:
            for gib in sizes:
                if count * gib * GIB < room * (1 - 1e-9):
                    continue
                throughput = None if mib in (None, 125) else float(mib * MIB)
                limits = volume.limits(gib * GIB, None, throughput)
                if limits.steady_bytes_per_s * count >= rate * (1 - 1e-9):
                    best = min(best, volume.usd_per_hour(gib * GIB, region, None, throughput) * count)
                    # A larger one of the same throughput only costs more.
                    break
    return best


@pytest.mark.parametrize("name", REGIONS)
@settings(deadline=None, max_examples=examples(30))
@given(rate=st.floats(1e6, 9e8), gib=st.floats(1, 150), most=st.integers(1, 4))
def test_no_number_size_or_throughput_is_cheaper(name: str, rate: float, gib: float, most: int) -> None:
    region = REGIONS[name] or CATALOG.regions("oci")[0]
    found = volume_market(CATALOG, [name], region).cheapest(rate, gib * GIB, most)
    least = tried(name, rate, gib * GIB, most, region)
    if found is None:
        assert least == math.inf
        return
    assert found.usd_per_hour <= least * (1 + 1e-9)
    assert found.count <= most
    assert found.capacity_bytes >= gib * GIB * (1 - 1e-9)
    assert found.bytes_per_s >= rate * (1 - 1e-9)


@settings(deadline=None, max_examples=examples(60))
@given(rate=st.floats(0, 4e10), tib=st.floats(0.01, 300), most=st.integers(1, 24))
def test_of_several_types_the_cheapest_is_taken(rate: float, tib: float, most: int) -> None:
    found = market(*AWS).cheapest(rate, tib * 2**40, most)
    each = [one for name in AWS if (one := market(name).cheapest(rate, tib * 2**40, most))]
    assert (found is None) == (not each)
    if found is not None:
        assert found.usd_per_hour == pytest.approx(min(one.usd_per_hour for one in each))


@settings(deadline=None, max_examples=examples(200))
@given(rate=st.floats(0, 4e10), tib=st.floats(0.01, 300), most=st.integers(1, 24))
def test_the_lower_bound_is_one(rate: float, tib: float, most: int) -> None:
    for name in AWS:
        one = market(name)
        found = one.cheapest(rate, tib * 2**40, most)
        if found is not None:
            assert one.least_usd(rate, tib * 2**40, most) <= found.usd_per_hour * (1 + 1e-9)


def test_operations_are_bought_where_throughput_needs_them() -> None:
    found = market("gp3").cheapest(1500 * MIB, 10 * GIB, 1)
    assert found is not None
    assert found.plain() == {
        "type": "gp3",
        "count": 1,
        "size": "12 GiB",
        "iops": 6000,
        "throughput": "1500 MiB/s",
    }
    assert str(found) == "1 gp3 of 12 GiB at 1500 MiB/s"


def test_more_than_is_sold_is_nothing() -> None:
    assert market("gp3").cheapest(2001 * MIB, GIB, 1) is None
    assert market("gp3").cheapest(2001 * MIB, GIB, 2) is not None
    assert market("gp3").cheapest(0, 64 * 2**40 + GIB, 1) is None


def test_a_region_without_prices_has_no_volumes() -> None:
    assert volume_market(CATALOG, AWS, "nowhere-1").cheapest(1.0, 1.0) is None
    with pytest.raises(GridwrightError):
        CATALOG.volumes["gp3"].usd_per_hour(GIB, "nowhere-1")


SERVERS = object_servers(
    (CATALOG.instance(name, "aws"), usd)
    for name, usd in (
        ("r5n.2xlarge", 0.596),
        ("c5n.4xlarge", 0.864),
        ("c6in.8xlarge", 1.8144),
        ("m5n.8xlarge", 1.9),
    )
)


@settings(deadline=None, max_examples=examples(60))
@given(rate=st.floats(1e8, 3e10), tib=st.floats(0.1, 200))
def test_no_other_number_of_lustre_servers_is_cheaper(rate: float, tib: float) -> None:
    targets = market(*AWS)
    room = int(tib * 2**40)
    offer = LustreOffer(
        SERVERS, targets, MetadataServer(CATALOG.instance("m5.4xlarge", "aws"), 0.768, targets)
    )
    found = offer.smallest(rate, room)
    assert found is not None
    beside = offer.metadata.volumes(room)
    assert beside is not None
    for server in SERVERS:
        for count in range(1, 65):
            each = targets.cheapest(rate / file_share() / count, room / count, server.most_targets)
            if each is not None and count * server.bytes_per_s >= rate:
                usd = count * (server.usd_per_hour + each.usd_per_hour) + 0.768 + beside.usd_per_hour
                assert found.usd_per_hour <= usd * (1 + 1e-9), (server.instance.name, count, str(each))
    assert found.bytes_per_s >= rate * (1 - 1e-9)
    assert found.capacity_bytes >= room
