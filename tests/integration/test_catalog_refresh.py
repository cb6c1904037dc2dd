"""Fetching specifications and prices from clouds: real boto3 against moto's EC2, stubbed prices."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, ConnectTimeoutError, NoCredentialsError
from botocore.stub import ANY, Stubber
from moto import mock_aws

from gridwright.catalog import load_catalog
from gridwright.catalog.facts import Source
from gridwright.catalog.prices import Price
from gridwright.catalog.refresh import Clients, refresh
from gridwright.errors import ExitStatus, GridwrightError, environment_error


@pytest.fixture(autouse=True)
def no_real_credentials(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "none")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "none")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with mock_aws():
        yield


def product(name: str, usd: str, unit: str = "Hrs") -> str:
    dimension = {"unit": unit, "pricePerUnit": {"USD": usd}}
    return json.dumps(
        {
            "product": {"attributes": {"instanceType": name}},
            "terms": {"OnDemand": {"a.b": {"priceDimensions": {"a.b.c": dimension}}}},
        }
    )


def volume(usage: str, usd: str, unit: str, published: str = "2026-11-20T00:00:00Z") -> str:
    dimension = {"unit": unit, "pricePerUnit": {"USD": usd}}
    return json.dumps(
        {
            "product": {"attributes": {"usagetype": usage}},
            "publicationDate": published,
            "terms": {"OnDemand": {"a.b": {"priceDimensions": {"a.b.c": dimension}}}},
        }
    )


def lustre(medium: str, tier: str, usd: str, unit: str = "GB-Mo") -> str:
    """Storage of FSx for Lustre, with the attributes that other tools read; not met for real."""
    dimension = {"unit": unit, "pricePerUnit": {"USD": usd}}
    attributes = {
        "fileSystemType": "Lustre",
        "storageType": medium,
        "throughputCapacity": tier,
        "usagetype": f"Storage.{medium}.{tier}",
    }
    return json.dumps(
        {
            "product": {"attributes": attributes},
            "publicationDate": "2026-11-20T00:00:00Z",
            "terms": {"OnDemand": {"a.b": {"priceDimensions": {"a.b.c": dimension}}}},
        }
    )


def oracle_list(**usd: float | None) -> bytes:
    """Oracle's list with these parts."""
    items = [
        {
            "partNumber": part,
            "currencyCodeLocalizations": [
                {"currencyCode": "USD", "prices": [{"model": "PAY_AS_YOU_GO", "value": price}]}
            ],
        }
        for part, price in usd.items()
    ]
    return json.dumps({"items": items}).encode()


def no_oracle() -> bytes:
    raise environment_error("Oracle's price list cannot be had: no route to host")


def stubbed(pages: list[dict[str, Any]]) -> tuple[Clients, Stubber]:
    """Clients of moto's EC2, and a pricing client that answers with `pages` in turn."""
    pricing = boto3.client("pricing", region_name="us-east-1")
    stubber = Stubber(pricing)
    for page in pages:
        stubber.add_response(
            "get_products", page, {"ServiceCode": "AmazonEC2", "Filters": ANY} | page.pop("asks", {})
        )
    stubber.activate()

    def clients(service: str, region: str) -> Any:
        return pricing if service == "pricing" else boto3.client(service, region_name=region)

    return clients, stubber


def test_what_is_fetched_is_what_the_loader_takes(tmp_path: Path) -> None:
    pages: list[dict[str, Any]] = [
        {"PriceList": [product("m5n.large", "0.5"), product("m5n.xlarge", "0")], "NextToken": "more"},
        {
            "PriceList": [product("i2.8xlarge", "7"), product("m5n.2xlarge", "1", "Quantity")],
            "asks": {"NextToken": "more"},
        },
        {"PriceList": [product("m5n.large", "0.6"), "<html>busy</html>", product("m5n.xlarge", "cheap")]},
        {"PriceList": [volume("EBS:VolumeUsage.gp3", "0.07", "GB-Mo")]},
        {"PriceList": [volume("EBS:VolumeP-IOPS.io2.tier2", "0.04", "IOPS-Mo")]},
        {"PriceList": [volume("EBS:VolumeP-Throughput.gp3", "51.2", "GiBps-mo")]},
        {
            "PriceList": [
                lustre("SSD", "250", "0.2"),
                lustre("SSD", "1000 MB/s/TiB", "0.55"),
                lustre("HDD", "12", "0.02"),
                lustre("SSD", "500", "0.3"),
                lustre("SSD", "500", "0.4"),
                lustre("SSD", "200", "0.14"),
                lustre("INT", "4000", "0.02"),
                lustre("SSD", "125", "0.05", "Requests"),
            ],
            "asks": {"ServiceCode": "AmazonFSx"},
        },
        {
            "PriceList": [
                volume("EUW1-EBS:VolumeUsage.gp3", "0.09", "GB-Mo"),
                volume("EUW1-EBS:VolumeUsage.st1", "0.05", "stone-Mo"),
                volume("EUW1-EBS:SnapshotUsage", "0.05", "GB-Mo"),
            ]
        },
        {"PriceList": []},
        {"PriceList": []},
        {"PriceList": [lustre("SSD", "2500", "0.2")], "asks": {"ServiceCode": "AmazonFSx"}},
    ]
    clients, stubber = stubbed(pages)
    out = tmp_path / "catalog.csv"
    oracle = oracle_list(B97384=0.04, B97385=0.003, B91961=0.03, B109529=0.02, B112145=None)
    done = refresh(out, ["us-east-1", "eu-west-1"], clients, oracle=lambda: oracle)
    stubber.assert_no_pending_responses()
    assert done.types > 500
    assert (done.prices, done.storage) == (3, 7)
    assert len(done.unread["prices of instances"]) == 2
    assert "stone-Mo" in done.unread["prices of volumes"][0]
    assert "B112145: it has no price on demand in USD" in done.unread["Oracle's parts"]
    assert [each for each in done.missing if "FSx for Lustre in" in each] == [
        "FSx for Lustre in eu-west-1: the list has no price of it that is known here"
    ]
    assert [each.partition(":")[0] for each in done.unread["prices of FSx"]] == [
        "Storage.SSD.200",
        "persistent-2 500 in us-east-1 has several prices",
        "Storage.SSD.2500",
    ]

    catalog = load_catalog(tmp_path)
    persistent = catalog.managed["persistent-2"]
    per_month = [persistent.usd_per_hour(2400 * 2**30, tier * 1e6, "us-east-1") * 730 for tier in (250, 1000)]
    assert per_month == [pytest.approx(480), pytest.approx(1320)]
    assert catalog.offer_prices["fsx-lustre-hdd-12"].by_region["us-east-1"]["storage"].usd == 0.02
    found = catalog.instance("m5n.large")
    assert found.source.text == "DescribeInstanceTypes in us-east-1"
    listed = load_catalog().instance("m5n.large")
    assert (found.cores, found.memory_bytes, found.network) == (
        listed.cores,
        listed.memory_bytes,
        listed.network,
    )
    assert catalog.instance_usd_per_hour("m5n.large", "us-east-1") == 0.5
    assert catalog.instance_usd_per_hour("m5n.large", "eu-west-1") == 0.6
    assert catalog.instance_usd_per_hour("i2.8xlarge", "us-east-1") == 7
    ebs = catalog.instance("i2.8xlarge").ebs
    assert ebs
    assert not ebs.dedicated
    # Neither was a price: nothing, and not by the hour. The packaged prices hold on.
    assert catalog.instance_usd_per_hour("m5n.xlarge", "us-east-1") == 0.238
    assert catalog.instance_usd_per_hour("m5n.2xlarge", "us-east-1") == 0.476

    gp3, io2 = catalog.volume("gp3").prices, catalog.volume("io2").prices
    assert gp3.of("capacity", "us-east-1").usd == 0.07
    assert gp3.of("capacity", "us-east-1").source.date == "2026-11-20"
    assert gp3.of("throughput", "us-east-1").usd == pytest.approx(0.05), "by MiB/s, not GiB/s"
    assert gp3.of("capacity", "eu-west-1") == Price(0.09, Source("Pricing API", "2026-11-20"))
    assert io2.of("iops over 32000", "us-east-1").usd == 0.04
    assert io2.of("iops", "us-east-1").usd == 0.065, "what was not fetched stays as packaged"
    assert catalog.volume("st1").prices.of("capacity", "eu-west-1").estimate

    packaged = load_catalog()
    shape = catalog.instance("BM.Standard.E5.192")
    price = catalog.prices.price(shape, "")
    assert price
    assert price.usd == pytest.approx(0.04 * shape.cores + 0.003 * shape.memory_bytes / 2**30)
    assert price.source.text == "Oracle's price list"
    # Two cores for each unit that Oracle sells; memory of it was not fetched, so the old date counts.
    flex = [each for each in catalog.instances.values() if each.name.startswith("VM.Standard.A2")]
    before, after = (each.prices.price(flex[0], "") for each in (packaged, catalog))
    assert before
    assert after
    assert after.usd - before.usd == pytest.approx((0.01 - 0.007) * flex[0].cores)
    assert after.source == before.source


class Failing:
    """A client whose every request fails."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def get_paginator(self, _: str) -> Failing:
        return self

    def paginate(self, **_: object) -> list[dict[str, Any]]:
        raise self.error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (NoCredentialsError(), "set AWS credentials"),
        (ClientError({"Error": {"Code": "UnauthorizedOperation", "Message": "no"}}, "X"), "AWS refused"),
        (ConnectTimeoutError(endpoint_url="https://ec2"), "did not answer"),
    ],
)
def test_what_goes_wrong_in_the_cloud_is_an_error_of_the_environment(
    tmp_path: Path, error: Exception, said: str
) -> None:
    out = tmp_path / "catalog.csv"
    with pytest.raises(GridwrightError) as caught:
        refresh(out, ["us-east-1"], lambda *_: Failing(error), oracle=no_oracle)
    assert caught.value.status == ExitStatus.ENVIRONMENT
    assert said in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_half_way_leaves_the_old_file(tmp_path: Path) -> None:
    out = tmp_path / "catalog.csv"
    out.write_text("old")

    class Nothing(Failing):
        def paginate(self, **_: object) -> list[dict[str, Any]]:
            return [{"InstanceTypes": []}]

    def clients(service: str, _: str) -> Any:
        return (Failing if service == "pricing" else Nothing)(NoCredentialsError())

    with pytest.raises(GridwrightError):
        refresh(out, ["us-east-1"], clients, oracle=no_oracle)
    assert out.read_text() == "old"


@pytest.mark.thorough
def test_without_oracle_the_rest_is_fetched_and_what_was_fetched_before_stays(tmp_path: Path) -> None:
    out = tmp_path / "catalog.csv"
    first = refresh(out, [], providers=["oci"], oracle=lambda: oracle_list(B97384=0.04))
    assert (first.types, first.oracle) == (0, 2)
    assert not out.exists(), "no type was asked for"

    fsx = {"PriceList": [], "asks": {"ServiceCode": "AmazonFSx"}}
    clients, _ = stubbed([*({"PriceList": []} for _ in range(4)), fsx])
    then = refresh(out, ["us-east-1"], clients, oracle=no_oracle)
    assert any("no route to host" in each for each in then.missing)
    kept = load_catalog(tmp_path).prices.own_oci
    assert kept["BM.Standard.E5"]["core-hour"].usd == 0.04
    with pytest.raises(GridwrightError, match="no route to host"):
        refresh(out, [], providers=["oci"], oracle=no_oracle)


@pytest.mark.parametrize("content", [b"", b"<html>Sign in</html>", b"[1]", b'{"items": 7}', b"\xff"])
def test_what_is_no_price_list_is_said_and_nothing_is_written(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(GridwrightError, match="no price list") as caught:
        refresh(tmp_path / "catalog.csv", [], providers=["oci"], oracle=lambda: content)
    assert caught.value.status is ExitStatus.ENVIRONMENT
    assert list(tmp_path.iterdir()) == []


def test_a_mistake_of_our_own_is_not_blamed_on_the_cloud(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        refresh(tmp_path / "catalog.csv", ["us-east-1"], lambda *_: Failing(ZeroDivisionError()))


def test_a_description_that_is_not_understood_is_said_so(tmp_path: Path) -> None:
    class Odd(Failing):
        def paginate(self, **_: object) -> list[dict[str, Any]]:
            return [{"InstanceTypes": [{"InstanceType": "z9.large"}]}]

    with pytest.raises(GridwrightError, match=r"z9\.large") as caught:
        refresh(
            tmp_path / "catalog.csv", ["us-east-1"], lambda *_: Odd(NoCredentialsError()), oracle=no_oracle
        )
    assert caught.value.status == ExitStatus.ENVIRONMENT


def test_a_region_that_does_not_exist_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(GridwrightError, match="us-east1") as caught:
        refresh(tmp_path / "catalog.csv", ["us-east1"])
    assert caught.value.status == ExitStatus.INPUT
    assert "nearest is us-east-1" in str(caught.value)


def test_a_directory_that_does_not_exist_is_said_before_anything_is_fetched(tmp_path: Path) -> None:
    with pytest.raises(GridwrightError, match="cannot be written"):
        refresh(tmp_path / "missing" / "catalog.csv", ["us-east-1"], lambda *_: pytest.fail("asked"))
