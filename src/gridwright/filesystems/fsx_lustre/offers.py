"""What a planner may choose of FSx for Lustre: a file system of each deployment type and tier."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gridwright.catalog import Catalog, ManagedDeployment
from gridwright.errors import GridwrightError
from gridwright.filesystems.offers import SharedChoice
from gridwright.filesystems.volume_sets import GIB

TIB = 2**40
MOST_FSX_BYTES = 1_000_000 * GIB
"""Largest FSx for Lustre that the planner tries, far above what an account may have without asking."""


@dataclass(frozen=True, slots=True)
class FsxOffer:
    """One tier of a deployment type in one region; the price is linear in the capacity."""

    deployment: ManagedDeployment
    tier: float
    usd_per_gib_hour: float
    managed: bool = True
    most: str = f"{MOST_FSX_BYTES // GIB:,} GiB of FSx for Lustre"

    @property
    def durable(self) -> bool:
        """As its deployment type is."""
        return self.deployment.durable

    @property
    def lasting(self) -> float:
        """What each TiB delivers in both directions, in bytes per second: writes may get less."""
        return min(self.tier, self.deployment.tier(self.tier).disk_write or self.tier)

    def smallest(self, bytes_per_s: float, capacity_bytes: int) -> SharedChoice | None:
        """The smallest file system of this tier that delivers the rate and has the room."""
        wanted = max(capacity_bytes, math.ceil(bytes_per_s / self.lasting * TIB * (1 - 1e-12)), 1)
        size = _next_size(self.deployment, wanted)
        if size > MOST_FSX_BYTES:
            return None
        name = self.deployment.name
        return SharedChoice(
            f"fsx-{name}",
            f"FSx {name} {size // GIB} GiB at {self.tier / 1e6:g} MB/s/TiB",
            size / TIB * self.lasting,
            size,
            size / GIB * self.usd_per_gib_hour,
            managed=True,
            durable=self.deployment.durable,
            plain={
                "type": "fsx-lustre",
                "deployment": name,
                "capacity": f"{size // GIB} GiB",
                "throughput": f"{self.tier / 1e6:g} MB/s/TiB",
            },
        )


def _next_size(deployment: ManagedDeployment, wanted: int) -> int:
    """The smallest capacity on offer of at least `wanted` bytes."""
    for size in (deployment.smallest_bytes, deployment.next_bytes):
        if wanted <= size:
            return size
    steps = math.ceil((wanted - deployment.next_bytes) / deployment.increment_bytes)
    return deployment.next_bytes + steps * deployment.increment_bytes


def fsx_offers(catalog: Catalog, region: str) -> list[FsxOffer]:
    """Every tier of every deployment type that has a price in the region."""
    found = []
    for deployment in catalog.managed.values():
        for tier in deployment.tiers:
            try:
                usd = deployment.usd_per_hour(deployment.increment_bytes, tier, region)
            except GridwrightError:
                continue
            found.append(FsxOffer(deployment, tier, usd / (deployment.increment_bytes / GIB)))
    return found
