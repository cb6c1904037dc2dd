"""What a planner may choose of Spectrum Scale: pairs of servers that share their block volumes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

from gridwright.catalog import InstanceType
from gridwright.catalog.instances import free_attachments, xen_types
from gridwright.filesystems.efficiency import efficiency
from gridwright.filesystems.offers import OnSale, SharedChoice
from gridwright.filesystems.scale.pool_rules import MOST_ATTACHED
from gridwright.filesystems.site import shares_network, steady_network, volume_limit
from gridwright.filesystems.volume_sets import GIB, MOST_VOLUMES, VolumeMarket

MOST_SERVERS = 32
"""Most NSD servers that the planner tries; larger clusters deserve a plan by hand."""
LEAST_CORES, LEAST_MEMORY = 4, 64 * GIB
"""Of a server: beside the page pool the daemon needs room for tokens and buffers. No page says how much; 003
has 52 cores and 768 GiB."""
ARCHITECTURE = "x86_64"
"""What every release of Scale has server packages for."""


@dataclass(frozen=True, slots=True)
class PairedServer:
    """An instance type as NSD server, without its volumes: USD per hour, and bytes per second to clients.

    `bytes_per_s` is what its network passes, and what its volumes have to deliver.
    """

    instance: InstanceType
    usd_per_hour: float
    bytes_per_s: float
    most_volumes: int


def paired_server(instance: InstanceType, usd: float) -> PairedServer | None:
    """The server; None for a type that is too small, of another processor, or shares no volumes."""
    if instance.architecture != ARCHITECTURE:
        return None
    if instance.cores < LEAST_CORES or instance.memory_bytes < LEAST_MEMORY:
        return None
    if instance.name in xen_types():
        return None
    # Both of a pair attach the volumes of both.
    free = free_attachments(instance.name, interfaces=1)
    most = min(MOST_VOLUMES, MOST_ATTACHED // 2, MOST_VOLUMES if free is None else free // 2)
    return PairedServer(instance, usd, _to_clients(instance), most) if most else None


def _to_clients(instance: InstanceType) -> float:
    """Bytes per second: of several cards one is for volumes (003.sn.net); through one, bytes pass twice."""
    network, nics = steady_network(instance), instance.network.nics
    own = volume_limit(instance) or math.inf
    if nics > 1:
        return min(network / nics, own)
    return min(network / 2 if shares_network(instance) else network, own)


@dataclass(frozen=True, slots=True)
class ScaleOffer:
    """Scale on as many pairs as a need takes; IBM's licences are not in the price."""

    servers: list[PairedServer]
    volumes: VolumeMarket
    managed: bool = False
    durable: bool = True
    most: str = f"{MOST_SERVERS} servers"

    def smallest(self, bytes_per_s: float, capacity_bytes: int) -> SharedChoice | None:
        """The cheapest that delivers the rate and has the room, of two as cheap the one with fewer servers.

        The volumes of each server deliver what its network passes (003: volumes x rate is at least the NIC),
        so that more servers of a type always cost more, and the fewest are the cheapest.
        """
        best: SharedChoice | None = None
        bounds = sorted(
            (self._least_usd(server, bytes_per_s, capacity_bytes), number)
            for number, server in enumerate(self.servers)
        )
        for bound, number in bounds:
            if math.isinf(bound) or (best is not None and bound > best.usd_per_hour):
                break
            choice = self._with(self.servers[number], bytes_per_s, capacity_bytes)
            if choice is None:
                continue
            if best is None or (choice.usd_per_hour, choice.servers) < (best.usd_per_hour, best.servers):
                best = choice
        return best

    def _least_usd(self, server: PairedServer, bytes_per_s: float, capacity_bytes: int) -> float:
        """A lower bound of the price with a type of server, per hour; infinite where too many are needed."""
        count = 2 * self._least_pairs(server, bytes_per_s, capacity_bytes)
        if count > MOST_SERVERS:
            return math.inf
        most = server.most_volumes
        disks = self.volumes.least_usd(server.bytes_per_s, capacity_bytes / count, most)
        return count * (server.usd_per_hour + disks) * (1 - 1e-9)

    def _least_pairs(self, server: PairedServer, bytes_per_s: float, capacity_bytes: int) -> int:
        """Fewer pairs never do: neither their networks nor the largest volumes."""
        by_rate = bytes_per_s / (server.bytes_per_s * file_share()) / 2 * (1 - 1e-12)
        by_room = capacity_bytes / (server.most_volumes * self.volumes.largest_bytes) / 2 * (1 - 1e-12)
        return max(1, math.ceil(by_rate), math.ceil(by_room))

    def _with(self, server: PairedServer, bytes_per_s: float, capacity_bytes: int) -> SharedChoice | None:
        each = server.bytes_per_s * file_share()
        pairs = self._least_pairs(server, bytes_per_s, capacity_bytes)
        while 2 * pairs <= MOST_SERVERS:
            count = 2 * pairs
            disks = self.volumes.cheapest(server.bytes_per_s, capacity_bytes / count, server.most_volumes)
            if disks is not None:
                return SharedChoice(
                    "scale",
                    f"Scale on {count} {server.instance.name} in pairs, each {disks}, without IBM's licences",
                    each * count,
                    disks.capacity_bytes * count,
                    count * (server.usd_per_hour + disks.usd_per_hour),
                    managed=False,
                    durable=True,
                    plain={
                        "type": "scale",
                        "nsd": {"instance": server.instance.name, "count": count, "disks": disks.plain()},
                    },
                    servers=count,
                    shares_volumes=True,
                )
            pairs += 1
        return None


@cache
def file_share() -> float:
    """The part of what its limits let through that reaches files."""
    return min(efficiency("scale", "write")[0], efficiency("scale", "read")[0])


def scale_offers(on_sale: OnSale) -> list[ScaleOffer]:
    """The one offer, of volumes that can be attached to both servers of a pair.

    Metadata are on the same volumes as data, so that types for large sequential requests will not do.
    """
    volumes = on_sale.shared_volumes.not_sequential()
    every = [server for each in on_sale.servers if (server := paired_server(*each))]
    servers = [each for each in every if volumes.brings(each.bytes_per_s, each.most_volumes)]
    return [ScaleOffer(servers, volumes)] if servers and volumes.volumes else []
