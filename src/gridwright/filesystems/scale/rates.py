"""IBM Spectrum Scale on NSD servers of one's own in a prediction: its rates, its losses, what is on sale.

Every file is spread over all disks of its pool.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from gridwright.catalog import InstanceType
from gridwright.catalog.instances import free_attachments, xen_types
from gridwright.errors import Finding
from gridwright.filesystems.kind import ClusterMachine
from gridwright.filesystems.offers import GIB, MOST_VOLUMES, OnSale, SharedChoice, VolumeMarket
from gridwright.filesystems.resources import (
    OPERATIONS,
    Contribution,
    Cost,
    DeadPart,
    DegradedRates,
    PartGroup,
    Route,
)
from gridwright.filesystems.scale.administration.desired import SYSTEM_POOL
from gridwright.filesystems.scale.cluster import filled_pools, quorum_names
from gridwright.filesystems.scale.model import ScaleFileSystem
from gridwright.filesystems.scale.pool_rules import MOST_ATTACHED
from gridwright.filesystems.servers import (
    DiskRates,
    ServerGroup,
    disk_rates,
    efficiency,
    server_costs,
    server_group,
    server_limit,
)
from gridwright.filesystems.site import Site
from gridwright.units import Bytes


def contribute(name: str, filesystem: ScaleFileSystem, site: Site) -> Contribution:
    """What the NSD servers deliver to all nodes. Problems with the spec are noted at the site.

    The rate is that of the pool that new files go to. Metadata are few bytes beside theirs.
    """
    if filesystem.nsd is None:
        unknown = f"nothing is known of the servers of {name}, which another cluster has"
        if filesystem.pairs is not None:
            unknown = (
                f"what the disks of {name} deliver is not known: its servers and disks are the site's own"
            )
        return Contribution({}, (), unknown=unknown)
    group = server_group("scale", name, "nsd", filesystem.nsd, site)
    costs = server_costs(name, "nsd", filesystem.nsd, site)
    if isinstance(group, str):
        return Contribution({}, costs, unknown=group)
    pools = _pools(name, filesystem, group, site)
    if isinstance(pools, str):
        return Contribution({}, costs, unknown=pools)
    costs += tuple(_cost(each, filesystem.nsd.count) for pool, each in pools.items() if pool != SYSTEM_POOL)
    serving = replace(group, disks=pools[filesystem.file_pool])
    filled = [pools[filled_pool].capacity_bytes for filled_pool in filled_pools(filesystem)]
    return Contribution(
        {
            operation: Route((*site.nodes.network(operation), *serving.uses(operation)))
            for operation in OPERATIONS
        },
        costs,
        capacity_bytes=sum(filled) * filesystem.nsd.count,
        outlives_server=all(pool.are_volumes for pool in pools.values()),
        targets=serving.targets,
        findings=(_licences(name), *_rooms(name, filesystem, pools)),
    )


def _pools(
    name: str, filesystem: ScaleFileSystem, group: ServerGroup, site: Site
) -> dict[str, DiskRates] | str:
    """The disks of each server by pool, or in words why their rates are not known."""
    if not filesystem.pool_names:
        return {SYSTEM_POOL: group.disks}
    found = {SYSTEM_POOL: group.disks}
    for pool, disks in filesystem.pool_disks.items():
        rates = disk_rates(disks, group.instance, site, "filesystems", name, "pools", pool, "disks")
        if isinstance(rates, str):
            return rates
        found[pool] = rates
    return {pool: replace(each, what=f"{each.what} in pool {pool}") for pool, each in found.items()}


def _cost(disks: DiskRates, servers: int) -> Cost:
    usd = disks.usd_per_hour
    return Cost(f"{disks.what} at each NSD", None if usd is None else usd * servers)


def _rooms(name: str, filesystem: ScaleFileSystem, pools: Mapping[str, DiskRates]) -> Iterator[Finding]:
    """How much of its room is in which pool, where it has several."""
    if len(pools) < 2 or filesystem.nsd is None:
        return
    servers, filled = filesystem.nsd.count, filled_pools(filesystem)
    told = []
    for pool, disks in pools.items():
        if pool == SYSTEM_POOL and filesystem.metadata_only:
            holds = "metadata alone"
        elif pool == filled[0]:
            holds = "new files"
        else:
            holds = "files that move there" if pool in filled else "no files by a rule"
        told.append(f"{pool} {Bytes(disks.capacity_bytes * servers)} ({holds})")
    yield Finding(
        "info",
        "scale-pools",
        f"room of {name} by pool: {', '.join(told)}. Its rate is that of pool {filled[0]}; files that are "
        "read in another pool have that one's",
        "Let default_pool be the one that jobs read and write, with room for what they use at a time",
    )


def _licences(name: str) -> Finding:
    return Finding(
        "info",
        "licences-not-priced",
        f"the cost of {name} is that of its servers and volumes: IBM's licences of Scale are not in it",
        "Add what you pay IBM, by capacity or by socket, before you compare it with other file systems",
    )


DESCRIPTORS = 3
"""Of a file system, each in a failure group of its own where there are so many; most of them have to be there
(IBM Storage Scale, file system descriptor quorum). With two groups one has two of them."""


def parts(filesystem: ScaleFileSystem, contribution: Contribution) -> Sequence[PartGroup]:
    """Its NSD servers, and the disks of all of them."""
    if filesystem.nsd is None:
        return ()
    servers = PartGroup("nsd", "server", filesystem.nsd.count)
    if not contribution.targets:
        return (servers,)
    return (servers, PartGroup("disk", "target", contribution.targets))


def without(
    filesystem: ScaleFileSystem, contribution: Contribution, dead: Sequence[DeadPart]
) -> DegradedRates:
    """What the living servers of each pair pass of what both passed; nothing without both of a pair.

    Every file, and metadata with it, is spread over all disks, so that the slowest pair has its share
    of each: who serves its pair's disks alone passes half of what both did, and the others wait for it.
    """
    servers = filesystem.nsd.count if filesystem.nsd is not None else 0
    numbers = {part.number for part in dead if part.role == "nsd"}
    disks = [part for part in dead if part.role == "disk"]
    gone = [pair for pair in range(servers // 2) if {2 * pair + 1, 2 * pair + 2} <= numbers]
    if disks or not contribution.outlives_server:
        return _without_data(filesystem, len(gone), dead_disks=len(disks))
    if not has_quorum(servers, filesystem.replicas, numbers):
        words = "most nodes with a vote are dead: the cluster has no quorum, and stops until one is back"
        return DegradedRates(0.0, "unavailable", 1.0, words)
    if not gone:
        words = "the other server of the pair serves its disks, too: half as fast"
        return DegradedRates(0.5, "kept", 0.0, words, room_part=1.0)
    if filesystem.replicas > 1 and len(gone) == 1 and servers // 2 >= DESCRIPTORS:
        left = (servers // 2 - 1) / (servers // 2)
        words = "the other copy of each block is on another pair; one copy is left of some"
        return DegradedRates(left, "kept", 0.0, words)
    if filesystem.replicas > 1 and len(gone) == 1:
        words = (
            "two of the three descriptors of the file system may be on disks of that pair: it stops, though "
            "a copy of every block is on the other pair"
        )
        return DegradedRates(0.0, "unavailable", 1.0, words)
    words = "every file has blocks on disks of that pair: they wait for one of its servers"
    return DegradedRates(0.0, "unavailable", 1.0, words)


def has_quorum(servers: int, replicas: int, dead: Collection[int]) -> bool:
    """Whether the cluster goes on without these servers, by their numbers from 1 on.

    More than half of the votes are there, or one of two that see tiebreaker disks (IBM Storage Scale).
    A vote that a node without disks has is taken to be there.
    """
    machines = [
        ClusterMachine(name=str(number), address="", is_server=True, pair=(number + 1) // 2)
        for number in range(1, servers + 1)
    ]
    votes = quorum_names([*machines, ClusterMachine(name="node", address="", is_server=False)], replicas)
    alive = [vote for vote in votes if vote == "node" or int(vote) not in dead]
    return bool(alive) if len(votes) == 2 else 2 * len(alive) > len(votes)


def _without_data(filesystem: ScaleFileSystem, pairs: int, *, dead_disks: int) -> DegradedRates:
    """Where disks are gone for good."""
    if filesystem.replicas > 1 and dead_disks == 1 and not pairs:
        return DegradedRates(1.0, "kept", 0.0, "the other copy of its blocks is on another pair")
    what = "a dead disk" if dead_disks else "the disks of a dead server"
    return DegradedRates(
        0.0, "lost", 1.0, f"every file has blocks on {what}: they are lost where no other copy is"
    )


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
    return PairedServer(instance, usd, server_limit(instance), most) if most else None


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
