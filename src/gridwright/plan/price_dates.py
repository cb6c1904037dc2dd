"""When the prices were listed that a plan reckons with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gridwright.catalog.contents import Catalog
from gridwright.catalog.prices import Price


def price_dates(catalog: Catalog, instances: Iterable[str], region: str) -> str:
    """The date of the prices of instance types by their names, and of storage beside them, in a region.

    One date such as `2026-10`, or `2026-02 to 2026-10` from the oldest on; empty where none is known.
    """
    names = set(instances)
    dates = {
        price.source.date for price in _prices(catalog, names, region) if price.source.date[:1].isdigit()
    }
    return " to ".join(dict.fromkeys((min(dates), max(dates)))) if dates else ""


def _prices(catalog: Catalog, names: set[str], region: str) -> Iterator[Price]:
    types = [catalog.instances[name] for name in names if name in catalog.instances]
    for instance in types:
        if found := catalog.prices.price(instance, region):
            yield found
    providers = {instance.provider for instance in types}
    for volume in catalog.volumes.values():
        if volume.provider in providers:
            yield from {
                **volume.prices.by_region.get("", {}),
                **volume.prices.by_region.get(region, {}),
            }.values()
