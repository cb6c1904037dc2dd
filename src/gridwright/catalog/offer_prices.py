"""What a managed offer costs by the prices that are listed: by capacity, by throughput, and by use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gridwright.catalog.facts import Source
from gridwright.catalog.offers import ManagedOffer
from gridwright.catalog.prices import Price
from gridwright.catalog.storage_prices import GIB, StoragePrices
from gridwright.units import HOURS_PER_MONTH

MB = 1e6
STORAGE, THROUGHPUT, PERFORMANCE = "storage", "throughput", "performance"
"""Components of prices; OCI asks for performance units beside storage."""
BY_USE = ("read", "write")


@dataclass(frozen=True, slots=True)
class OfferPrice:
    """List prices of an offer in a region.

    `usd_per_gib_month` goes by capacity, `usd_per_mb_month` by each MB/s (10^6 bytes) that is bought.
    `usd_per_gib_moved` is asked beside that for each GiB by operation, and depends on what jobs do. `notes`
    say what is estimated and how.
    """

    usd_per_gib_month: float
    usd_per_mb_month: float
    usd_per_gib_moved: dict[str, float]
    sources: tuple[Source, ...]
    notes: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether an hour has a price whatever the jobs do."""
        return not self.usd_per_gib_moved

    def usd_per_hour(self, capacity_bytes: float, bought_bytes_per_s: float) -> float:
        """USD for one hour of so much capacity and throughput; a month has 730 hours."""
        month = self.usd_per_gib_month * capacity_bytes / GIB
        month += self.usd_per_mb_month * bought_bytes_per_s / MB
        return month / HOURS_PER_MONTH

    def moved_usd_per_hour(self, bytes_per_s: float, operation: str) -> float:
        """USD for one hour in which so many bytes are read or written each second."""
        return self.usd_per_gib_moved.get(operation, 0.0) * bytes_per_s * 3600 / GIB


def offer_price(offer: ManagedOffer, prices: StoragePrices, region: str) -> OfferPrice | None:
    """Return what is listed of an offer; None where its capacity has no price.

    In a region without a price of its own the one region that is listed counts, and a note says so.
    """
    found = {name: price for name in priced_components(offer) if (price := _nearest(prices, name, region))}
    if STORAGE not in found:
        return None
    usd = found[STORAGE].usd
    if PERFORMANCE in found:
        usd += found[PERFORMANCE].usd * float(offer.tier)
    return OfferPrice(
        usd,
        found[THROUGHPUT].usd if THROUGHPUT in found else 0.0,
        {name: found[name].usd for name in BY_USE if name in found},
        tuple(dict.fromkeys(price.source for price in found.values())),
        tuple(_notes(prices, region, list(found.values()), has_units=PERFORMANCE in found)),
    )


def priced_components(offer: ManagedOffer) -> tuple[str, ...]:
    """What an offer may have prices of: capacity, throughput, and each GiB read or written."""
    units = (PERFORMANCE,) if offer.provider == "oci" and offer.tier else ()
    return (STORAGE, *units, THROUGHPUT, *BY_USE)


def _nearest(prices: StoragePrices, component: str, region: str) -> Price | None:
    """The price in the region, else the only one that is listed anywhere."""
    if found := prices.known(component, region):
        return found
    elsewhere = [each[component] for each in prices.by_region.values() if component in each]
    return Price(elsewhere[0].usd, elsewhere[0].source, estimate=True) if len(elsewhere) == 1 else None


def _notes(prices: StoragePrices, region: str, found: Sequence[Price], *, has_units: bool) -> Iterator[str]:
    if any(price.estimate for price in found):
        listed = " and ".join(prices.regions())
        yield f"an estimate for {region or 'any region'}, from what is listed for {listed}"
    if has_units:
        # B111091 + tier x B111092 lies 5 to 10 % above what AWS and Google list for each of the same tiers.
        yield "one performance unit is taken for each MB/s per TB, which Oracle's list does not say"
