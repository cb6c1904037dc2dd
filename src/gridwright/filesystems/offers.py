"""What a planner may choose for shared data: offers, the cheapest volumes of a machine, and growth."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeVar, runtime_checkable

from gridwright.catalog import Catalog, InstanceType, VolumeType
from gridwright.catalog.instances import free_attachments
from gridwright.errors import GridwrightError
from gridwright.spec.fields import Change, Update
from gridwright.spec.structure import field_at


@dataclass(frozen=True, slots=True)
class SharedChoice:
    """A shared file system: what it delivers in all, lasting, its room, and what it costs per hour.

    `managed`: the service replaces servers by itself. `durable`: data outlive the loss of a server.
    `servers` are machines of the grid. With `growth` it is what a grid begins with, and `usd_per_hour` is the
    mean of 12 months.
    """

    kind: str
    title: str
    bytes_per_s: float
    capacity_bytes: int
    usd_per_hour: float
    managed: bool
    durable: bool
    plain: dict[str, Any]
    servers: int = 0
    growth: Growth | None = None
    fixed_because: str = ""
    """Why its size can never be changed; empty where it can."""
    shares_volumes: bool = False
    """Whether its servers share their volumes in pairs."""


class Offer(Protocol):
    """File systems of a kind that differ in size alone."""

    @property
    def managed(self) -> bool:
        """Whether a service replaces servers by itself."""

    @property
    def durable(self) -> bool:
        """Whether data outlive the loss of a server."""

    @property
    def most(self) -> str:
        """The largest that a planner tries, in words."""

    def smallest(self, bytes_per_s: float, capacity_bytes: int) -> SharedChoice | None:
        """The cheapest that delivers the rate and has the room; None where none does."""


@runtime_checkable
class GrowingOffer(Protocol):
    """An offer whose smallest for less room can often not grow into the smallest for more."""

    def growing(
        self, bytes_per_s: float, room: int, room_later: int
    ) -> tuple[SharedChoice, SharedChoice] | None:
        """The cheapest for the later room, and what it begins with; the latter grows in place."""


@dataclass(frozen=True, slots=True)
class OnSale:
    """What a provider sells in a region, for kinds to make offers of. Prices in USD per hour."""

    catalog: Catalog
    region: str
    servers: Sequence[tuple[InstanceType, float]]
    """Instance types that may serve file systems, with their prices."""
    volumes: VolumeMarket
    """Types of block volumes; some serve large sequential requests alone."""
    provider: str = ""
    """Whose region it is."""
    shared_volumes: VolumeMarket = field(default_factory=lambda: VolumeMarket(()))
    """Types of volumes that can be attached to two servers at once."""
    services_of: str = ""
    """The provider whose managed offers may be chosen; empty where none may."""


IN_PLACE = frozenset({Change.LIVE, Change.REMOUNT, Change.ROLLING})
"""What may be done to a file system that keeps its data: by the update policies of its fields."""
_NAME = "new"


@dataclass(frozen=True, slots=True)
class Growth:
    """What becomes of new storage in 12 months; costs in USD per hour.

    `in_place`: it begins small and grows by fields whose update policies keep its data; `because` names them.
    Where that would be a rebuild, for the reason in `because`, it is bought at its later size, and both
    costs are the same. `later` is what it is then, in words, and `plain` as a section of a grid spec.
    """

    later: str
    usd_now: float
    usd_later: float
    in_place: bool
    because: str
    plain: Mapping[str, Any] = field(default_factory=dict)

    @property
    def mean_usd(self) -> float:
        """The mean of 12 months, where it grows evenly."""
        return (self.usd_now + self.usd_later) / 2


def changed_fields(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[tuple[str, Update]]:
    """The fields that differ between two sections of a file system, each with its update policy."""
    whole = {"filesystems": {_NAME: dict(after)}}
    return [(".".join(path), update) for path, update in _differing(before, after, (), whole, None)]


def _differing(
    old: Any,  # noqa: ANN401 - plain values
    new: Any,  # noqa: ANN401
    path: tuple[str, ...],
    whole: Mapping[str, Any],
    above: Update | None,
) -> Iterator[tuple[tuple[str, ...], Update]]:
    if old == new:
        return
    info = field_at(("filesystems", _NAME, *path), whole)
    declared = next((each for each in info.metadata if isinstance(each, Update)), None) if info else None
    update = declared or above or Update(Change.REBUILD, "nothing says how it changes")
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in dict.fromkeys((*new, *old)):
            yield from _differing(old.get(name), new.get(name), (*path, name), whole, update)
        return
    yield path, update


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
