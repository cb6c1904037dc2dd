"""Managed file systems: FSx for Lustre by deployment type and throughput tier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gridwright.catalog.facts import Fact, Source
from gridwright.catalog.instances import Provider
from gridwright.catalog.storage_prices import GIB, StoragePrices
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
