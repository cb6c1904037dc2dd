"""Shared file systems for a need: FSx for Lustre by tier and size, Lustre on servers of one's own."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from gridwright.catalog import Catalog, InstanceType, ManagedDeployment
from gridwright.errors import GridwrightError
from gridwright.filesystems.efficiency import efficiency
from gridwright.filesystems.site import shares_network, steady_network, volume_limit
from gridwright.plan.volumes import GIB, VolumeSet, cheapest, unbeaten

TIB = 2**40
MOST_SERVERS = 64
"""Most OSS that the planner tries; MDS and clients of larger file systems deserve a plan by hand."""
MOST_FSX_BYTES = 1_000_000 * GIB
"""Largest FSx for Lustre that the planner tries, far above what an account may have without asking."""


@dataclass(frozen=True, slots=True)
class SharedChoice:
    """A shared file system: what it delivers in all, lasting, its room, and what it costs per hour.

    `managed`: the service replaces servers by itself. `durable`: data outlive the loss of a server.
    `servers` are machines of the grid.
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


@dataclass(frozen=True, slots=True)
class FsxOffer:
    """One tier of a deployment type in one region; the price is linear in the capacity."""

    deployment: ManagedDeployment
    tier: float
    usd_per_gib_hour: float

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
                "stripe_count": -1,
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


@dataclass(frozen=True, slots=True)
class ServerOffer:
    """One OSS with its volumes: what reaches files of its limits, its room, its cost per hour."""

    instance: InstanceType
    volumes: VolumeSet
    bytes_per_s: float
    usd_per_hour: float


def server_limit(instance: InstanceType) -> float:
    """What the networks of one server let through to its volumes, before the file system's efficiency."""
    network, nics = steady_network(instance), instance.network.nics
    own = volume_limit(instance) or math.inf
    if nics > 1:
        return min(network / nics, own)
    return min(network / 2 if shares_network(instance) else network, own)


def server_offers(
    instances: Iterable[tuple[InstanceType, float]], volume_sets: list[VolumeSet]
) -> list[ServerOffer]:
    """Every server with every set of volumes that no other beats in rate, room and cost; cheapest first.

    `instances` come with their price per hour.
    """
    factor = min(efficiency("lustre", "write")[0], efficiency("lustre", "read")[0])
    by_name = sorted(instances, key=lambda each: each[0].name)
    servers = unbeaten(
        (usd, (server_limit(one), one.memory_bytes), (one, usd, server_limit(one))) for one, usd in by_name
    )
    offers = [
        ServerOffer(instance, volumes, min(limit, volumes.bytes_per_s) * factor, usd + volumes.usd_per_hour)
        for instance, usd, limit in servers
        for volumes in volume_sets
        if instance.memory_bytes >= least_memory(volumes.count)
    ]
    return unbeaten((one.usd_per_hour, (one.bytes_per_s, one.volumes.capacity_bytes), one) for one in offers)


def least_memory(targets: int) -> float:
    """The memory that an OSS with so many OSTs needs, in bytes."""
    rule = server_rules()
    return (rule["oss_memory"] + rule["oss_memory_each_target"] * targets) * 1e9


@dataclass(frozen=True, slots=True)
class MetadataServer:
    """The metadata server of a planned Lustre, which is its management server, too."""

    instance: InstanceType
    usd_per_hour: float
    volume_sets: list[VolumeSet]

    def volumes(self, capacity_bytes: int) -> VolumeSet | None:
        """Volumes for the metadata of so much data as the grid needs room for."""
        rule = server_rules()
        wanted = max(rule["mdt_share"] * capacity_bytes, rule["mdt_least"] * GIB)
        return cheapest(self.volume_sets, 0.0, wanted)


@cache
def server_rules() -> dict[str, float]:
    """How large Lustre servers have to be, from data/lustre_servers.csv, in the units of that file."""
    text = resources.files("gridwright.plan").joinpath("data/lustre_servers.csv").read_text("utf-8")
    return {row["quantity"]: float(row["value"]) for row in csv.DictReader(text.splitlines())}


def metadata_server(
    instances: Iterable[tuple[InstanceType, float]], volume_sets: list[VolumeSet]
) -> MetadataServer | None:
    """The cheapest instance that is large enough; `volume_sets` for it are cheapest first."""
    rule = server_rules()
    enough = [
        (usd, instance.name, instance)
        for instance, usd in instances
        if instance.cores >= rule["mds_cores"] and instance.memory_bytes >= rule["mds_memory"] * GIB
    ]
    if not enough:
        return None
    usd, _, instance = min(enough)
    return MetadataServer(instance, usd, volume_sets)


def cheapest_lustre(
    offers: list[ServerOffer], metadata: MetadataServer, bytes_per_s: float, capacity_bytes: int
) -> SharedChoice | None:
    """The cheapest Lustre on servers of one's own that delivers the rate and has the room."""
    best: tuple[float, int, ServerOffer] | None = None
    for offer in offers:
        count = max(
            math.ceil(bytes_per_s / offer.bytes_per_s * (1 - 1e-12)),
            math.ceil(capacity_bytes / offer.volumes.capacity_bytes),
            1,
        )
        if count <= MOST_SERVERS and (best is None or count * offer.usd_per_hour < best[0]):
            best = (count * offer.usd_per_hour, count, offer)
    if best is None:
        return None
    usd, count, offer = best
    volumes = metadata.volumes(capacity_bytes)
    if volumes is None:
        return None
    return SharedChoice(
        "lustre",
        f"Lustre on {count} {offer.instance.name}, each {offer.volumes}",
        offer.bytes_per_s * count,
        offer.volumes.capacity_bytes * count,
        usd + metadata.usd_per_hour + volumes.usd_per_hour,
        managed=False,
        durable=True,
        plain={
            "type": "lustre",
            "oss": {"instance": offer.instance.name, "count": count, "disks": offer.volumes.plain()},
            "mds": {"instance": metadata.instance.name, "count": 1, "disks": volumes.plain()},
            "stripe_count": -1,
        },
        servers=count + 1,
    )
