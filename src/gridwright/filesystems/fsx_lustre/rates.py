"""Amazon FSx for Lustre in a prediction: throughput bought by capacity and tier, losses, offers."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from gridwright.catalog import Catalog, ManagedDeployment
from gridwright.catalog.facts import Fact
from gridwright.errors import Finding, GridwrightError
from gridwright.filesystems.fsx_lustre.model import FsxLustreFileSystem
from gridwright.filesystems.offers import GIB, SharedChoice
from gridwright.filesystems.resources import (
    OPERATIONS,
    Contribution,
    Cost,
    DeadPart,
    DegradedRates,
    Operation,
    PartGroup,
    Resource,
    Route,
    Use,
    affected_files_part,
)
from gridwright.filesystems.site import Site
from gridwright.spec.model import GridSpec
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
        operation: Route((*site.nodes.network(operation), uses[operation])) for operation in OPERATIONS
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


def _of_one_target(filesystem: FsxLustreFileSystem, delivered: Use) -> float:
    """Bytes per second: the service spreads what is bought over its targets alike."""
    return delivered.resource.bytes_per_s / delivered.coefficient / (filesystem.capacity // TARGET_BYTES)


def parts(contribution: Contribution) -> Sequence[PartGroup]:
    """Its targets. AWS does not say how many of them one of its file servers has."""
    return (PartGroup("ost", "target", contribution.targets),) if contribution.targets else ()


def without(
    filesystem: FsxLustreFileSystem, contribution: Contribution, dead: Sequence[DeadPart]
) -> DegradedRates:
    """What is left until the service has replaced the file server; files of a scratch do not come back."""
    gone, targets = len({each.number for each in dead}), contribution.targets
    durable = contribution.outlives_server
    words = (
        "clients wait until the service has replaced the file server"
        if durable
        else f"a {filesystem.deployment} keeps one copy: files with a stripe there are lost"
    )
    return DegradedRates(
        1 - gone / targets,
        "unavailable" if durable else "lost",
        affected_files_part(targets, contribution.stripes, gone),
        f"{gone} of {targets} targets gone: {words}",
    )


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


_CAPACITY = "capacity_per_account_and_region"
_TIB_OF_AWS = 1000 * 2**30
"""AWS sells FSx for Lustre in GiB, and calls 1000 of them a TiB."""


def account_findings(name: str, spec: GridSpec, limits: Mapping[str, Fact]) -> Iterator[Finding]:
    """A warning at the file system with which the grid's capacity passes the limit; `limits` by their names.

    `up` on AWS asks for the quota that the account really has.
    """
    limit = limits.get(_CAPACITY)
    if limit is None:
        return
    most, total = limit.value * _TIB_OF_AWS, 0
    for each, filesystem in spec.filesystems.items():
        if not isinstance(filesystem, FsxLustreFileSystem):
            continue
        before, total = total, total + filesystem.capacity
        if each == name and before <= most < total:
            yield Finding(
                "warning",
                "account-limit",
                f"FSx for Lustre of this grid has {Bytes(total)}, and an account may have "
                f"{limit.value:g} TiB in a region until it asks for more "
                f"({limit.source.text}, {limit.source.date})",
                "Ask AWS for more before the grid is made: Service Quotas, Amazon FSx; gridwright up --check "
                "reads what the account has",
            )
