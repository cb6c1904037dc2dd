"""Managed file systems: FSx for Lustre by deployment and tier, and named offers of any cloud.

The planner builds the former by itself. The latter, with published limits and prices, are for predictions of
a file system that somebody else runs, also in clouds in which Gridwright builds nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from gridwright.catalog.facts import RATE_UNITS, Fact, Source, per, rows, source
from gridwright.catalog.instances import Provider
from gridwright.catalog.prices import GIB, Price, StoragePrices
from gridwright.errors import GridwrightError, Problem
from gridwright.units import HOURS_PER_MONTH, Bytes

TIB = 2**40
MB = 1e6


@dataclass(frozen=True, slots=True)
class Tier:
    """One throughput tier, in bytes per second for each TiB of capacity, as the provider lists it.

    `disk` is what the disks pass steadily and `disk_burst` for a while; `network` and
    `network_burst` are what the file servers' network passes, which limits reads out of their
    memory. A burst is None where none is listed. `disk_write` is what lasts for writes where the
    provider lists less than for reads.
    """

    disk: float
    disk_burst: float | None
    disk_write: float | None
    network: float
    network_burst: float | None
    source: Source


@dataclass(frozen=True, slots=True)
class ManagedDeployment:
    """One deployment type of a managed file system.

    `tiers` are the steady bytes per second per TiB on offer, ascending. Capacities are
    `smallest_bytes`, `next_bytes`, then steps of `increment_bytes`. `durable`: data survives the
    loss of a server. `limits` are what one account may have in a region until it asks for more.
    """

    name: str
    provider: Provider
    tiers: tuple[float, ...]
    by_tier: Mapping[float, Tier]
    smallest_bytes: int
    next_bytes: int
    increment_bytes: int
    limits: Mapping[str, Fact]
    durable: bool
    prices: StoragePrices

    def tier(self, bytes_per_s_per_tib: float) -> Tier:
        """Return the listed rates of one tier; raises GridwrightError with the nearest tier."""
        if tier := self.by_tier.get(bytes_per_s_per_tib):
            return tier
        close = min(self.tiers, key=lambda each: abs(each - bytes_per_s_per_tib))
        offered = ", ".join(f"{each / MB:g}" for each in self.tiers)
        raise GridwrightError(
            Problem(
                f"{self.name} is not offered at {bytes_per_s_per_tib / MB:g} MB/s per TiB",
                field="throughput",
                remedy=f"it has {offered} MB/s per TiB; the nearest is {close / MB:g}",
            )
        )

    def burst_bytes_per_s_per_tib(self, tier: float) -> float | None:
        """What a full credit balance allows for each TiB in bytes per second; None where nothing bursts.

        Disks and network both limit a burst that reaches the disks, so the lower one counts; where
        no disk burst is listed (scratch-2), the network's does.
        """
        rates = self.tier(tier)
        found = [rate for rate in (rates.disk_burst, rates.network_burst) if rate is not None]
        return min(found) if found else None

    def steady_bytes_per_s(self, capacity_bytes: int, tier: float) -> float:
        """Steady throughput of a file system: the tier's rate times its capacity in TiB (2^40 bytes)."""
        return self.tier(tier).disk * self._stored(capacity_bytes) / TIB

    def valid_capacity(self, size_bytes: int) -> bool:
        """Whether a file system of this size can be had.

        The steps are 1200 and 2400 GiB, which the provider calls 1.2 and 2.4 TiB. Both spellings
        are taken: `100800 GiB`, and `100.8 TiB` rounded to whole bytes.
        """
        return self._steps(size_bytes) is not None

    def _steps(self, size: int) -> int | None:
        """The capacity in GiB as the provider counts it; None when `size` is between steps."""
        for gib in (size / GIB, size / (1.024 * GIB)):
            whole = round(gib)
            exact = whole * GIB if gib == size / GIB else whole * 1.024 * GIB
            if abs(size - exact) <= 1 and self._is_step(whole * GIB):
                return whole
        return None

    def _is_step(self, size: int) -> bool:
        beyond = size - self.next_bytes
        return size == self.smallest_bytes or (beyond >= 0 and beyond % self.increment_bytes == 0)

    def _stored(self, size: int) -> int:
        steps = self._steps(size)
        return size if steps is None else steps * GIB

    def nearest_capacities(self, size_bytes: int) -> tuple[int | None, int]:
        """The nearest valid sizes in bytes: at most `size_bytes` (None when too small), and at least it."""
        if self.valid_capacity(size_bytes):
            return self._stored(size_bytes), self._stored(size_bytes)
        if size_bytes < self.smallest_bytes:
            return None, self.smallest_bytes
        if size_bytes < self.next_bytes:
            return self.smallest_bytes, self.next_bytes
        below = size_bytes - (size_bytes - self.next_bytes) % self.increment_bytes
        return below, below + self.increment_bytes

    def check_capacity(self, size_bytes: int) -> None:
        """Raise GridwrightError with the nearest sizes when none of this size can be had."""
        if self.valid_capacity(size_bytes):
            return
        below, above = self.nearest_capacities(size_bytes)
        close = f"{_gib(below)} or {_gib(above)}" if below else _gib(above)
        raise GridwrightError(
            Problem(
                f"{self.name} is not offered with {Bytes(size_bytes) if size_bytes >= 0 else size_bytes}",
                field="capacity",
                remedy=f"the nearest is {close}; sizes are {_gib(self.smallest_bytes)}, "
                f"{_gib(self.next_bytes)} and multiples of {_gib(self.increment_bytes)}",
            )
        )

    def usd_per_hour(self, capacity_bytes: int, tier: float, region: str) -> float:
        """USD for one hour; a month has 730 hours.

        Raises GridwrightError for a capacity or a tier that is not offered, and where no price is
        known in `region`.
        """
        self.check_capacity(capacity_bytes)
        self.tier(tier)
        price = self.prices.of(f"{tier / MB:g}", region)
        return price.usd * self._stored(capacity_bytes) / GIB / HOURS_PER_MONTH


def _gib(size: int) -> str:
    return f"{size // GIB} GiB"


OFFER_COLUMNS = ("provider", "offer", "protocol", "fact", "value", "unit", "source", "date")

_SIZES = {"TB": 1e12, "GiB": 2.0**30, "TiB": 2.0**40}


@dataclass(frozen=True, slots=True)
class ManagedOffer:
    """One offer and its published facts; a limit that nobody publishes has no fact.

    `read`, `write`: what all clients together get of one file system, each alone. `mixed_read`,
    `mixed_write`: both at once. `by_capacity`: what each TB or TiB of capacity brings, for reads and writes
    together. `client`: what one client gets, with the service's own client; `client_plain` with any other.
    `throughput_min`, `throughput_max`, `throughput_step`: throughput is bought apart from capacity, in steps.
    `capacity_min`, `capacity_max`, `capacity_step`: sizes on sale; from `capacity_large` on the step is
    `capacity_step_large`. `pool_step`: capacity is paid in pools of
    whole steps, and several file systems may share a pool. `capacity_fixed`: 1 where the size never changes.
    `read_cache_min`, `read_cache_max`: sizes of an SSD cache. `nconnect`: connections of one mount that the
    provider advises. `version_max`: the newest version of NFS that it speaks.
    """

    name: str
    provider: str
    protocol: str
    facts: Mapping[str, Fact]

    @property
    def tier(self) -> str:
        """The number at the end of its name, MB/s for each TB or TiB; empty where it has none."""
        found = self.name.rpartition("-")[2]
        return found if found.isdigit() else ""

    def figure(self, fact: str) -> float | None:
        """Return a rate in bytes/s (by_capacity: for each byte of capacity), a size in bytes, or a count.

        None where nobody publishes it.
        """
        found = self.facts.get(fact)
        if found is None:
            return None
        if found.unit in _SIZES:
            return found.value * _SIZES[found.unit]
        if found.unit.partition("/s")[0] + "/s" in RATE_UNITS:
            factor, divisor = per(found.unit)
            return found.value * factor / _SIZES.get(divisor, 1.0)
        return found.value


@cache
def managed_offers() -> dict[str, ManagedOffer]:
    """Return all packaged offers, by name."""
    facts: dict[tuple[str, str, str], dict[str, Fact]] = {}
    for provider, offer, protocol, fact, value, unit, text, date in rows("managed-offers.csv", OFFER_COLUMNS):
        of_offer = facts.setdefault((provider, offer, protocol), {})
        of_offer[fact] = Fact(float(value), unit, source(text, date))
    return {
        offer: ManagedOffer(offer, provider, protocol, each)
        for (provider, offer, protocol), each in facts.items()
    }


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
