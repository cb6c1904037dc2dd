"""Fetches specifications and prices from EC2 itself, for users with credentials."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gridwright.catalog.ec2 import ec2_row, plain
from gridwright.catalog.refreshed import refuse_unwritable, write_refreshed
from gridwright.errors import environment_error, input_error, nearest

CONNECT_TIMEOUT_S = 5
READ_TIMEOUT_S = 30
ATTEMPTS = 5
"""Tries of one request, with growing pauses, before the command gives up."""

PRICING_REGION = "us-east-1"
"""The Pricing API answers for all regions from a few of them."""

Clients = Callable[[str, str], Any]
"""Makes a client of a service (first) in a region (second)."""

_SHARED_LINUX = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
}
_ADVICE = (
    "set AWS credentials as for the AWS command line (AWS_PROFILE, or aws configure) with the rights "
    "ec2:DescribeInstanceTypes and pricing:GetProducts; the packaged catalogue works without any"
)


def refresh(out: Path, regions: Sequence[str], clients: Clients | None = None) -> tuple[int, int]:
    """Write `out` with what EC2 lists and asks for in `regions`; return counts of types and prices.

    The file is what load_catalog reads as `catalog.csv` beside a grid spec, and is written whole or
    not at all. `clients` stands in for boto3 in tests. Raises GridwrightError: for a region that
    does not exist or a directory that cannot be written to (input), and when boto3, credentials, rights
    or the network are missing (environment).
    """
    refuse_unwritable(out)
    with _cloud_errors():
        clients = clients or _boto3_clients(regions)
        today = f"{datetime.now(UTC):%Y-%m-%d}"
        rows: dict[str, dict[str, object]] = {}
        for region in regions:
            for facts in _types(clients("ec2", region)):
                name = facts["InstanceType"]
                if name not in rows and (row := _row(facts, f"DescribeInstanceTypes in {region}", today)):
                    rows[name] = row
        priced = 0
        pricing = clients("pricing", PRICING_REGION)
        for region in regions:
            for name, usd in _prices(pricing, region):
                if name in rows:
                    priced += region not in rows[name]
                    rows[name][region] = plain(usd)
    write_refreshed(out, (rows[name] for name in sorted(rows)), regions)
    return len(rows), priced


def _row(facts: Mapping[str, Any], source: str, date: str) -> dict[str, object] | None:
    try:
        row = ec2_row(facts, source, date)
    except (KeyError, ValueError, IndexError) as error:
        raise environment_error(
            f"EC2 describes {facts.get('InstanceType')} in a way that is not known here ({error})",
            remedy="please report it; the packaged catalogue goes on working",
        ) from error
    return None if row is None else {key: plain(value) for key, value in row.items()}


def _boto3_clients(regions: Sequence[str]) -> Clients:
    """Clients with bounded time and tries; checks the regions first, without the network."""
    try:
        import boto3
        from botocore.config import Config
    except ImportError:
        raise environment_error(
            "boto3 is not installed, and the cloud is asked through it",
            remedy="pip install 'gridwright[aws]'; the packaged catalogue works without it",
        ) from None
    session = boto3.session.Session()
    names = [
        name
        for partition in ("aws", "aws-us-gov", "aws-cn")
        for name in session.get_available_regions("ec2", partition_name=partition)
    ]
    for region in regions:
        if region not in names:
            close = nearest(region, names)
            hint = f"the nearest is {close}" if close else f"regions are {', '.join(names)}"
            raise input_error(f"AWS has no region {region[:64]!r}", where="--region", remedy=hint)
    config = Config(
        connect_timeout=CONNECT_TIMEOUT_S,
        read_timeout=READ_TIMEOUT_S,
        retries={"total_max_attempts": ATTEMPTS, "mode": "standard"},
    )
    return lambda service, region: session.client(service, region_name=region, config=config)


@contextmanager
def _cloud_errors() -> Iterator[None]:
    """Turn what goes wrong between here and the cloud into one sentence and what to do."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith(("botocore", "boto3", "s3transfer", "urllib3")):
            raise
        kind = type(error).__name__
        code = getattr(error, "response", {}).get("Error", {}).get("Code", "")
        if "Credential" in kind or "Token" in kind or kind in ("ProfileNotFound", "LoginRefreshRequired"):
            raise environment_error(f"AWS was not asked: {error}", remedy=_ADVICE) from error
        if code:
            raise environment_error(f"AWS refused: {error}", remedy=_ADVICE) from error
        raise environment_error(
            f"AWS did not answer: {error}",
            remedy="look at the network and the proxy settings, and try again; nothing was written",
        ) from error


def _types(ec2: Any) -> Iterator[Mapping[str, Any]]:  # noqa: ANN401 - boto3 has no types
    for page in ec2.get_paginator("describe_instance_types").paginate():
        yield from page["InstanceTypes"]


def _prices(pricing: Any, region: str) -> Iterator[tuple[str, float]]:  # noqa: ANN401
    """On-demand prices for Linux on shared machines in one region, in USD per hour, by type."""
    filters = {"regionCode": region, **_SHARED_LINUX}
    pages = pricing.get_paginator("get_products").paginate(
        ServiceCode="AmazonEC2",
        Filters=[{"Type": "TERM_MATCH", "Field": key, "Value": value} for key, value in filters.items()],
    )
    for page in pages:
        for text in page["PriceList"]:
            product = json.loads(text)
            name = product["product"]["attributes"].get("instanceType")
            for term in product.get("terms", {}).get("OnDemand", {}).values():
                for dimension in term["priceDimensions"].values():
                    usd = float(dimension["pricePerUnit"].get("USD", 0))
                    if name and usd > 0 and dimension["unit"] == "Hrs":
                        yield name, usd
