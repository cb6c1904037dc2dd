"""What a planner may choose of Lustre: servers with volumes, and a metadata server."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources

from gridwright.catalog import InstanceType
from gridwright.catalog.attachments import free_attachments
from gridwright.filesystems.efficiency import efficiency
from gridwright.filesystems.offers import OnSale, SharedChoice
from gridwright.filesystems.site import shares_network, steady_network, volume_limit
from gridwright.filesystems.volume_sets import GIB, VolumeSet, cheapest, unbeaten

MOST_SERVERS = 64
"""Most OSS that the planner tries; MDS and clients of larger file systems deserve a plan by hand."""


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
        and volumes.count <= (free_attachments(instance.name) or volumes.count)
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
    """How large Lustre servers have to be, from data/server_sizes.csv, in the units of that file."""
    data = resources.files("gridwright.filesystems.lustre").joinpath("data/server_sizes.csv")
    text = data.read_text("utf-8")
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


@dataclass(frozen=True, slots=True)
class LustreOffer:
    """Lustre on as many servers of one's own as a need takes, with one metadata server."""

    servers: list[ServerOffer]
    metadata: MetadataServer
    managed: bool = False
    durable: bool = True
    most: str = f"{MOST_SERVERS} servers"

    def smallest(self, bytes_per_s: float, capacity_bytes: int) -> SharedChoice | None:
        """The cheapest that delivers the rate and has the room."""
        best: tuple[float, int, ServerOffer] | None = None
        for offer in self.servers:
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
        volumes = self.metadata.volumes(capacity_bytes)
        if volumes is None:
            return None
        return SharedChoice(
            "lustre",
            f"Lustre on {count} {offer.instance.name}, each {offer.volumes}",
            offer.bytes_per_s * count,
            offer.volumes.capacity_bytes * count,
            usd + self.metadata.usd_per_hour + volumes.usd_per_hour,
            managed=False,
            durable=True,
            plain={
                "type": "lustre",
                "oss": {"instance": offer.instance.name, "count": count, "disks": offer.volumes.plain()},
                "mds": {"instance": self.metadata.instance.name, "count": 1, "disks": volumes.plain()},
                "stripe_count": -1,
            },
            servers=count + 1,
        )


def lustre_offers(on_sale: OnSale) -> list[LustreOffer]:
    """The one offer, where servers, volumes and a metadata server are on sale."""
    metadata = metadata_server(on_sale.servers, on_sale.metadata_volumes)
    servers = server_offers(on_sale.servers, on_sale.target_volumes)
    return [LustreOffer(servers, metadata)] if servers and metadata is not None else []
