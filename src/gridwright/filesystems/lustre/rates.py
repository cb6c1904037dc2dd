"""Lustre on servers of one's own in a prediction: rates, what is left while parts are dead, offers."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from heapq import heappop, heappush
from importlib import resources

from gridwright.catalog import InstanceType
from gridwright.filesystems.lustre.model import LustreFileSystem
from gridwright.filesystems.offers import (
    GIB,
    OnSale,
    SharedChoice,
    VolumeMarket,
    VolumeSet,
    most_volumes,
    unbeaten,
)
from gridwright.filesystems.resources import (
    OPERATIONS,
    Contribution,
    DeadPart,
    DegradedRates,
    Fate,
    PartGroup,
    Route,
    affected_files_part,
)
from gridwright.filesystems.servers import efficiency, server_costs, server_group, server_limit
from gridwright.filesystems.service_rates import service_contribution, stated_costs
from gridwright.filesystems.site import Site
from gridwright.spec.filesystem import INSTANCE_STORE, Servers


def contribute(name: str, filesystem: LustreFileSystem, site: Site) -> Contribution:
    """What the OSS deliver to all nodes. Problems with the spec are noted at the site."""
    if filesystem.oss is None and filesystem.has_service_figures:
        return service_contribution(name, filesystem, site, "Lustre", protocol="lustre")
    if filesystem.oss is None:
        return Contribution(
            {},
            stated_costs("Lustre", filesystem),
            capacity_bytes=None if filesystem.capacity is None else int(filesystem.capacity),
            unknown="nothing is known of its servers (oss: describes them, limits: what they deliver)",
        )
    group = server_group("lustre", name, "oss", filesystem.oss, site)
    costs = [*server_costs(name, "oss", filesystem.oss, site)]
    for role in ("mds", "mgs"):
        if servers := getattr(filesystem, role):
            costs += server_costs(name, role, servers, site)
    if isinstance(group, str):
        return Contribution({}, tuple(costs), unknown=group)
    return Contribution(
        {
            operation: Route((*site.nodes.network(operation), *group.uses(operation)))
            for operation in OPERATIONS
        },
        tuple(costs),
        capacity_bytes=group.capacity_bytes,
        outlives_server=group.disks.are_volumes,
        targets=group.targets,
        target_bytes_per_s={operation: group.target_bytes_per_s(operation) for operation in OPERATIONS},
    )


def parts(filesystem: LustreFileSystem, contribution: Contribution) -> Sequence[PartGroup]:
    """Its servers, and the targets of all object storage servers, those of oss1 first."""
    groups = [PartGroup(role, "server", each.count) for role, each in filesystem.server_groups.items()]
    if contribution.targets:
        groups.insert(1, PartGroup("ost", "target", contribution.targets))
    return groups


def without(
    filesystem: LustreFileSystem, contribution: Contribution, dead: Sequence[DeadPart]
) -> DegradedRates:
    """What is left until something is mended.

    A spec describes no pair of servers that share disks, so no other server serves the targets of a dead one.
    New files are spread over the targets that are there. What cannot open files delivers nothing.
    """
    oss, mds, mgs = (_numbers(dead, role) for role in ("oss", "mds", "mgs"))
    disks = _numbers(dead, "ost")
    targets = contribution.targets
    gone = disks | _targets_of(oss, filesystem, targets)
    left = 1 - len(gone) / targets if targets else float(not oss)
    touched = affected_files_part(targets, contribution.stripes, len(gone)) if gone else 0.0
    fates: list[Fate] = []
    words: list[str] = []
    if gone:
        lost = bool(disks) or not contribution.outlives_server
        fates.append("lost" if lost else "unavailable")
        words.append(_targets_words(len(gone), targets, disks, lost=lost))
    metadata = filesystem.mds.count if filesystem.mds else 0
    if mds:
        fates.append("lost" if _on_instance_store(filesystem.mds) else "unavailable")
        touched = 1 - (1 - touched) * (1 - len(mds) / metadata)
        left = 0.0 if len(mds) == metadata else left
        words.append(
            "without a metadata server no file can be opened"
            if len(mds) == metadata
            else f"the directories of {len(mds)} of {metadata} metadata servers cannot be opened"
        )
    if mgs or (filesystem.mgs is None and 1 in mds):
        words.append("no node can mount it anew while its management server is dead")
    fate: Fate = "lost" if "lost" in fates else "unavailable" if fates else "kept"
    return DegradedRates(left, fate, touched, "; ".join(words))


def _numbers(dead: Sequence[DeadPart], role: str) -> set[int]:
    return {each.number for each in dead if each.role == role}


def _targets_of(servers: set[int], filesystem: LustreFileSystem, targets: int) -> set[int]:
    """The numbers of the targets that these object storage servers serve."""
    if filesystem.oss is None:
        return set()
    each = targets // filesystem.oss.count
    return {(server - 1) * each + place for server in servers for place in range(1, each + 1)}


def _targets_words(gone: int, targets: int, disks: set[int], *, lost: bool) -> str:
    head = f"{gone} of {targets} targets gone"
    if disks:
        return f"{head}: what was on a dead disk is lost, unless there is a backup"
    if lost:
        return f"{head}: they are disks of the server itself, and their files are lost with it"
    return f"{head}: their files wait until a server has their volumes again, as no partner serves them"


def _on_instance_store(servers: Servers | None) -> bool:
    return servers is not None and servers.disks is not None and servers.disks.type == INSTANCE_STORE


MOST_SERVERS = 64
"""Most OSS that the planner tries; MDS and clients of larger file systems deserve a plan by hand."""


@dataclass(frozen=True, slots=True)
class ObjectServer:
    """An instance type as OSS, without its volumes: USD per hour, bytes per second that reach files, OSTs."""

    instance: InstanceType
    usd_per_hour: float
    bytes_per_s: float
    most_targets: int


def object_servers(instances: Iterable[tuple[InstanceType, float]]) -> list[ObjectServer]:
    """Every server that no other beats in rate, targets and cost, cheapest first.

    `instances` come with their price per hour.
    """
    factor = file_share()
    by_name = sorted(instances, key=lambda each: each[0].name)
    servers = [ObjectServer(one, usd, server_limit(one) * factor, most_targets(one)) for one, usd in by_name]
    return unbeaten(
        (one.usd_per_hour, (one.bytes_per_s, one.most_targets), one) for one in servers if one.most_targets
    )


def file_share() -> float:
    """The part of what its limits let through that reaches files."""
    return min(efficiency("lustre", "write")[0], efficiency("lustre", "read")[0])


def most_targets(instance: InstanceType) -> int:
    """How many OSTs an OSS has the memory and the attachments for."""
    rule = server_rules()
    room = instance.memory_bytes / 1e9 - rule["oss_memory"]
    return max(0, min(most_volumes(instance), math.floor(room / rule["oss_memory_each_target"])))


@dataclass(frozen=True, slots=True)
class MetadataServer:
    """The metadata server of a planned Lustre, which is its management server, too."""

    instance: InstanceType
    usd_per_hour: float
    on_sale: VolumeMarket

    def volumes(self, capacity_bytes: int) -> VolumeSet | None:
        """Volumes for the metadata of so much data as the grid needs room for."""
        rule = server_rules()
        wanted = max(rule["mdt_share"] * capacity_bytes, rule["mdt_least"] * GIB)
        return self.on_sale.cheapest(0.0, wanted, most_volumes(self.instance))


@cache
def server_rules() -> dict[str, float]:
    """How large Lustre servers have to be, from data/server_sizes.csv, in the units of that file."""
    data = resources.files("gridwright.filesystems.lustre").joinpath("data/server_sizes.csv")
    text = data.read_text("utf-8")
    return {row["quantity"]: float(row["value"]) for row in csv.DictReader(text.splitlines())}


def metadata_server(
    instances: Iterable[tuple[InstanceType, float]], volumes: VolumeMarket
) -> MetadataServer | None:
    """The cheapest instance that is large enough, and the volumes on sale for it."""
    rule = server_rules()
    enough = [
        (usd, instance.name, instance)
        for instance, usd in instances
        if instance.cores >= rule["mds_cores"] and instance.memory_bytes >= rule["mds_memory"] * GIB
    ]
    if not enough:
        return None
    usd, _, instance = min(enough)
    return MetadataServer(instance, usd, volumes)


@dataclass(frozen=True, slots=True)
class LustreOffer:
    """Lustre on as many servers of one's own as a need takes, with one metadata server."""

    servers: list[ObjectServer]
    targets: VolumeMarket
    metadata: MetadataServer
    managed: bool = False
    durable: bool = True
    most: str = f"{MOST_SERVERS} servers"

    def smallest(self, bytes_per_s: float, capacity_bytes: int) -> SharedChoice | None:
        """The cheapest that delivers the rate and has the room."""
        found = self._servers(bytes_per_s, capacity_bytes)
        metadata = self.metadata.volumes(capacity_bytes)
        return None if found is None or metadata is None else self._choice(*found, metadata)

    def growing(
        self, bytes_per_s: float, room: int, room_later: int
    ) -> tuple[SharedChoice, SharedChoice] | None:
        """The cheapest for the later room, and the same servers with as many volumes that are smaller."""
        found = self._servers(bytes_per_s, room_later)
        metadata = self.metadata.volumes(room_later)
        if found is None or metadata is None:
            return None
        server, count, targets = found
        begun = self.targets.smaller(targets, bytes_per_s / file_share() / count, room / count)
        return self._choice(server, count, begun, metadata), self._choice(*found, metadata)

    def _choice(
        self, server: ObjectServer, count: int, targets: VolumeSet, metadata: VolumeSet
    ) -> SharedChoice:
        usd = count * (server.usd_per_hour + targets.usd_per_hour)
        return SharedChoice(
            "lustre",
            f"Lustre on {count} {server.instance.name}, each {targets}",
            min(server.bytes_per_s, targets.bytes_per_s * file_share()) * count,
            targets.capacity_bytes * count,
            usd + self.metadata.usd_per_hour + metadata.usd_per_hour,
            managed=False,
            durable=True,
            plain={
                "type": "lustre",
                "oss": {"instance": server.instance.name, "count": count, "disks": targets.plain()},
                "mds": {"instance": self.metadata.instance.name, "count": 1, "disks": metadata.plain()},
            },
            servers=count + 1,
        )

    def _servers(self, bytes_per_s: float, capacity_bytes: int) -> tuple[ObjectServer, int, VolumeSet] | None:
        """The cheapest number of servers of one type, with the volumes of each; None where none will do.

        Branch and bound: in the order of what servers cost, until that and the least that volumes cost are
        together above the best.
        """
        of_volumes = bytes_per_s / file_share()
        floor = self.targets.least_usd(of_volumes, capacity_bytes, math.inf)
        open_: list[tuple[float, int, int]] = []
        for number, server in enumerate(self.servers):
            by_rate = math.ceil(bytes_per_s / server.bytes_per_s * (1 - 1e-12))
            by_room = math.ceil(capacity_bytes / self.targets.largest_bytes / server.most_targets)
            fewest = max(1, by_rate, by_room)
            heappush(open_, (fewest * server.usd_per_hour, fewest, number))
        best: tuple[float, ObjectServer, int, VolumeSet] | None = None
        while open_ and (best is None or open_[0][0] + floor < best[0]):
            usd, count, number = heappop(open_)
            server = self.servers[number]
            if count > MOST_SERVERS:
                continue
            heappush(open_, ((count + 1) * server.usd_per_hour, count + 1, number))
            if best is not None:
                most = count * server.most_targets
                if usd + self.targets.least_usd(of_volumes, capacity_bytes, most) >= best[0]:
                    continue
            targets = self.targets.cheapest(of_volumes / count, capacity_bytes / count, server.most_targets)
            if targets is not None and (best is None or usd + count * targets.usd_per_hour < best[0]):
                best = usd + count * targets.usd_per_hour, server, count, targets
        return None if best is None else best[1:]


def lustre_offers(on_sale: OnSale) -> list[LustreOffer]:
    """The one offer, where servers, volumes and a metadata server are on sale."""
    metadata = metadata_server(on_sale.servers, on_sale.volumes.not_sequential())
    servers = object_servers(on_sale.servers)
    if metadata is None or not servers or not on_sale.volumes.volumes:
        return []
    return [LustreOffer(servers, on_sale.volumes, metadata)]
