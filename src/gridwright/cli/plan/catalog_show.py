"""What `gridwright catalog list` and `show` print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import cast

from rich.console import Console

from gridwright.catalog import Catalog, InstanceType, load_catalog
from gridwright.catalog.contents import unknown
from gridwright.catalog.describe import (
    FactLine,
    describe_instance,
    describe_managed,
    describe_offer,
    describe_service,
    describe_volume,
    price_line,
)
from gridwright.catalog.instances import PROVIDERS, Provider
from gridwright.catalog.prices import Price
from gridwright.cli.output import LazyResult, Output
from gridwright.cli.plan.catalog_storage import storage_entries
from gridwright.errors import input_error
from gridwright.report.figures import ABSENT, megabytes, plain
from gridwright.report.table import columns_of, rows_table
from gridwright.report.terminal.frame import framed, printed

DEFAULT_REGION = {"aws": "us-east-1", "oci": "us-ashburn-1"}
"""Where prices are shown when no region is named."""


def show_list(
    family: str | None, provider: str | None, region: str | None, beside: Path, *, json: bool
) -> None:
    """List instance types that fit the filters, and the names of what else there is."""
    catalog = load_catalog(beside)
    found = _chosen(catalog, family, provider, region)
    prices = {each.name: catalog.prices.price(each, _place(each, region)) for each in found}
    if region:
        found = [each for each in found if prices[each.name] is not None]

    def document() -> dict[str, object]:
        return {
            "region": region,
            "instances": [_entry(each, prices[each.name], region) for each in found],
            **storage_entries(catalog, provider, region),
            "services": sorted(catalog.services.units),
        }

    def text() -> str:
        of_storage = storage_entries(catalog, provider, region)
        titles = {"volumes": "volumes", "managed": "managed file systems", "offers": "managed offers"}
        others = {title: [str(one["name"]) for one in of_storage[kind]] for kind, title in titles.items()}
        others["other prices"] = list(catalog.services.units)
        lines = [f"{what}: {', '.join(names)}\n" for what, names in others.items() if names and not family]
        return "".join([_list_text(found, prices, region), *lines])

    Output("catalog list", json=json).show(LazyResult(document=document, text=text))


def _chosen(
    catalog: Catalog, family: str | None, provider: str | None, region: str | None
) -> list[InstanceType]:
    selling = tuple(dict.fromkeys((*PROVIDERS, *(offer.provider for offer in catalog.offers.values()))))
    if provider is not None and provider not in selling:
        raise unknown("provider", provider, selling, show_all=True)
    if region is not None:
        known = [each for each in PROVIDERS if region in (*catalog.regions(each), *catalog.prices.own)]
        if not known:
            raise unknown("region with prices", region, catalog.regions("aws") + catalog.regions("oci"))
        if provider is not None and provider not in known:
            theirs = ", ".join(catalog.regions(cast("Provider", provider)))
            raise input_error(
                f"{region} is no region of {provider}",
                where="--region",
                remedy=f"leave --provider out, or choose one of {theirs}",
            )
    of_provider = [
        instance for instance in catalog.instances.values() if provider in (None, instance.provider)
    ]
    if family is None:
        return of_provider
    found = [each for each in of_provider if each.family == family]
    if not found:
        raise unknown("family", family, sorted({each.family for each in of_provider}))
    return sorted(found, key=lambda each: (each.cores, each.name))


def _place(instance: InstanceType, region: str | None) -> str:
    return region or DEFAULT_REGION[instance.provider]


def _entry(instance: InstanceType, price: Price | None, region: str | None) -> dict[str, object]:
    described = asdict(instance)
    described["usd_per_hour"] = price.usd if price else None
    described["price_region"] = _place(instance, region)
    described["price_source"] = asdict(price.source) if price else None
    described["price_is_estimate"] = price.estimate if price else None
    return described


@printed
def _list_text(
    console: Console, found: Sequence[InstanceType], prices: dict[str, Price | None], region: str | None
) -> None:
    where = region or "us-east-1 (AWS) and all of OCI"
    where += " (~ is an estimate)" if any(price and price.estimate for price in prices.values()) else ""
    figures = ("cores", "GB", "network MB/s", "MB/s/core", "volumes MB/s", "disks TB", "USD/h")
    rows = []
    for each in found:
        store, usd = each.instance_store, prices[each.name]
        mark = "~" if usd and usd.estimate else ""
        row = (
            each.name,
            str(each.cores),
            plain(each.memory_bytes / 1e9),
            megabytes(each.network.baseline_bytes_per_s),
            megabytes(each.network_bytes_per_s_per_core),
            megabytes(each.ebs.baseline_bytes_per_s) if each.ebs else ABSENT,
            plain(store.total_bytes / 1e12) if store else ABSENT,
            f"{mark}{usd.usd:.4g}" if usd else ABSENT,
        )
        rows.append(row)
    title = f"{len(found)} instance types; prices of {where}, on demand, Linux"
    console.print(framed(rows_table(title, columns_of(["type"], figures), rows)))


def show_one(name: str, beside: Path, *, json: bool) -> None:
    """Show every fact of one thing."""
    catalog = load_catalog(beside)
    kind, lines = _described(catalog, name)
    document = {"kind": kind, "name": name, "facts": [asdict(line) for line in lines]}
    Output("catalog show", json=json).show(
        LazyResult(document=lambda: document, text=lambda: _facts_text(name, kind, lines))
    )


@printed
def _facts_text(console: Console, name: str, kind: str, lines: Sequence[FactLine]) -> None:
    columns = columns_of(["fact"], ["value"], "source", "date")
    rows = ((line.fact, _value(line), line.source, line.date) for line in lines)
    console.print(framed(rows_table(f"{name}: {kind}", columns, rows)))


def _described(catalog: Catalog, name: str) -> tuple[str, list[FactLine]]:
    if name in catalog.volumes:
        return "volume type", describe_volume(catalog.volumes[name])
    if name in catalog.managed:
        return "managed file system", describe_managed(catalog.managed[name])
    if name in catalog.offers:
        offer = catalog.offers[name]
        return f"managed offer of {offer.provider}", describe_offer(offer, catalog.offer_prices[offer.name])
    if name in catalog.services.units:
        return "price", describe_service(catalog.services, name)
    if name not in catalog.instances:
        names = [*catalog.volumes, *catalog.managed, *catalog.offers, *catalog.services.units]
        names += catalog.instances
        raise unknown("instance type, volume type or managed file system", name, names)
    instance = catalog.instances[name]
    lines = describe_instance(instance)
    for region in sorted({*catalog.regions(instance.provider), *catalog.prices.own}):
        if price := catalog.prices.price(instance, region):
            lines.append(price_line(f"price in {region}", price, "USD/h"))
    return "instance type", lines


def _value(line: FactLine) -> str:
    """The value with its unit, as a spec would have it: sizes sold in GiB in GiB, others decimal."""
    value = line.value
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if line.unit == "bytes" and value % 2**30 == 0:
        return f"{value / 2**30:,.0f} GiB"
    if line.unit == "bytes":
        return f"{plain(value / 1e9)} GB"
    if line.unit.startswith("bytes/s"):
        return f"{megabytes(value)} MB/s{line.unit.removeprefix('bytes/s')}"
    return f"{value:g} {line.unit}".strip() if abs(value) < 1e6 else f"{value:,.0f} {line.unit}".strip()
