"""Fetches specifications and prices from clouds themselves: EC2 with credentials, Oracle's list without."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gridwright.catalog import oracle_list
from gridwright.catalog.aws_clients import Clients, boto3_clients, cloud_errors
from gridwright.catalog.ec2 import ec2_row, plain
from gridwright.catalog.price_products import (
    PriceProduct,
    StorageListPrice,
    hourly_prices,
    lustre_prices,
    read_product,
    volume_prices,
)
from gridwright.catalog.refreshed import (
    PRICES_FILE,
    PriceRow,
    read_price_rows,
    refuse_unreadable,
    refuse_unwritable,
    write_prices,
    write_refreshed,
)
from gridwright.errors import GridwrightError, environment_error

PRICING_REGION = "us-east-1"
"""The Pricing API answers for all regions from a few of them."""
PROVIDERS = ("aws", "oci")
NOT_FETCHED = (
    "scratch-2 and tier 200 of FSx for Lustre, and other managed offers: their prices are the packaged ones, "
    "or yours in catalog.yaml",
)
"""What has prices in the catalogue, and no products in a list that Gridwright knows how to read."""
_LINUX = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
}
_VOLUME_FAMILIES = ("Storage", "System Operation", "Provisioned Throughput")
_EXAMPLES = 3


@dataclass
class Fetched:
    """What was fetched, and what could not be read or had."""

    types: int = 0
    prices: int = 0
    storage: int = 0
    """Prices of volumes of AWS, and of FSx for Lustre."""
    oracle: int = 0
    """Prices of Oracle's cores, memory, disks and storage."""
    unread: dict[str, list[str]] = field(default_factory=dict)
    """By source, what of it was not understood, each with the reason; the packaged facts of these stay."""
    missing: list[str] = field(default_factory=list)
    """What was not fetched at all, and why."""

    def note(self, source: str, what: str) -> None:
        """Remember that something of a source was not understood."""
        self.unread.setdefault(source, []).append(what)

    def document(self) -> dict[str, Any]:
        """In plain values."""
        return {
            "types": self.types,
            "prices": self.prices,
            "storage_prices": self.storage,
            "oci_prices": self.oracle,
            "not_read": {source: len(each) for source, each in self.unread.items()},
            "not_fetched": self.missing,
        }

    def lines(self) -> Iterator[str]:
        """What was not understood or had, for people."""
        for source, each in self.unread.items():
            shown = "; ".join(each[:_EXAMPLES]) + ("; ..." if len(each) > _EXAMPLES else "")
            yield f"not understood, packaged facts stay: {len(each)} of {source}: {shown}"
        yield from (f"not fetched: {each}" for each in self.missing)


def refresh(
    out: Path,
    regions: Sequence[str],
    clients: Clients | None = None,
    *,
    providers: Collection[str] = PROVIDERS,
    oracle: Callable[[], bytes] = oracle_list.fetch,
) -> Fetched:
    """Write what EC2 lists and asks for in `regions` to `out`, and prices of storage and OCI beside it.

    The files are what load_catalog reads as `catalog.csv` and `catalog-prices.csv` beside a grid spec; each
    is written whole or not at all, and only after it was read back. What is not understood is counted, and
    its packaged facts stay. `clients` and `oracle` stand in for the clouds in tests. Raises
    GridwrightError: for a region that does not exist or a directory that cannot be written to (input), and
    when boto3, credentials, rights or the network are missing (environment).
    """
    refuse_unwritable(out)
    done = Fetched(missing=list(NOT_FETCHED))
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    rows: dict[str, dict[str, object]] = {}
    listed: list[PriceRow] = []
    if "aws" in providers:
        with cloud_errors():
            clients = clients or boto3_clients(regions)
            rows = _instances(clients, regions, today, done)
            pricing = clients("pricing", PRICING_REGION)
            listed += _storage(pricing, regions, today, done)
    if "oci" in providers:
        try:
            listed += _oracle(oracle(), today, done)
        except GridwrightError as error:
            if "aws" not in providers:
                raise
            done.missing.append(f"{error.problems[0].what}; packaged prices of OCI stay")
    if rows:
        write_refreshed(out, (rows[name] for name in sorted(rows)), regions)
    beside = out.with_name(PRICES_FILE)
    write_prices(beside, [*_kept(beside, {each.provider for each in listed}), *listed])
    return done


def _instances(
    clients: Clients, regions: Sequence[str], today: str, done: Fetched
) -> dict[str, dict[str, object]]:
    """Rows by type, with prices by region. Raises GridwrightError where EC2 lists nothing that is known."""
    rows: dict[str, dict[str, object]] = {}
    for region in regions:
        source = f"DescribeInstanceTypes in {region}"
        for page in clients("ec2", region).get_paginator("describe_instance_types").paginate():
            for facts in _list(page, "InstanceTypes"):
                name = facts.get("InstanceType") if isinstance(facts, Mapping) else None
                if not isinstance(name, str) or name in rows:
                    continue
                try:
                    row = ec2_row(facts, source, today)
                    if row is not None:
                        refuse_unreadable(row)
                except (KeyError, ValueError, IndexError, TypeError, AttributeError) as error:
                    done.note("EC2's types", f"{name} ({type(error).__name__} {error})")
                    continue
                if row is not None:
                    rows[name] = {key: plain(value) for key, value in row.items()}
    if not rows:
        first = next(iter(done.unread.get("EC2's types", ["it lists none"])))
        raise environment_error(
            f"EC2 describes no instance type in a way that is known here: {first}",
            remedy="please report it; the packaged catalogue goes on working",
        )
    pricing = clients("pricing", PRICING_REGION)
    for region in regions:
        for product in _products(pricing, region, _LINUX, "prices of instances", done):
            for name, usd in hourly_prices(product):
                if name in rows:
                    done.prices += region not in rows[name]
                    rows[name][region] = plain(usd)
    done.types = len(rows)
    return rows


def _storage(pricing: Any, regions: Sequence[str], today: str, done: Fetched) -> Iterator[PriceRow]:  # noqa: ANN401
    """Prices of volumes and of FSx for Lustre; says where a region has none of the latter."""
    for region in regions:
        for family in _VOLUME_FAMILIES:
            asked = {"productFamily": family}
            products = _products(pricing, region, asked, "prices of volumes", done)
            yield from _listed(products, volume_prices, region, today, "prices of volumes", done)
        asked = {"fileSystemType": "Lustre"}
        products = _products(pricing, region, asked, "prices of FSx", done, service="AmazonFSx")
        found = [*_unambiguous(_listed(products, lustre_prices, region, today, "prices of FSx", done), done)]
        if not found:
            done.missing.append(f"FSx for Lustre in {region}: the list has no price of it that is known here")
        yield from found


def _unambiguous(rows: Iterable[PriceRow], done: Fetched) -> Iterator[PriceRow]:
    """Rows of components with one price; several are noted, since nobody knows which one is meant."""
    by_component: dict[tuple[str, str], list[PriceRow]] = {}
    for row in rows:
        by_component.setdefault((row.item, row.component), []).append(row)
    for (item, component), of in by_component.items():
        if len({row.usd for row in of}) == 1:
            yield of[0]
        else:
            done.storage -= len(of)
            said = " and ".join(f"{row.usd:g}" for row in of)
            done.note("prices of FSx", f"{item} {component} in {of[0].region} has several prices: {said}")


def _listed(
    products: Iterable[PriceProduct],
    read: Callable[[PriceProduct], Iterator[StorageListPrice]],
    region: str,
    today: str,
    source: str,
    done: Fetched,
) -> Iterator[PriceRow]:
    """Rows of what `read` finds in products; what it refuses is noted under `source`."""
    for product in products:
        try:
            found = list(read(product))
        except ValueError as error:
            done.note(source, str(error))
            continue
        for each in found:
            done.storage += 1
            date = each.date or today
            yield PriceRow("aws", each.item, each.component, region, each.usd, "Pricing API", date)


def _products(
    pricing: Any,  # noqa: ANN401 - boto3 has no types
    region: str,
    filters: Mapping[str, str],
    source: str,
    done: Fetched,
    service: str = "AmazonEC2",
) -> Iterator[PriceProduct]:
    """Products of a service in one region that have these attributes."""
    asked = {"regionCode": region, **filters}
    pages = pricing.get_paginator("get_products").paginate(
        ServiceCode=service,
        Filters=[{"Type": "TERM_MATCH", "Field": key, "Value": value} for key, value in asked.items()],
    )
    for page in pages:
        for text in _list(page, "PriceList"):
            try:
                yield read_product(text)
            except ValueError as error:
                done.note(source, str(error))


def _list(page: object, key: str) -> Iterable[Any]:
    """What a page has; nothing where it has something else."""
    found = page.get(key) if isinstance(page, Mapping) else None
    return found if isinstance(found, list) else ()


def _oracle(content: bytes, today: str, done: Fetched) -> Iterator[PriceRow]:
    prices, unread = oracle_list.oracle_prices(content)
    for part, why in unread.items():
        done.note("Oracle's parts", f"{part}: {why}")
    for (item, component), usd in prices.items():
        done.oracle += 1
        yield PriceRow("oci", item, component, "", usd, "Oracle's price list", today)


def _kept(path: Path, fetched: Collection[str]) -> list[PriceRow]:
    """What the file has of a cloud that was not fetched now."""
    return [each for each in read_price_rows(path) if each.provider not in fetched] if path.is_file() else []
