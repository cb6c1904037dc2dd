"""How sure the facts are that a plan rests on: the age of prices, estimates, sources that disagree."""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime

from gridwright.catalog.contents import Catalog
from gridwright.catalog.instances import InstanceType, networks_elsewhere
from gridwright.catalog.prices import Price
from gridwright.errors import Finding
from gridwright.units import format_rate

OLD_DAYS = 180
"""Prices older than this are a finding: clouds change some of theirs several times a year."""

_DATED = re.compile(r"(20\d\d)(?:-(\d\d))?(?:-(\d\d))?")


@dataclass(frozen=True, slots=True)
class PriceBasis:
    """What prices of instances and of storage rest on: dates as their sources write them, oldest and newest.

    Empty where no price has a date. `estimated` names what has no listed price in the region. `listed_in` are
    the regions in which the managed offers have a price that a plan chooses of, where it chooses of these.
    """

    instances: tuple[str, str] | tuple[()]
    storage: tuple[str, str] | tuple[()]
    estimated: tuple[str, ...] = ()
    listed_in: tuple[str, ...] = ()


def price_basis(
    catalog: Catalog, provider: str, region: str, instances: Iterable[InstanceType]
) -> PriceBasis:
    """Return what the prices of `instances` and of the provider's storage in `region` rest on."""
    priced = [price for one in instances if (price := catalog.prices.price(one, region))]
    storage = list(_storage(catalog, provider, region))
    kinds = {"instances": priced, "storage": storage}
    return PriceBasis(
        _span(priced),
        _span(storage),
        tuple(kind for kind, of in kinds.items() if any(p.estimate for p in of)),
    )


def offers_basis(catalog: Catalog, provider: str, region: str) -> PriceBasis:
    """Return what the prices of managed offers rest on, where the spec itself has those of nodes."""
    sold = [
        catalog.offer_prices[name] for name, offer in catalog.offers.items() if offer.provider == provider
    ]
    found = [price for prices in sold for each in prices.by_region.values() for price in each.values()]
    listed = tuple(sorted({each for prices in sold for each in prices.regions()}))
    return PriceBasis((), _span(found), () if listed == (region,) else ("storage",), listed)


def _storage(catalog: Catalog, provider: str, region: str) -> Iterator[Price]:
    sold = [volume.prices for volume in catalog.volumes.values() if volume.provider == provider]
    sold += [each.prices for each in catalog.managed.values() if each.provider == provider]
    for prices in sold:
        for component in prices.components():
            if price := prices.known(component, region):
                yield price


def _span(prices: Iterable[Price]) -> tuple[str, str] | tuple[()]:
    dates = sorted({one.source.date for one in prices if _DATED.match(one.source.date)})
    return (dates[0], dates[-1]) if dates else ()


def age_days(dated: str, today: date) -> int | None:
    """Days from the end of `dated` (2024, 2026-07, 2026-07-20) to `today`; None where it names no date."""
    match = _DATED.match(dated)
    if match is None:
        return None
    year, month = int(match[1]), int(match[2] or 12)
    if not 1 <= month <= 12:
        return None
    last = calendar.monthrange(year, month)[1]
    return (today - date(year, month, min(int(match[3] or last), last))).days


def age_findings(basis: PriceBasis, today: date | None = None) -> list[Finding]:
    """Return a finding for prices of over OLD_DAYS."""
    today = today or datetime.now(UTC).date()
    dated = {"instances": basis.instances, "storage": basis.storage}
    old = [
        f"those of {kind} are of {dates[0]}"
        for kind, dates in dated.items()
        if dates and (age_days(dates[0], today) or 0) > OLD_DAYS
    ]
    if not old:
        return []
    remedy = (
        "Compare them with the provider's price list; predict reckons with storage_price: of a file system"
        if basis.listed_in
        else "Fetch newer ones with gridwright catalog refresh, or write yours into catalog.yaml beside the "
        "grid spec"
    )
    what = f"prices are over {OLD_DAYS} days old: {'; '.join(old)}"
    return [Finding("warning", "old-prices", what, remedy)]


def estimate_findings(basis: PriceBasis, region: str) -> list[Finding]:
    """Return a finding for prices that nobody lists in `region`."""
    if not basis.estimated:
        return []
    if basis.listed_in:
        return [
            Finding(
                "info",
                "estimated-prices",
                f"prices of managed offers are listed for {' and '.join(basis.listed_in)}; those of other "
                f"offers in {region or 'your region'} are taken to be the same",
                "Compare them with the provider's price list; predict reckons with storage_price: of a file "
                "system",
            )
        ]
    return [
        Finding(
            "info",
            "estimated-prices",
            f"some prices of {' and of '.join(basis.estimated)} in {region} are estimates: "
            "those of us-east-1, scaled by what instances cost there",
            "Write yours into catalog.yaml beside the grid spec; gridwright catalog refresh fetches "
            "those of instances and volumes",
        )
    ]


def disagreement_findings(instance: InstanceType) -> list[Finding]:
    """Return a finding where two sources say different figures of the network of `instance`."""
    other = networks_elsewhere().get(instance.name)
    if other is None:
        return []
    here = instance.network.baseline_bytes_per_s
    return [
        Finding(
            "warning",
            "sources-disagree",
            f"the network of {instance.name}: {format_rate(here)} says {instance.source}, and "
            f"{format_rate(other.bytes_per_s)} says {other.source}; the first is used",
            "Measure it, or write the rate that you trust into catalog.yaml beside the grid spec",
        )
    ]
