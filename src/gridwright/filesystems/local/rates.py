"""Local file systems: a directory on disks of the node itself, or on volumes attached to it."""

from __future__ import annotations

from gridwright.filesystems.resources import (
    OPERATIONS,
    Contribution,
    Cost,
    Nature,
    Operation,
    Resource,
    Route,
    Use,
)
from gridwright.filesystems.servers import DiskRates, bandwidth_burst, disk_rates
from gridwright.filesystems.site import Site, shares_network, stated_routes, volume_limit
from gridwright.spec.filesystem import Delivery, Disks
from gridwright.units import format_rate


def contribute(name: str, described: Disks | None, delivers: Delivery | None, site: Site) -> Contribution:
    """What each node's disks deliver. Problems with the spec are noted at the site."""
    instance = site.nodes.instance
    disks: DiskRates | str = "nothing is known of its disks"
    if described is not None and instance is not None:
        disks = disk_rates(described, instance, site, "filesystems", name, "disks")
    elif described is not None and delivers is None and not site.spec.is_cloud:
        site.report(
            ("filesystems", name, "disks"),
            f"disks are looked up in the catalogue of a cloud, and provider {site.spec.provider} has none",
            "write delivers: {write: 500 MB/s, read: 500 MB/s} with what the disks deliver",
        )
    stated = stated_routes(f"{name}.disks", "disks of a node", delivers)
    if isinstance(disks, str):
        return Contribution(
            stated, outlives_node=False, unknown="" if len(stated) == len(OPERATIONS) else disks
        )
    listed = {operation: _route(name, disks, operation, site) for operation in OPERATIONS}
    return Contribution(
        listed | stated,
        _costs(disks, site),
        capacity_bytes=disks.capacity_bytes * site.nodes.count,
        outlives_node=disks.are_volumes,
    )


def _route(name: str, disks: DiskRates, operation: Operation, site: Site) -> Route:
    part = "volumes" if disks.are_volumes else f"disks-{operation}"
    steady = disks.steady[operation]
    burst = disks.burst[operation] if disks.burst else None
    what = f"{disks.what} at each node ({format_rate(steady)})"
    nature: Nature = "volume" if disks.are_volumes else "instance store"
    resource = Resource(f"{name}.{part}", what, "node", steady, disks.source, burst, disks.burst_s, nature)
    return Route((*_volume_path(disks, operation, site), Use(resource)))


def _volume_path(disks: DiskRates, operation: Operation, site: Site) -> tuple[Use, ...]:
    """The way from a node to its volumes: bandwidth of its own, or the network that it has for all."""
    instance = site.nodes.instance
    if not disks.are_volumes or instance is None or instance.ebs is None:
        return ()
    network = site.nodes.network(operation) if shares_network(instance) else ()
    steady, peak = volume_limit(instance), instance.ebs.maximum_bytes_per_s
    if steady is None:
        return network
    what = f"volume bandwidth of a node ({instance.name}, {format_rate(steady)})"
    burst, lasting = peak if peak > steady else None, bandwidth_burst(instance)
    source = f"{instance.source}; its burst: {lasting.source}" if lasting else str(instance.source)
    return (
        *network,
        Use(
            Resource(
                "node.volume-bandwidth",
                what,
                "node",
                steady,
                source,
                burst,
                lasting.burst_s if lasting else None,
                nature="volume",
                refill_s=lasting.refill_s if lasting else None,
            )
        ),
    )


def _costs(disks: DiskRates, site: Site) -> tuple[Cost, ...]:
    if not disks.are_volumes:
        return ()
    usd = disks.usd_per_hour
    return (Cost(f"{disks.what} at each node", None if usd is None else usd * site.nodes.count),)
