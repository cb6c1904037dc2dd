"""Fetching specifications and prices from the cloud: real boto3 against moto's EC2, stubbed prices."""

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
from gridwright.catalog.refresh import Clients, refresh
from gridwright.errors import ExitStatus, GridwrightError


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
        {"PriceList": [product("m5n.large", "0.6")]},
    ]
    clients, stubber = stubbed(pages)
    types, prices = refresh(tmp_path / "catalog.csv", ["us-east-1", "eu-west-1"], clients)
    stubber.assert_no_pending_responses()
    assert types > 500
    assert prices == 3

    catalog = load_catalog(tmp_path)
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
        refresh(out, ["us-east-1"], lambda *_: Failing(error))
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
        refresh(out, ["us-east-1"], clients)
    assert out.read_text() == "old"


def test_a_mistake_of_our_own_is_not_blamed_on_the_cloud(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        refresh(tmp_path / "catalog.csv", ["us-east-1"], lambda *_: Failing(ZeroDivisionError()))


def test_a_description_that_is_not_understood_is_said_so(tmp_path: Path) -> None:
    class Odd(Failing):
        def paginate(self, **_: object) -> list[dict[str, Any]]:
            return [{"InstanceTypes": [{"InstanceType": "z9.large"}]}]

    with pytest.raises(GridwrightError, match=r"z9\.large") as caught:
        refresh(tmp_path / "catalog.csv", ["us-east-1"], lambda *_: Odd(NoCredentialsError()))
    assert caught.value.status == ExitStatus.ENVIRONMENT


def test_a_region_that_does_not_exist_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(GridwrightError, match="us-east1") as caught:
        refresh(tmp_path / "catalog.csv", ["us-east1"])
    assert caught.value.status == ExitStatus.INPUT
    assert "nearest is us-east-1" in str(caught.value)


def test_a_directory_that_does_not_exist_is_said_before_anything_is_fetched(tmp_path: Path) -> None:
    with pytest.raises(GridwrightError, match="cannot be written"):
        refresh(tmp_path / "missing" / "catalog.csv", ["us-east-1"], lambda *_: pytest.fail("asked"))
