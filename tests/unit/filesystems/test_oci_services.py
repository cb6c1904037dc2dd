"""Oracle's services that are kinds of file systems: Lustre by tiers, and NFS for homes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.catalog import load_catalog
from gridwright.catalog.managed import managed_offers
from gridwright.errors import GridwrightError
from gridwright.filesystems import kind_of
from gridwright.filesystems.oci_lustre.model import GB, TIERS
from gridwright.filesystems.oci_lustre.rates import least_size, nearest_sizes, oci_lustre_offers, offer_of
from gridwright.filesystems.offers import OnSale, VolumeMarket
from gridwright.filesystems.provided import TieredLustre, requested
from gridwright.model.grid import GridModel, grid_model
from gridwright.model.predict import predict
from gridwright.spec import parse_spec
from gridwright.spec.model import GridSpec
from gridwright.spec.warnings import warn

OFFER = offer_of(managed_offers(), 125)
LUSTRE = {"type": "oci-lustre", "path": "/shared", "capacity": "31.2 TB"}


def grid(section: dict[str, Any], provider: str = "oci", **more: Any) -> GridSpec:
    return parse_spec(
        json.dumps(
            {
                "name": "g",
                "provider": provider,
                "region": "us-ashburn-1" if provider == "oci" else "us-east-1",
                "nodes": {
                    "compute": {
                        "instance": "VM.Standard.E5.Flex(24)" if provider == "oci" else "m5n.8xlarge",
                        "count": 4,
                    }
                },
                "filesystems": {"shared": section, **more},
                "libraries": {"data": {"filesystem": "shared"}},
                "scheduler": {"type": "slurm"},
            }
        )
    )


def model(section: dict[str, Any], **more: Any) -> GridModel:
    return grid_model(grid(section, **more))


def refused(section: dict[str, Any]) -> str:
    with pytest.raises(GridwrightError) as caught:
        grid(section)
    return " | ".join(f"{each.field}: {each.what}; {each.remedy}" for each in caught.value.problems)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"name": "analytics-data"}, "write analytic"),
        ({"name": "über"}, "write _ber"),
        ({"name": ""}, "write lustre"),
        ({"throughput": "300 MB/s/TB"}, "write 250 MB/s/TB"),
        ({"throughput": "250 MB/s/TiB"}, "such as 125 MB/s/TB"),
        ({"throughput": 250}, "such as 125 MB/s/TB"),
        ({"capacity": "5 TB"}, "the nearest is 31.2 TB"),
        ({"capacity": "36.2 TB"}, "the nearest is 31.2 TB or 41.6 TB"),
        ({"capacity": "31.2 TB", "links": [{"bucket": "s3://bucket"}]}, "oci://bucket@namespace"),
        ({"capacity": "31.2 TB", "links": [{"bucket": "oci://bucket"}]}, "oci://bucket@namespace"),
        ({"capacity": "130 TB"}, "the nearest is 124.8 TB or 166.4 TB"),
        ({"maintenance": "sunday"}, "sun:03:00"),
        ({"root_squash": "0:0"}, "65534:65534"),
    ],
)
def test_what_oracle_does_not_sell_is_refused_with_the_nearest_that_it_does(
    fields: dict[str, Any], said: str
) -> None:
    assert said.lower() in refused({**LUSTRE, **fields}).lower()


@pytest.mark.parametrize("written", ["31.2 TB", "31200 GB", "31.2 TiB"])
def test_a_size_is_what_the_api_calls_it(written: str) -> None:
    spec = grid({**LUSTRE, "capacity": written})
    lustre = requested(spec, TieredLustre)["shared"]
    assert lustre.capacity_gb == 31200
    assert lustre.tier == "MBPS_PER_TB_125"
    assert lustre.name == "lustre"


@given(st.integers(1, 2_000_000))
def test_the_least_size_is_on_sale_and_none_that_is_smaller_would_do(gigabytes: int) -> None:
    found = least_size(OFFER, gigabytes * GB)
    assert found >= gigabytes * GB
    assert list(nearest_sizes(OFFER, found)) == [found]
    sizes = list(nearest_sizes(OFFER, gigabytes * GB))
    assert sizes[-1] == found
    assert len(sizes) == 1 or sizes[0] < gigabytes * GB
    assert all(least_size(OFFER, each) == each for each in sizes), "each can be had"


def test_links_that_overlap_are_refused_and_others_are_told_as_the_service_takes_them() -> None:
    links = [{"bucket": "oci://b@ns/p/"}, {"bucket": "oci://c@ns", "directory": "/raw"}]
    assert "two jobs" in refused({**LUSTRE, "links": links})
    links = [
        {"bucket": "oci://b@ns/p/", "directory": "/raw/"},
        {"bucket": "oci://c@ns", "directory": "/rawer"},
    ]
    spec = grid({**LUSTRE, "links": links})
    lustre = requested(spec, TieredLustre)["shared"]
    told = [(each.object_storage_prefix, each.file_system_path) for each in lustre.links]
    assert told == [("ns:/b/p", "/raw"), ("ns:/c", "/rawer")]
    names = {each.name for each in warn(spec)}
    assert "link-copies-only" in names


def test_two_of_one_name_on_a_grid_are_told_apart() -> None:
    spec = grid(LUSTRE, more={**LUSTRE, "path": "/more"})
    assert "same-lustre-name" in {each.name for each in warn(spec)}
    spec = grid(LUSTRE, more={**LUSTRE, "path": "/more", "name": "more"})
    assert "same-lustre-name" not in {each.name for each in warn(spec)}


@pytest.mark.parametrize("tier", TIERS)
def test_the_rate_is_tier_by_capacity_and_the_price_is_that_of_the_list(tier: int) -> None:
    built = model({**LUSTRE, "throughput": f"{tier} MB/s/TB"})
    (data,) = predict(built).libraries
    of_service = tier * 1e6 * 31.2
    of_nodes = 4 * 24e9 / 8
    assert data.rates["write"].bytes_per_s == pytest.approx(min(of_service, of_nodes), rel=0.01)
    shared = next(each for each in built.costs if "OCI Lustre" in each.what)
    # 0.086 USD for each GB, and 0.0005 USD for each GB and performance unit, a month of 730 hours.
    assert shared.usd_per_hour == pytest.approx(31200 * (0.086 + 0.0005 * tier) / 730, rel=1e-6)


def test_a_service_of_oracle_is_refused_elsewhere() -> None:
    for section in (LUSTRE, {"type": "oci-file-storage", "path": "/shared"}):
        with pytest.raises(GridwrightError, match="service of Oracle"):
            grid_model(grid(section, provider="aws"))


@pytest.mark.parametrize("provider", ["oci", "aws", "azure", ""])
def test_it_is_offered_where_it_is_sold_alone(provider: str) -> None:
    on_sale = OnSale(load_catalog(None), "us-ashburn-1", [], VolumeMarket([]), provider=provider)
    assert bool(oci_lustre_offers(on_sale)) == (provider == "oci")


@given(st.floats(1e6, 5e10), st.integers(1, 500 * 10**12), st.sampled_from(TIERS))
def test_an_offer_is_what_a_spec_of_it_predicts_and_costs(rate: float, room: int, tier: int) -> None:
    on_sale = OnSale(load_catalog(None), "us-ashburn-1", [], VolumeMarket([]), provider="oci")
    offer = next(each for each in oci_lustre_offers(on_sale) if each.tier == tier)
    choice = offer.smallest(rate, room)
    assert choice is not None
    assert choice.bytes_per_s >= rate * (1 - 1e-9)
    assert choice.capacity_bytes >= room
    planned = kind_of(grid({**choice.plain, "path": "/shared"}).filesystems["shared"])
    assert planned.describe(grid({**choice.plain, "path": "/shared"}).filesystems["shared"])


def test_homes_are_mounted_by_nfs_3_from_where_the_provider_says() -> None:
    spec = grid(LUSTRE, homes={"type": "oci-file-storage", "path": "/homes", "capacity": "500 GB"})
    homes = spec.filesystems["homes"]
    kind = kind_of(homes)
    assert kind.mount_entry(homes) is None
    entry = kind.mount_entry(homes, "10.0.0.9:/homes")
    assert entry is not None
    assert (entry.source, entry.type) == ("10.0.0.9:/homes", "nfs")
    assert {"vers=3", "hard", "nosuid"} <= set(entry.options)
    assert "unused-filesystem" not in {each.name for each in warn(spec)}, "homes have no library"
    cost = next(each for each in grid_model(spec).costs if "homes" in each.what)
    assert cost.usd_per_hour == pytest.approx(500 * 0.30 / 730, rel=1e-6)


def test_what_nobody_says_the_size_of_has_no_price_and_not_one_of_zero() -> None:
    built = model(LUSTRE, homes={"type": "oci-file-storage", "path": "/homes"})
    assert next(each for each in built.costs if "homes" in each.what).usd_per_hour is None
    assert built.usd_per_hour is None


def test_a_library_on_file_storage_is_warned_of_and_gets_a_mount_targets_rate() -> None:
    spec = grid({"type": "oci-file-storage", "path": "/shared"})
    assert "library-on-file-storage" in {each.name for each in warn(spec)}
    (data,) = predict(grid_model(spec)).libraries
    assert data.rates["read"].bytes_per_s == pytest.approx(125e6)


def test_an_export_has_a_path_that_keeps_others_in() -> None:
    assert "Add one" in refused({"type": "oci-file-storage", "path": "/with space"})
    assert "path of an export" in refused({"type": "oci-file-storage", "path": "/shared", "export": "/"})
