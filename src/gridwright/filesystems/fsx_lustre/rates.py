"""Amazon FSx for Lustre: throughput bought by capacity and tier."""

from __future__ import annotations

import csv
from functools import cache
from importlib import resources

from gridwright.errors import GridwrightError
from gridwright.filesystems.fsx_lustre.account import account_findings
from gridwright.filesystems.fsx_lustre.model import FsxLustreFileSystem
from gridwright.filesystems.resources import (
    OPERATIONS,
    Contribution,
    Cost,
    Operation,
    Resource,
    Route,
    Use,
    striped,
)
from gridwright.filesystems.site import Site
from gridwright.units import HOURS_PER_MONTH, Bytes, format_rate

TIB = 2**40
TARGET_BYTES = 1200 * 2**30
"""Capacity of one OST (002.fs.ost_size: 1.17 TiB, which is 1200 GiB)."""


def contribute(name: str, filesystem: FsxLustreFileSystem, site: Site) -> Contribution:
    """What the service delivers to all nodes. Problems with the spec are noted at the site."""
    path = ("filesystems", name)
    problems = len(site.problems)
    deployment = site.catalog.deployment(filesystem.deployment)
    if site.spec.provider != deployment.provider:
        site.report(
            (*path, "type"),
            f"FSx for Lustre is a service of AWS, and the provider is {site.spec.provider}",
            "choose another type of file system, or provider: aws",
        )
    tier = float(filesystem.throughput or min(deployment.tiers))
    with site.field(*path):
        deployment.tier(tier)
    with site.field(*path):
        deployment.check_capacity(filesystem.capacity)
    if len(site.problems) > problems:
        return Contribution({}, unknown="its size or throughput is not on offer")
    label = f"FSx for Lustre {filesystem.deployment} of {Bytes(filesystem.capacity)}"
    label += f" at {format_rate(tier)} per TiB"
    try:
        usd: float | None = deployment.usd_per_hour(filesystem.capacity, tier, site.region)
    except GridwrightError:
        usd = None
    rates = deployment.tier(tier)
    burst = deployment.burst_bytes_per_s_per_tib(tier)
    tib = filesystem.capacity / TIB
    delivered = Resource(
        f"{name}.throughput",
        label,
        "grid",
        tib * tier,
        str(rates.source),
        burst_bytes_per_s=tib * burst if burst else None,
        nature="server",
    )
    # Where less is listed for writes, each byte written takes more of the same disks.
    uses: dict[Operation, Use] = {
        "write": Use(delivered, tier / (rates.disk_write or tier)),
        "read": Use(delivered),
    }
    routes: dict[Operation, Route] = {
        operation: _route(filesystem, uses[operation], operation, site) for operation in OPERATIONS
    }
    return Contribution(
        routes,
        (Cost(label, usd), *_metadata_cost(filesystem, site)),
        capacity_bytes=int(filesystem.capacity),
        outlives_server=deployment.durable,
        targets=int(filesystem.capacity // TARGET_BYTES),
        target_bytes_per_s={each: _of_one_target(filesystem, uses[each]) for each in OPERATIONS},
        findings=tuple(account_findings(name, site.spec, deployment.limits)),
    )


def _metadata_cost(filesystem: FsxLustreFileSystem, site: Site) -> tuple[Cost, ...]:
    """Metadata operations bought beyond those that come with the capacity; none where none are."""
    if not isinstance(filesystem.metadata, int):
        return ()
    bought = filesystem.metadata - included_metadata(filesystem.capacity)
    if bought <= 0:
        return ()
    usd = site.catalog.services.usd("fsx-metadata", site.region)
    what = f"{bought:,} metadata operations/s beyond those included"
    return (Cost(what, None if usd is None else usd * bought / HOURS_PER_MONTH),)


@cache
def _metadata_steps() -> tuple[tuple[int, int, int], ...]:
    text = (
        resources.files("gridwright.filesystems.fsx_lustre")
        .joinpath("data/included_metadata.csv")
        .read_text("utf-8")
    )
    return tuple(
        (int(row["from_gib"]), int(row["iops"]), int(row["for_each_gib"] or 0))
        for row in csv.DictReader(text.splitlines())
    )


def included_metadata(capacity_bytes: int) -> int:
    """Metadata operations per second that come with a capacity."""
    gib = capacity_bytes // 2**30
    found = 0
    for least, iops, each in _metadata_steps():
        if gib >= least:
            found = iops * -(-gib // each) if each else iops
    return found


def _route(filesystem: FsxLustreFileSystem, delivered: Use, operation: Operation, site: Site) -> Route:
    uses = (*site.nodes.network(operation), delivered)
    targets = int(filesystem.capacity // TARGET_BYTES)
    return striped(uses, filesystem.stripe_count, targets, _of_one_target(filesystem, delivered))


def _of_one_target(filesystem: FsxLustreFileSystem, delivered: Use) -> float:
    """Bytes per second: the service spreads what is bought over its targets alike."""
    return delivered.resource.bytes_per_s / delivered.coefficient / (filesystem.capacity // TARGET_BYTES)
