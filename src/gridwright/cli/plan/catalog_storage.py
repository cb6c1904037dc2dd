"""Volumes, managed file systems and managed offers as `catalog list --json` prints them, with prices."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

from gridwright.catalog import Catalog
from gridwright.catalog.prices import HOME, StoragePrices


def storage_entries(
    catalog: Catalog, provider: str | None, region: str | None
) -> dict[str, list[dict[str, object]]]:
    """Return `volumes`, `managed` and `offers`, each entry with name, provider, source, date and prices.

    Prices are those in `region` (USD a month, per GiB or as the component says), by default in us-east-1, and
    of other clouds in the first region with prices; a component without a price there is not among them.
    """

    def entry(name: str, of: str, prices: StoragePrices, sources: Iterable[object]) -> dict[str, object]:
        regions = prices.regions()
        place = region or (HOME if HOME in regions else next(iter(regions), HOME))
        return {
            "name": name,
            "provider": of,
            "sources": sorted({str(source) for source in sources}),
            "price_region": place,
            "prices": price_entries(prices, place),
        }

    found = {
        "volumes": [
            entry(name, each.provider, each.prices, (fact.source for fact in each.facts.values()))
            for name, each in sorted(catalog.volumes.items())
        ],
        "managed": [
            entry(name, each.provider, each.prices, (tier.source for tier in each.by_tier.values()))
            for name, each in sorted(catalog.managed.items())
        ],
        "offers": [
            entry(
                name,
                each.provider,
                catalog.offer_prices[name],
                (fact.source for fact in each.facts.values()),
            )
            | {"protocol": each.protocol, "facts": {fact: asdict(of) for fact, of in each.facts.items()}}
            for name, each in sorted(catalog.offers.items())
        ],
    }
    return {
        kind: [each for each in entries if provider in (None, each["provider"])]
        for kind, entries in found.items()
    }


def price_entries(prices: StoragePrices, region: str) -> list[dict[str, object]]:
    """Return every component with a price in `region`, listed or estimated."""
    return [
        {
            "component": component,
            "usd": price.usd,
            "source": price.source.text,
            "date": price.source.date,
            "estimate": price.estimate,
        }
        for component in prices.components()
        if (price := prices.known(component, region))
    ]
