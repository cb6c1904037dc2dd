"""Puts the catalogue together: the packaged facts, and the user's own on top."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import MappingProxyType

from gridwright.catalog.contents import Catalog
from gridwright.catalog.instance_files import Instances, read_beside, read_instance_rows
from gridwright.catalog.instances import InstanceType
from gridwright.catalog.managed import MB
from gridwright.catalog.offer_prices import priced_components
from gridwright.catalog.offers import managed_offers
from gridwright.catalog.prices import InstancePrices
from gridwright.catalog.services import read_service_prices
from gridwright.catalog.storage_files import PricesByRegion, read_managed, read_storage_prices, read_volumes
from gridwright.catalog.storage_prices import StoragePrices

_REFRESHED, _REFRESHED_PRICES, _OWN = "catalog.csv", "catalog-prices.csv", "catalog.yaml"
"""Files of the user's own, in the directory of the grid spec."""


def load_catalog(beside: Path | None = None) -> Catalog:
    """Return the catalogue.

    `beside` is the directory of the grid spec. A `catalog.yaml` there adds private types and puts
    the user's own prices before all others; a `catalog.csv`, written by `gridwright catalog
    refresh`, puts newer facts before the packaged ones. Raises GridwrightError with all that is
    wrong with these files.
    """
    if beside is None or not any((beside / name).is_file() for name in (_REFRESHED, _REFRESHED_PRICES, _OWN)):
        return _packaged()
    return _loaded(beside)


@cache
def _packaged() -> Catalog:
    """The packaged facts alone: most commands ask for them several times."""
    return _loaded(None)


def _loaded(beside: Path | None) -> Catalog:
    rows, facts = read_instance_rows(), read_beside()
    types: dict[str, InstanceType] = {}
    prices: PricesByRegion = {}
    storage: dict[str, PricesByRegion] = {}
    services: PricesByRegion = {}
    if beside is not None and (path := beside / _REFRESHED).is_file():
        from gridwright.catalog.refreshed import read_refreshed

        refreshed = read_refreshed(path, facts)
        types, prices = refreshed.instances, refreshed.prices
    newer_rates: PricesByRegion = {}
    if beside is not None and (path := beside / _REFRESHED_PRICES).is_file():
        storage, newer_rates = _refreshed_prices(path)
    if beside is not None and (path := beside / _OWN).is_file():
        from gridwright.catalog.own import read_own
        from gridwright.catalog.own_file import KnownNames

        known = KnownNames(Instances(rows, facts, types), _components(), tuple(read_service_prices({}).units))
        own = read_own(path, known)
        types, prices = types | own.instances, _joined(prices, own.instance_prices)
        storage = {
            item: _joined(storage.get(item, {}), own.storage_prices.get(item, {}))
            for item in {**storage, **own.storage_prices}
        }
        services = own.service_prices
    of_storage, of_instances = read_storage_prices(storage), InstancePrices(prices, newer_rates)
    ratio = of_instances.regional_ratio
    return Catalog(
        instances=Instances(rows, facts, types),
        volumes=MappingProxyType(read_volumes(of_storage, ratio)),
        managed=MappingProxyType(read_managed(of_storage, ratio)),
        prices=of_instances,
        services=read_service_prices(services, ratio),
        offers=MappingProxyType(managed_offers()),
        offer_prices={
            item: StoragePrices(item, of_storage.get(item, {}), ratio) for item in managed_offers()
        },
    )


def _refreshed_prices(path: Path) -> tuple[dict[str, PricesByRegion], PricesByRegion]:
    """Prices of storage by item and region, and Oracle's rates by prefix, out of `catalog-prices.csv`."""
    from gridwright.catalog.refreshed import read_price_rows

    storage: dict[str, PricesByRegion] = {}
    rates: PricesByRegion = {}
    for row in read_price_rows(path):
        if row.component.endswith("-hour"):
            rates.setdefault(row.item, {})[row.component] = row.price
        else:
            storage.setdefault(row.item, {}).setdefault(row.region, {})[row.component] = row.price
    return storage, rates


def _joined(below: PricesByRegion, above: PricesByRegion) -> PricesByRegion:
    return {region: {**below.get(region, {}), **above.get(region, {})} for region in {**below, **above}}


def _components() -> dict[str, tuple[str, ...]]:
    """What each volume type and managed file system has prices of."""
    found: dict[str, tuple[str, ...]] = {}
    for volume in read_volumes({}).values():
        found[volume.name] = ("capacity",)
        found[volume.name] += ("iops",) if volume.provisions_iops else ()
        found[volume.name] += ("iops over 32000", "iops over 64000") if volume.name == "io2" else ()
        found[volume.name] += ("throughput",) if volume.provisions_throughput else ()
        found[volume.name] += ("vpu",) if volume.provider == "oci" else ()
    for deployment in read_managed({}).values():
        found[deployment.name] = tuple(f"{tier / MB:g}" for tier in deployment.tiers)
    for offer in managed_offers().values():
        found[offer.name] = priced_components(offer)
    return found
