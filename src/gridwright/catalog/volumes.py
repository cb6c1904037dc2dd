"""Volume types: what one network volume passes at a given size, and what it costs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from gridwright.catalog.facts import Fact
from gridwright.catalog.instances import Provider
from gridwright.catalog.prices import GIB, StoragePrices
from gridwright.errors import GridwrightError, Problem
from gridwright.units import HOURS_PER_MONTH, Bytes, format_rate

MIB = 2**20


@dataclass(frozen=True, slots=True)
class VolumeLimits:
    """What one volume passes, reads and writes together, for large sequential blocks.

    `steady_bytes_per_s` is what lasts. `burst_bytes_per_s` is what a full credit bucket allows for
    `burst_s` seconds; both None where there is nothing to burst. `iops` is the steady rate of
    operations. `limited_by` names the limit that sets the steady rate: size, iops or throughput.
    """

    steady_bytes_per_s: float
    burst_bytes_per_s: float | None
    burst_s: float | None
    iops: float
    limited_by: str


@dataclass(frozen=True, slots=True)
class VolumeType:
    """One kind of volume. `facts` holds each listed figure with source and date."""

    name: str
    provider: Provider
    minimum_bytes: int
    maximum_bytes: int
    facts: Mapping[str, Fact]
    prices: StoragePrices

    @property
    def provisions_iops(self) -> bool:
        """Whether the buyer chooses the rate of operations."""
        return self.name in ("gp3", "io2")

    @property
    def provisions_throughput(self) -> bool:
        """Whether the buyer chooses the throughput."""
        return self.name == "gp3"

    @property
    def throughput_by_iops(self) -> bool:
        """Whether throughput follows from the rate of operations that the buyer chooses, as io2's does."""
        return self.provisions_iops and not self.provisions_throughput

    def figure(self, fact: str) -> float:
        """Return a listed figure in bytes, bytes per second or plain numbers."""
        found = self.facts[fact]
        return found.value * _FACTORS.get(found.unit, 1.0)

    def limits(
        self, size_bytes: int, iops: float | None = None, throughput_bytes_per_s: float | None = None
    ) -> VolumeLimits:
        """What a volume of `size_bytes` passes.

        `iops` and `throughput_bytes_per_s` are what the buyer asks for, where the type lets them
        (gp3: both, io2: iops, which must be given). Raises GridwrightError with every problem,
        each naming the field and the nearest valid value.
        """
        self.check(size_bytes, iops, throughput_bytes_per_s)
        if "credits" in self.facts:
            return self._io_credits(size_bytes)
        if "credits_per_tib" in self.facts:
            return self._throughput_credits(size_bytes)
        if "throughput_per_gib" in self.facts:
            return self._by_size(size_bytes)
        return self._provisioned(size_bytes, iops, throughput_bytes_per_s)

    def _io_credits(self, size: int) -> VolumeLimits:
        """gp2: operations by size, credits for bursts, a cap on throughput that depends on the size."""
        gib, block = size / GIB, self.figure("io_size")
        steady_iops = min(
            max(self.figure("iops_per_gib") * gib, self.figure("iops_min")), self.figure("iops_max")
        )
        small = gib <= self.facts["small_max"].value
        cap = self.figure("throughput_small" if small else "throughput_max")
        steady = min(steady_iops * block, cap)
        burst = min(max(steady_iops, self.figure("burst_iops")) * block, cap)
        limited_by = "throughput" if steady == cap else "iops"
        if burst <= steady:
            return VolumeLimits(steady, None, None, steady_iops, limited_by)
        seconds = self.figure("credits") / (burst / block - steady_iops)
        return VolumeLimits(steady, burst, seconds, steady_iops, limited_by)

    def _throughput_credits(self, size: int) -> VolumeLimits:
        """st1, sc1: throughput by size, with a bucket of as many bytes as the volume holds."""
        tib = size / 2**40
        by_size, cap = self.figure("throughput_per_tib") * tib, self.figure("throughput_max")
        steady = min(by_size, cap)
        burst = min(self.figure("burst_per_tib") * tib, self.figure("burst_max"))
        limited_by = "size" if by_size < cap else "throughput"
        iops = min(self.figure("iops_max"), steady / self.figure("io_size"))
        if burst <= steady:
            return VolumeLimits(steady, None, None, iops, limited_by)
        seconds = self.figure("credits_per_tib") * tib / (burst - steady)
        return VolumeLimits(steady, burst, seconds, iops, limited_by)

    def _by_size(self, size: int) -> VolumeLimits:
        """OCI: operations and throughput by size, up to what one volume passes."""
        gib = size / GIB
        by_size, cap = self.figure("throughput_per_gib") * gib, self.figure("throughput_max")
        iops = min(self.figure("iops_per_gib") * gib, self.figure("iops_max"))
        return VolumeLimits(min(by_size, cap), None, None, iops, "size" if by_size < cap else "throughput")

    def _provisioned(self, size: int, iops: float | None, throughput: float | None) -> VolumeLimits:
        """gp3, io2: what the buyer asked for."""
        bought = self.figure("iops_min") if iops is None else iops
        by_iops = bought * self.figure("throughput_per_iops")
        cap = self.figure("throughput_max")
        if "throughput_min" in self.facts:
            cap = self.figure("throughput_min") if throughput is None else throughput
        return VolumeLimits(min(by_iops, cap), None, None, bought, "throughput" if cap <= by_iops else "iops")

    def usd_per_hour(
        self,
        size_bytes: int,
        region: str,
        iops: float | None = None,
        throughput_bytes_per_s: float | None = None,
    ) -> float:
        """USD for one hour of such a volume; a month has 730 hours.

        Raises GridwrightError for what limits() refuses and where a price is not known.
        """
        self.check(size_bytes, iops, throughput_bytes_per_s)
        gib = size_bytes / GIB
        month = self.prices.of("capacity", region).usd * gib
        if "vpus" in self.facts:
            month += self.prices.of("vpu", region).usd * self.figure("vpus") * gib
        included = self.figure("iops_min") if self.name == "gp3" else 0.0
        if self.provisions_iops and iops is not None and iops > included:
            month += self._iops_usd(iops - included, region)
        if self.provisions_throughput and throughput_bytes_per_s is not None:
            extra = max(0.0, throughput_bytes_per_s - self.figure("throughput_min")) / MIB
            month += self.prices.of("throughput", region).usd * extra if extra else 0.0
        return month / HOURS_PER_MONTH

    def _iops_usd(self, iops: float, region: str) -> float:
        """USD a month for operations; io2 gets cheaper in tiers: `iops`, `iops over 32000` and so on."""
        usd, below = 0.0, 0.0
        tiers = [(0.0, "iops")]
        tiers += [
            (float(name.rpartition(" ")[2]), name)
            for name in self.prices.components()
            if name.startswith("iops over ") and self.prices.known(name, region)
        ]
        tiers.sort()
        for index, (below, name) in enumerate(tiers):
            above = tiers[index + 1][0] if index + 1 < len(tiers) else float("inf")
            if iops > below:
                usd += self.prices.of(name, region).usd * (min(iops, above) - below)
        return usd

    def check(
        self, size_bytes: int, iops: float | None = None, throughput_bytes_per_s: float | None = None
    ) -> None:
        """Raise GridwrightError with all that is wrong with these figures; each names its field."""
        problems = [*self._size_problems(size_bytes)]
        if iops is not None or self.name == "io2":
            problems += self._iops_problems(size_bytes, iops)
        if throughput_bytes_per_s is not None:
            problems += self._throughput_problems(size_bytes, iops, throughput_bytes_per_s)
        if problems:
            raise GridwrightError(*problems)

    def _size_problems(self, size: int) -> list[Problem]:
        low, high = self.minimum_bytes, self.maximum_bytes
        if low <= size <= high and size % GIB == 0:
            return []
        close = Bytes(min(max(round(size / GIB) * GIB, low), high))
        what = f"a volume of {Bytes(size) if size >= 0 else size} is not offered as {self.name}"
        sizes = f"sizes are whole GiB from {Bytes(low)} to {Bytes(high)}"
        return [Problem(what, field="size", remedy=f"{sizes}; the nearest is {close}")]

    def _iops_problems(self, size: int, iops: float | None) -> list[Problem]:
        if not self.provisions_iops:
            what = f"{self.name} has no operations per second to choose: they follow from its size"
            return [Problem(what, field="iops", remedy="leave iops out, or choose gp3 or io2")]
        low = self.figure("iops_min")
        by_size = self.figure("iops_per_gib") * max(size, self.minimum_bytes) / GIB
        high = max(low, min(self.figure("iops_max"), by_size))
        if iops is not None and low <= iops <= high:
            return []
        if iops is None:
            return [Problem("io2 needs iops", field="iops", remedy=f"choose from {low:.0f} to {high:.0f}")]
        close = min(max(iops, low), high)
        what = f"{iops:g} operations per second are not offered for {self.name} of this size"
        offered = f"it has from {low:.0f} to {high:.0f}; the nearest is {close:.0f}"
        return [Problem(what, field="iops", remedy=offered)]

    def _throughput_problems(self, size: int, iops: float | None, throughput: float) -> list[Problem]:
        if not self.provisions_throughput:
            what = f"{self.name} has no throughput to choose"
            return [Problem(what, field="throughput", remedy="leave throughput out, or choose gp3")]
        low, bought = self.figure("throughput_min"), self.figure("iops_min") if iops is None else iops
        high = max(low, min(self.figure("throughput_max"), bought * self.figure("throughput_per_iops")))
        if low <= throughput <= high:
            return []
        close = min(max(throughput, low), high)
        what = f"{format_rate(throughput)} is not offered for {self.name} with {bought:.0f} iops"
        offered = f"it has from {low / MIB:g} to {high / MIB:g} MiB/s; the nearest is {close / MIB:g} MiB/s"
        if high < throughput <= self.figure("throughput_max"):
            offered += f"; iops: {math.ceil(throughput / self.figure('throughput_per_iops'))} allows it"
        return [Problem(what, field="throughput", remedy=offered)]


_FACTORS = {"GiB": float(GIB), "MiB/s": float(MIB), "MB/s": 1e6}
