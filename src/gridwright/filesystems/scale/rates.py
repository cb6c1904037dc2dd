"""IBM Spectrum Scale on NSD servers of one's own: every file is spread over all of their disks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from gridwright.errors import Finding
from gridwright.filesystems.disks import DiskRates, disk_rates
from gridwright.filesystems.resources import OPERATIONS, Contribution, Cost, Route
from gridwright.filesystems.scale.administration.desired import SYSTEM_POOL
from gridwright.filesystems.scale.model import ScaleFileSystem
from gridwright.filesystems.scale.placement import filled_pools
from gridwright.filesystems.servers import ServerGroup, server_costs, server_group
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
