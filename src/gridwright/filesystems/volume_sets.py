"""Block volumes of one machine: every combination on the ladder, and the cheapest for a need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from gridwright.catalog import Catalog, VolumeType
from gridwright.errors import GridwrightError

T = TypeVar("T")
GIB = 2**30
MIB = 2**20
COUNTS = (1, 2, 4, 8, 12, 16, 24)
"""Volumes of one machine that the planner tries; a Nitro machine attaches at most 27 beside its root."""
SIZES_GIB = (100, 250, 500, 1000, 2000, 4000, 8000, 16000)
THROUGHPUTS_MIB = (125, 250, 500, 1000)
"""gp3: what is included, and steps up to the most that is sold."""
SEQUENTIAL = frozenset({"st1", "sc1", "lower-cost"})
"""Types whose rate holds for large sequential requests (EC2 User Guide, Oracle's page of volume tiers): right
for the targets of Lustre, wrong for metadata and for the temporary files of many jobs at once."""


@dataclass(frozen=True, slots=True)
class VolumeSet:
    """Volumes of one machine that are alike; rates and cost are of all together, lasting, per hour."""

    type: str
    count: int
    size_gib: int
    throughput_mib: int | None
    iops: int | None
    bytes_per_s: float
    capacity_bytes: int
    usd_per_hour: float

    def plain(self) -> dict[str, Any]:
        """As the `disks` of a grid spec."""
        found: dict[str, Any] = {"type": self.type, "count": self.count, "size": f"{self.size_gib} GiB"}
        if self.iops is not None:
            found["iops"] = self.iops
        if self.throughput_mib is not None:
            found["throughput"] = f"{self.throughput_mib} MiB/s"
        return found

    def __str__(self) -> str:
        return f"{self.count} {self.type} of {self.size_gib} GiB"


def all_volume_sets(catalog: Catalog, types: Iterable[str], region: str) -> Iterator[VolumeSet]:
    """Every combination on the ladder of these types that has a known price in the region."""
    for name in types:
        volume = catalog.volumes.get(name)
        if volume is None:
            continue
        for size in SIZES_GIB:
            for throughput in THROUGHPUTS_MIB if volume.provisions_throughput else (None,):
                yield from _sets(volume, size, throughput, region)


def _sets(volume: VolumeType, size: int, throughput: int | None, region: str) -> Iterator[VolumeSet]:
    """The sets of 1 to 24 of one volume; none where it is not sold."""
    # gp3 sells 0.25 MiB/s of throughput for each of its operations per second.
    iops = 4 * throughput if throughput and throughput > 750 else None
    bought = None if throughput is None or throughput == THROUGHPUTS_MIB[0] else throughput * MIB
    try:
        limits = volume.limits(size * GIB, iops, bought)
        usd = volume.usd_per_hour(size * GIB, region, iops, bought)
    except GridwrightError:
        return
    for count in COUNTS:
        yield VolumeSet(
            volume.name,
            count,
            size,
            None if bought is None else throughput,
            iops,
            limits.steady_bytes_per_s * count,
            size * GIB * count,
            usd * count,
        )


def worthwhile(sets: Iterable[VolumeSet]) -> list[VolumeSet]:
    """Those that no other beats in rate, room and cost at once, cheapest first."""
    return unbeaten((one.usd_per_hour, (one.bytes_per_s, one.capacity_bytes), one) for one in sets)


def unbeaten(offers: Iterable[tuple[float, tuple[float, float], T]]) -> list[T]:
    """Offers by cost and two merits, without those that one as cheap matches in both; cheapest first."""
    kept: list[tuple[tuple[float, float], T]] = []
    for _, merits, offer in sorted(offers, key=lambda each: (each[0], -each[1][0], -each[1][1])):
        if not any(mine >= merits[0] and other >= merits[1] for (mine, other), _ in kept):
            kept.append((merits, offer))
    return [offer for _, offer in kept]


def not_sequential(sets: Iterable[VolumeSet]) -> list[VolumeSet]:
    """Those that also serve many small requests at once, cheapest first and without needless ones."""
    return worthwhile(each for each in sets if each.type not in SEQUENTIAL)


def cheapest(sets: list[VolumeSet], bytes_per_s: float, capacity_bytes: float) -> VolumeSet | None:
    """The first of `sets`, which are cheapest first, that delivers the rate and has the room."""
    for each in sets:
        if each.bytes_per_s >= bytes_per_s and each.capacity_bytes >= capacity_bytes:
            return each
    return None
