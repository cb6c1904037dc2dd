"""Reads the packaged volume types, managed file systems and their prices."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import cast

from gridwright.catalog.facts import Fact
from gridwright.catalog.instances import Provider
from gridwright.catalog.managed import MB, ManagedDeployment, Tier
from gridwright.catalog.prices import Price
from gridwright.catalog.storage_prices import GIB, Ratio, StoragePrices, no_ratio
from gridwright.catalog.tables import optional, rows, source
from gridwright.catalog.volumes import VolumeType

FACT_COLUMNS = ("provider", "volume", "fact", "value", "unit", "source", "date")
PRICE_COLUMNS = ("provider", "item", "component", "region", "usd", "unit", "source", "date")
MANAGED_COLUMNS = (
    *("provider", "deployment", "tier", "smallest_gib", "next_gib", "increment_gib"),
    *("network_mb_per_s_per_tib", "network_burst_mb_per_s_per_tib"),
    *("disk_mb_per_s_per_tib", "disk_burst_mb_per_s_per_tib", "disk_write_mb_per_s_per_tib"),
    *("durable", "source", "date"),
)
LIMIT_COLUMNS = ("limit", "value", "unit", "source", "date")

_GIB_OF_GB = GIB / 1e9
PricesByRegion = dict[str, dict[str, Price]]


def read_storage_prices(own: Mapping[str, Mapping[str, Mapping[str, Price]]]) -> dict[str, PricesByRegion]:
    """Prices by item, region and component; `own` (item, region, component) go before the packaged ones.

    What goes by capacity is for each GiB, also where it is listed for each GB of 10^9 bytes. Items of a
    provider that asks the same of all its volume types stand under its name.
    """
    found: dict[str, PricesByRegion] = defaultdict(lambda: defaultdict(dict))
    for provider, item, component, region, usd, unit, text, date in rows("storage-prices.csv", PRICE_COLUMNS):
        factor = _GIB_OF_GB if "GB-month" in unit else 1.0
        found[item or provider][region][component] = Price(float(usd) * factor, source(text, date))
    for item, by_region in own.items():
        for region, prices in by_region.items():
            found[item][region].update(prices)
    return found


def read_volumes(prices: Mapping[str, PricesByRegion], ratio: Ratio = no_ratio) -> dict[str, VolumeType]:
    """Return all packaged volume types, by name."""
    facts: dict[tuple[str, str], dict[str, Fact]] = defaultdict(dict)
    for provider, volume, fact, value, unit, text, date in rows("volume-facts.csv", FACT_COLUMNS):
        facts[provider, volume][fact] = Fact(float(value), unit, source(text, date))
    return {
        name: VolumeType(
            name=name,
            provider=cast("Provider", provider),
            minimum_bytes=round(each["size_min"].value * GIB),
            maximum_bytes=round(each["size_max"].value * GIB),
            facts=each,
            prices=StoragePrices(name, _merged(prices.get(provider, {}), prices.get(name, {})), ratio),
        )
        for (provider, name), each in facts.items()
    }


def _merged(general: PricesByRegion, particular: PricesByRegion) -> PricesByRegion:
    regions = {**general, **particular}
    return {region: {**general.get(region, {}), **particular.get(region, {})} for region in regions}


def read_managed(
    prices: Mapping[str, PricesByRegion], ratio: Ratio = no_ratio
) -> dict[str, ManagedDeployment]:
    """Return all packaged deployment types of managed file systems, by name."""
    limits = {
        limit: Fact(float(value), unit, source(text, date))
        for limit, value, unit, text, date in rows("managed-limits.csv", LIMIT_COLUMNS)
    }
    tiers: dict[str, dict[float, Tier]] = defaultdict(dict)
    about: dict[str, list[str]] = {}
    for row in rows("managed.csv", MANAGED_COLUMNS):
        network, network_burst, disk, disk_burst, disk_write = row[6:11]
        tiers[row[1]][float(row[2]) * MB] = Tier(
            disk=float(disk) * MB,
            disk_burst=optional(disk_burst, MB),
            disk_write=optional(disk_write, MB),
            network=float(network) * MB,
            network_burst=optional(network_burst, MB),
            source=source(row[12], row[13]),
        )
        about[row[1]] = row
    return {
        name: ManagedDeployment(
            name=name,
            provider=cast("Provider", about[name][0]),
            tiers=tuple(sorted(each)),
            by_tier=each,
            smallest_bytes=int(about[name][3]) * GIB,
            next_bytes=int(about[name][4]) * GIB,
            increment_bytes=int(about[name][5]) * GIB,
            limits=limits,
            durable=about[name][11] == "1",
            prices=StoragePrices(name, prices.get(name, {}), ratio),
        )
        for name, each in tiers.items()
    }
