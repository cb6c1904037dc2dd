"""Block volumes of one machine: the cheapest number and size of them for a need, solved exactly."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from gridwright.catalog import Catalog, InstanceType, VolumeType
from gridwright.catalog.instances import free_attachments
from gridwright.errors import GridwrightError
from gridwright.filesystems.growth import Growth

T = TypeVar("T")
GIB = 2**30
MIB = 2**20
MOST_VOLUMES = 24
"""Most volumes of one machine in a plan; a Nitro machine attaches at most 27 beside its root."""
SEQUENTIAL = frozenset({"st1", "sc1", "lower-cost"})
"""Types whose rate holds for large sequential requests (EC2 User Guide, Oracle's page of volume tiers): right
for the targets of Lustre, wrong for metadata and for the temporary files of many jobs at once."""
_SLACK = 1e-9
"""What rounding of a division may add to a whole number."""


@dataclass(frozen=True, slots=True)
class VolumeSet:
    """Volumes of one machine that are alike; rates and cost are of all together, lasting, per hour.

    With `growth` they are what a machine begins with, and the cost is the mean of 12 months.
    """

    type: str
    count: int
    size_gib: int
    throughput_mib: int | None
    iops: int | None
    bytes_per_s: float
    capacity_bytes: int
    usd_per_hour: float
    growth: Growth | None = None

    def plain(self) -> dict[str, Any]:
        """As the `disks` of a grid spec."""
        found: dict[str, Any] = {"type": self.type, "count": self.count, "size": f"{self.size_gib} GiB"}
        if self.iops is not None:
            found["iops"] = self.iops
        if self.throughput_mib is not None:
            found["throughput"] = f"{self.throughput_mib} MiB/s"
        return found

    def __str__(self) -> str:
        bought = "" if self.throughput_mib is None else f" at {self.throughput_mib} MiB/s"
        if self.throughput_mib is None and self.iops is not None:
            bought = f" at {self.iops} IOPS"
        return f"{self.count} {self.type} of {self.size_gib} GiB{bought}"


@dataclass(frozen=True, slots=True)
class _Size:
    """One volume: its size, what is bought beside it (None: what is included), and its price per hour."""

    gib: int
    throughput_mib: int | None
    iops: int | None
    usd: float


@dataclass(frozen=True)
class PricedVolume:
    """A type of volume with its prices in one region, in USD per hour; all are linear in what is bought."""

    volume: VolumeType
    region: str
    usd_per_gib: float
    usd_per_mib: float = 0.0
    """For each MiB/s above what is included."""
    usd_per_iops: float = 0.0
    """For each operation per second above what is included."""
    _sizes: dict[float, int | None] = field(default_factory=dict)
    _iops_usd: dict[int, float] = field(default_factory=dict)
    _steady_rates: dict[int, float] = field(default_factory=dict)

    @cached_property
    def least_gib(self) -> int:
        """The smallest volume."""
        return math.ceil(self.volume.minimum_bytes / GIB)

    @cached_property
    def most_gib(self) -> int:
        """The largest volume."""
        return self.volume.maximum_bytes // GIB

    @cached_property
    def _chosen(self) -> tuple[float, float, float, float, float]:
        """Of types whose throughput is bought, what is on sale.

        Least and most throughput (MiB/s), MiB/s for each operation per second, the operations that are
        included, and the most of them for each GiB.
        """
        figure = self.volume.figure
        return (
            figure("throughput_min") / MIB,
            min(figure("throughput_max"), figure("iops_max") * figure("throughput_per_iops")) / MIB,
            figure("throughput_per_iops") / MIB,
            figure("iops_min"),
            figure("iops_per_gib"),
        )

    @cached_property
    def _best_per_gib(self) -> float:
        """The highest lasting rate that a GiB brings (bytes/s), of types whose rate follows from the size.

        Of those it falls, or stays, as a volume grows beyond the size at which its rate is the highest of
        its kind, so that one of a few sizes has it.
        """
        sizes = {self.least_gib, self.most_gib, self.size_for(self._steady(self.most_gib)) or self.most_gib}
        if "small_max" in self.volume.facts:
            small = int(self.volume.facts["small_max"].value)
            sizes |= {small, small + 1, self.size_for(self._steady(small)) or small}
        return max(self._steady(gib) / gib for gib in sizes)

    def least_usd(self, bytes_per_s: float, capacity_bytes: float, most: float) -> float:
        """A lower bound of the price of at most `most` volumes that bring rate and room, per hour."""
        gib = capacity_bytes / GIB
        if self.volume.throughput_by_iops:
            most_iops = self.volume.figure("iops_max")
            # Operations get cheaper in tiers, so that nobody pays less for one than who buys the most.
            each = self._usd_of_iops(int(most_iops)) / most_iops
            return self.usd_per_gib * gib + each * bytes_per_s / self.volume.figure("throughput_per_iops")
        if not self.volume.provisions_throughput:
            return self.usd_per_gib * max(gib, bytes_per_s / self._best_per_gib)
        extra = bytes_per_s / MIB - self._chosen[0] * most
        return self.usd_per_gib * gib + self.usd_per_mib * max(0.0, extra)

    def smallest(self, bytes_per_s: float, gib: int) -> _Size | None:
        """The cheapest single volume that brings a rate and at least `gib`; None where none does."""
        if self.volume.throughput_by_iops:
            return self._smallest_by_iops(bytes_per_s, gib)
        if not self.volume.provisions_throughput:
            by_rate = self.size_for(bytes_per_s)
            if by_rate is None or max(by_rate, gib) > self.most_gib:
                return None
            size = max(by_rate, gib, self.least_gib)
            return _Size(size, None, None, size * self.usd_per_gib)
        included, most, each, free, per_gib = self._chosen
        mib = max(included, math.ceil(bytes_per_s / MIB - _SLACK))
        iops = max(free, math.ceil(mib / each - _SLACK))
        size = max(gib, self.least_gib)
        if iops > free:
            size = max(size, math.ceil(iops / per_gib))
        if mib > most or size > self.most_gib:
            return None
        usd = (
            size * self.usd_per_gib + (mib - included) * self.usd_per_mib + (iops - free) * self.usd_per_iops
        )
        bought = None if mib == included else int(mib)
        return _Size(size, bought, None if iops == free else int(iops), usd)

    def _smallest_by_iops(self, bytes_per_s: float, gib: int) -> _Size | None:
        figure = self.volume.figure
        iops = max(figure("iops_min"), math.ceil(bytes_per_s / figure("throughput_per_iops") - _SLACK))
        size = max(gib, self.least_gib, math.ceil(iops / figure("iops_per_gib")))
        if bytes_per_s > figure("throughput_max") * (1 + _SLACK):
            return None
        if iops > figure("iops_max") or size > self.most_gib:
            return None
        return _Size(size, None, int(iops), size * self.usd_per_gib + self._usd_of_iops(int(iops)))

    def _usd_of_iops(self, iops: int) -> float:
        """USD per hour for operations of one volume, room for them not included."""
        if iops not in self._iops_usd:
            size = self.most_gib * GIB
            usd = self.volume.usd_per_hour(size, self.region, iops)
            self._iops_usd[iops] = usd - self.most_gib * self.usd_per_gib
        return self._iops_usd[iops]

    def size_for(self, bytes_per_s: float) -> int | None:
        """The smallest volume (GiB) whose lasting rate is so high; None where none is."""
        if bytes_per_s not in self._sizes:
            sizes = range(self.least_gib, self.most_gib + 1)
            at = bisect_left(sizes, bytes_per_s * (1 - _SLACK), key=self._steady)
            self._sizes[bytes_per_s] = sizes[at] if at < len(sizes) else None
        return self._sizes[bytes_per_s]

    def _steady(self, gib: int) -> float:
        if gib not in self._steady_rates:
            self._steady_rates[gib] = self.volume.limits(gib * GIB).steady_bytes_per_s
        return self._steady_rates[gib]

    def cheapest(
        self, bytes_per_s: float, capacity_bytes: float, most: int, below: float
    ) -> VolumeSet | None:
        """The cheapest set of at most `most` that costs less than `below` USD per hour.

        Of two that cost the same, the one with fewer volumes.
        """
        best: tuple[int, _Size] | None = None
        fewest = max(1, _gib_per_volume(capacity_bytes, self.most_gib))
        for count in range(fewest, most + 1):
            one = self.smallest(bytes_per_s / count, _gib_per_volume(capacity_bytes, count))
            if one is not None and one.usd * count < below:
                best, below = (count, one), one.usd * count - _SLACK
        return None if best is None else self._set(*best)

    def resized(self, count: int, bytes_per_s: float, capacity_bytes: float) -> VolumeSet | None:
        """So many volumes, as small as rate and room let them be; None where one is not that large."""
        one = self.smallest(bytes_per_s / count, _gib_per_volume(capacity_bytes, count))
        return None if one is None else self._set(count, one)

    def _set(self, count: int, one: _Size) -> VolumeSet:
        bought = None if one.throughput_mib is None else float(one.throughput_mib * MIB)
        limits = self.volume.limits(one.gib * GIB, one.iops, bought)
        usd = self.volume.usd_per_hour(one.gib * GIB, self.region, one.iops, bought)
        return VolumeSet(
            self.volume.name,
            count,
            one.gib,
            one.throughput_mib,
            one.iops,
            limits.steady_bytes_per_s * count,
            one.gib * GIB * count,
            usd * count,
        )


@dataclass(frozen=True)
class VolumeMarket:
    """The types of volumes that are on sale in a region for one purpose."""

    volumes: Sequence[PricedVolume]

    def cheapest(
        self, bytes_per_s: float, capacity_bytes: float, most: int = MOST_VOLUMES
    ) -> VolumeSet | None:
        """The cheapest set of at most `most` alike volumes of one machine that brings rate and room.

        It is exact: for each type and number of volumes, size and throughput are the least that will do, and
        all prices rise with them. None where no set does.
        """
        best: VolumeSet | None = None
        bounds = sorted(
            (volume.least_usd(bytes_per_s, capacity_bytes, most), number)
            for number, volume in enumerate(self.volumes)
        )
        for bound, number in bounds:
            below = math.inf if best is None else best.usd_per_hour * (1 - _SLACK)
            if bound >= below:
                break
            best = self.volumes[number].cheapest(bytes_per_s, capacity_bytes, most, below) or best
        return best

    def brings(self, bytes_per_s: float, most: int) -> bool:
        """Whether at most `most` volumes of one machine can bring a rate at all."""
        return any(volume.smallest(bytes_per_s / most, 0) is not None for volume in self.volumes)

    def smaller(self, volumes: VolumeSet, bytes_per_s: float, capacity_bytes: float) -> VolumeSet:
        """Volumes of the same type and number that bring rate and room; the same where none are smaller."""
        priced = next(volume for volume in self.volumes if volume.volume.name == volumes.type)
        return priced.resized(volumes.count, bytes_per_s, capacity_bytes) or volumes

    def least_usd(self, bytes_per_s: float, capacity_bytes: float, most: float) -> float:
        """A lower bound of what `cheapest` finds, however the volumes are shared out among machines."""
        bounds = (volume.least_usd(bytes_per_s, capacity_bytes, most) for volume in self.volumes)
        return min(bounds, default=math.inf)

    @cached_property
    def largest_bytes(self) -> int:
        """The room of the largest volume on sale."""
        return max((volume.most_gib * GIB for volume in self.volumes), default=0)

    def not_sequential(self) -> VolumeMarket:
        """Those that also serve many small requests at once."""
        return VolumeMarket([volume for volume in self.volumes if volume.volume.name not in SEQUENTIAL])


def _gib_per_volume(capacity_bytes: float, count: int) -> int:
    """The least whole GiB of `count` volumes that hold a capacity together.

    Half a byte is what rounding of a capacity that was divided may add.
    """
    return math.ceil((capacity_bytes - 0.5) / count / GIB)


def volume_market(catalog: Catalog, types: Iterable[str], region: str) -> VolumeMarket:
    """The given types that the catalogue has, and has prices of in the region."""
    known = (catalog.volumes[name] for name in types if name in catalog.volumes)
    priced = (_priced(volume, region) for volume in known)
    return VolumeMarket([each for each in priced if each is not None])


def most_volumes(instance: InstanceType) -> int:
    """How many volumes a plan gives to one machine: what can be attached beside the one it starts from.

    The place of one network interface is left free: servers claim one with their address, and nodes that are
    replaced when they die do so, too.
    """
    free = free_attachments(instance.name, interfaces=1)
    return MOST_VOLUMES if free is None else min(free, MOST_VOLUMES)


def _priced(volume: VolumeType, region: str) -> PricedVolume | None:
    """A type with its prices; None where one of them is not known."""
    size = min(volume.maximum_bytes, 1000 * GIB)
    try:
        if volume.throughput_by_iops:
            least = volume.figure("iops_min")
            small, large = (volume.usd_per_hour(each, region, least) for each in (size, 2 * size))
            return PricedVolume(volume, region, (large - small) / (size / GIB))
        usd = volume.usd_per_hour(size, region)
        if not volume.provisions_throughput:
            return PricedVolume(volume, region, usd / (size / GIB))
        included, free = volume.figure("throughput_min"), volume.figure("iops_min")
        throughput = volume.usd_per_hour(size, region, None, included + MIB) - usd
        iops = volume.usd_per_hour(size, region, free + 1000) - usd
    except GridwrightError:
        return None
    return PricedVolume(volume, region, usd / (size / GIB), throughput, iops / 1000)


def unbeaten(offers: Iterable[tuple[float, tuple[float, float], T]]) -> list[T]:
    """Offers by cost and two merits, without those that one as cheap matches in both; cheapest first."""
    kept: list[tuple[tuple[float, float], T]] = []
    for _, merits, offer in sorted(offers, key=lambda each: (each[0], -each[1][0], -each[1][1])):
        if not any(mine >= merits[0] and other >= merits[1] for (mine, other), _ in kept):
            kept.append((merits, offer))
    return [offer for _, offer in kept]
