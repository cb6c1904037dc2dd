"""Prices of instances: by region, with what is not known told apart from what does not exist."""

from __future__ import annotations

import boto3
import pytest

from gridwright.catalog import Catalog, load_catalog
from gridwright.errors import ExitStatus, GridwrightError


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog()


@pytest.mark.parametrize(
    ("name", "region", "usd"),
    [
        ("m5n.8xlarge", "us-east-1", 1.904),
        ("m5n.8xlarge", "eu-central-1", 2.256),
        ("BM.Standard2.52", "us-ashburn-1", 52 * 0.0638),
        ("VM.DenseIO2.24", "ap-tokyo-1", 24 * 0.1275),
        ("VM.DenseIO.E5.Flex(8)", "", 8 * 0.03 + 96 * 0.002 + 6.8 * 0.0612),
        ("VM.Standard.A2.Flex(8)", "", 8 * 0.014 + 128 * 0.002),
        ("VM.Standard3.Flex(8)", "uk-london-1", 8 * 0.04 + 128 * 0.0015),
        ("VM.Standard3.Flex(8)", "", 8 * 0.04 + 128 * 0.0015),
    ],
)
def test_known_prices(catalog: Catalog, name: str, region: str, usd: float) -> None:
    assert catalog.instance_usd_per_hour(name, region) == pytest.approx(usd)


def test_nearly_every_type_that_is_sold_has_a_price(catalog: Catalog) -> None:
    def unpriced(provider: str, region: str) -> tuple[int, int]:
        sold = [each for each in catalog.instances.values() if each.provider == provider and each.current]
        return sum(catalog.prices.price(each, region) is None for each in sold), len(sold)

    without, sold = unpriced("aws", "us-east-1")
    assert sold > 1200
    assert without <= 0.05 * sold
    assert unpriced("oci", "")[0] == 0


def test_a_price_says_who_says_so(catalog: Catalog) -> None:
    price = catalog.instance_price("m5n.8xlarge", "us-east-1")
    assert price
    assert price.source.date == "2026-07"
    assert not price.estimate


def test_of_two_lists_the_newer_one_counts(catalog: Catalog) -> None:
    price = catalog.instance_price("p5.48xlarge", "us-east-1")
    assert price
    assert price.usd == pytest.approx(55.04)
    gov = catalog.instance_price("m5.large", "us-gov-west-1")
    assert gov
    assert gov.source.date == "2026-08"


def test_a_type_newer_than_the_list_of_its_region_is_estimated(catalog: Catalog) -> None:
    home = catalog.instance_price("m8i.8xlarge", "us-east-1")
    there = catalog.instance_price("m8i.8xlarge", "eu-west-1")
    assert home
    assert there
    assert there.estimate
    assert not home.estimate
    ratio = catalog.prices.regional_ratio("eu-west-1")
    assert ratio
    assert 1.05 < ratio < 1.2
    assert there.usd == pytest.approx(home.usd * ratio)
    assert "estimate" in there.source.text


def test_no_commercial_region_of_aws_is_refused(catalog: Catalog) -> None:
    """One that no list has is estimated of its part of the world; a type that nobody lists has no price."""
    for region in boto3.session.Session().get_available_regions("ec2"):
        assert catalog.instance_usd_per_hour("m5n.8xlarge", region) or region in catalog.prices.aws_listed()
    unlisted = set(catalog.regions()) - set(catalog.prices.aws_listed())
    assert "ap-southeast-6" in unlisted
    for region in unlisted:
        found = catalog.instance_price("m5n.8xlarge", region)
        assert found is not None
        assert found.estimate
        assert found.usd == pytest.approx(1.904 * 1.207, rel=1e-3)
        assert catalog.instance_price("r9g.large", region) is None
        of_volume = catalog.volume("gp3").prices.known("capacity", region)
        assert of_volume is not None
        assert of_volume.estimate


def test_nothing_is_estimated_where_no_list_has_the_region(catalog: Catalog) -> None:
    assert catalog.prices.regional_ratio("xy-west-1") is None
    assert catalog.volume("gp3").prices.known("capacity", "xy-west-1") is None


def test_nearly_all_current_types_and_all_shapes_have_a_price(catalog: Catalog) -> None:
    current = [one for one in catalog.instances.values() if one.provider == "aws" and one.current]
    priced = [one for one in current if catalog.instance_price(one.name, "us-east-1")]
    assert len(priced) / len(current) > 0.95
    shapes = [one.name for one in catalog.instances.values() if one.provider == "oci"]
    assert [name for name in shapes if catalog.instance_price(name, "") is None] == []


@pytest.mark.parametrize(("name", "region"), [("r9g.large", "us-east-1"), ("m5n.8xlarge", "af-south-1")])
def test_no_price_is_none_and_no_error(catalog: Catalog, name: str, region: str) -> None:
    assert catalog.instance_usd_per_hour(name, region) is None


@pytest.mark.parametrize(("region", "near"), [("us-east1", "us-east-1"), ("eu-wset-1", "eu-west-1")])
def test_an_unknown_region_is_refused_with_the_nearest(catalog: Catalog, region: str, near: str) -> None:
    with pytest.raises(GridwrightError) as caught:
        catalog.instance_usd_per_hour("m5n.large", region)
    assert caught.value.status == ExitStatus.INPUT
    assert region in str(caught.value)
    assert f"nearest is {near}" in str(caught.value)


def test_a_region_of_the_other_provider_is_refused(catalog: Catalog) -> None:
    with pytest.raises(GridwrightError, match="us-ashburn-1"):
        catalog.instance_usd_per_hour("m5n.large", "us-ashburn-1")


@pytest.mark.parametrize(
    ("name", "near"), [("m5n.8xlarg", "m5n.8xlarge"), ("VM.DenseIO2.42", "VM.DenseIO2.24")]
)
def test_an_unknown_type_is_refused_with_the_nearest(catalog: Catalog, name: str, near: str) -> None:
    with pytest.raises(GridwrightError) as caught:
        catalog.instance(name)
    assert f"nearest is {near}" in str(caught.value)


def test_a_type_of_the_other_provider_is_refused(catalog: Catalog) -> None:
    with pytest.raises(GridwrightError, match=r"m5n\.large is an instance type of aws"):
        catalog.instance("m5n.large", "oci")


def test_regions_are_those_with_prices(catalog: Catalog) -> None:
    assert {"us-east-1", "eu-west-1"} <= set(catalog.regions())
    assert "us-ashburn-1" in catalog.regions("oci")
    assert not set(catalog.regions()) & set(catalog.regions("oci"))
