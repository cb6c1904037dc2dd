"""What a grid on AWS costs beside its nodes and file systems, by the hour.

Traffic, requests, alarms, logs and what the bucket of bundles holds are not counted: they go by use; requests
of repositories say `predict --repository` and its --changed. Objects of repositories are counted, where the
spec says how much their library holds; traffic between S3 and machines of the same region is free, and so are
associations and tasks of FSx (Amazon S3 and FSx for Lustre pricing).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gridwright.catalog import Catalog
from gridwright.errors import GridwrightError
from gridwright.filesystems.resources import Cost
from gridwright.providers.aws.section import Aws
from gridwright.providers.cloud import machine_costs
from gridwright.spec.linked import linked_directories
from gridwright.spec.model import GridSpec
from gridwright.units import HOURS_PER_MONTH, Bytes

ROOT_VOLUME = "gp3"
"""Type of the volume that each machine starts from; the templates have it from here."""
ROOT_VOLUME_SIZE = Bytes(50 * 2**30)
"""Its size: a system, Slurm, tools, and logs."""
_OBJECTS = "s3-standard"
FREE_STARTS = 14_000_000
"""Invocations of EventBridge Scheduler that a month has for nothing in each region; a million more cost about
1 USD (price list AWSEvents of 2024-10-01, ScheduledInvocation)."""


def costs_of(spec: GridSpec, catalog: Catalog, machines: int) -> tuple[Cost, ...]:
    """Lines of the bill for what section aws brings to so many nodes and servers; none without it."""
    aws = spec.section(Aws)
    return () if aws is None else tuple(_lines(spec, aws, catalog, machines))


def costs_while_stopped(spec: GridSpec, catalog: Catalog, retained_machines: int) -> tuple[Cost, ...]:
    """The same of a grid that is stopped: root volumes of the machines that keep them, and the network."""
    aws = spec.section(Aws)
    if aws is None:
        return ()
    return (
        _root_volumes(catalog, spec.region or "", retained_machines),
        *_disks_beside(spec, catalog, stopped=True),
        *_network(aws, catalog, spec.region or ""),
        *_objects(spec, catalog),
        *_starts(spec),
    )


def _lines(spec: GridSpec, aws: Aws, catalog: Catalog, machines: int) -> Iterator[Cost]:
    region = spec.region or ""
    own = {"login node": aws.login.instance}
    if spec.scheduler.needs_head_node:
        own["head node"] = aws.head.instance
    yield from machine_costs(spec, catalog, own)
    yield _root_volumes(catalog, region, machines + len(own))
    yield from _disks_beside(spec, catalog)
    yield from _network(aws, catalog, region)
    yield from _objects(spec, catalog)
    yield from _starts(spec)


def _starts(spec: GridSpec) -> Iterator[Cost]:
    """Tasks that EventBridge starts by time: within what is free, so that other regions need no price."""
    month_s = HOURS_PER_MONTH * 3600
    for each in linked_directories(spec).values():
        periods = [when.period_s for when in (each.export, each.names) if when.is_timed]
        starts = sum(month_s / period for period in periods if period)
        if starts:
            left_out = ", without requests of S3" if each.export.is_timed else ""
            yield Cost(
                f"{starts:.0f} starts a month of tasks of repository {each.name}, of the first "
                f"{FREE_STARTS // 10**6} million of EventBridge Scheduler{left_out}",
                0.0,
            )


def _objects(spec: GridSpec, catalog: Catalog) -> Iterator[Cost]:
    """What repositories keep in S3: all of their library at most, in the class that exports write."""
    for library, found in spec.libraries.items():
        names = [
            name for name, each in spec.repositories.items() if each.library == library and not each.endpoint
        ]
        if names and found.capacity is not None:
            usd = catalog.services.usd(_OBJECTS, spec.region or "")
            of = "repository" if len(names) == 1 else "repositories"
            month = None if usd is None else usd * int(found.capacity) / 2**30
            yield Cost(
                f"objects of {of} {', '.join(names)}, {Bytes(found.capacity)} of S3 Standard at most",
                None if month is None else month / HOURS_PER_MONTH,
            )


def _root_volumes(catalog: Catalog, region: str, machines: int) -> Cost:
    root = _root_volume(catalog, region)
    size = f"{ROOT_VOLUME} of {ROOT_VOLUME_SIZE}"
    return Cost(f"root volumes of {machines} machines, {size}", None if root is None else root * machines)


def _disks_beside(spec: GridSpec, catalog: Catalog, *, stopped: bool = False) -> Iterator[Cost]:
    """Disks of machines beside the nodes; a machine that is replaced has none while the grid is stopped."""
    for name, group in spec.machines.items():
        if stopped and group.replace:
            continue
        size = group.disk or ROOT_VOLUME_SIZE
        usd = _root_volume(catalog, spec.region or "", size)
        what = f"disks of {group.count} machines {name}, {ROOT_VOLUME} of {size}"
        yield Cost(what, None if usd is None else usd * group.count)


def _network(aws: Aws, catalog: Catalog, region: str) -> Iterator[Cost]:
    hourly = catalog.services.usd
    address = hourly("public-address", region)
    if aws.makes_way_out:
        yield Cost("NAT gateway", hourly("nat-gateway", region))
        yield Cost(
            "2 public addresses, of login node and NAT gateway", None if address is None else 2 * address
        )
    elif aws.has_public_login:
        yield Cost("public address of the login node", address)
    if aws.certificate is not None:
        yield Cost("load balancer of the console", hourly("load-balancer", region))


def _root_volume(catalog: Catalog, region: str, size: Bytes = ROOT_VOLUME_SIZE) -> float | None:
    try:
        return catalog.volume(ROOT_VOLUME).usd_per_hour(int(size), region)
    except GridwrightError:
        return None


# The lines of a bill, their sum, and how they are told.


def total(lines: tuple[Cost, ...]) -> float | None:
    """The sum of a bill; None where a price is missing."""
    prices = [each.usd_per_hour for each in lines]
    return None if None in prices else sum(each for each in prices if each is not None)


def bill_lines(
    costs: tuple[Cost, ...], what: str = "It costs", *, least: float | None = None
) -> Iterator[str]:
    """The sum of a bill in one line, and what has no price; `least` where nodes come and go."""
    hourly = total(costs)
    if hourly is not None and least is not None:
        yield f"{what} {least:.2f} USD an hour with the nodes always on, {hourly:.2f} with all of them"
    elif hourly is not None:
        yield f"{what} {hourly:.2f} USD an hour, {hourly * HOURS_PER_MONTH:.0f} USD a month"
    for each in costs:
        if each.usd_per_hour is None:
            yield f"no price is known for: {each.what}"


def bill_values(costs: tuple[Cost, ...]) -> dict[str, Any]:
    """The bill in a document."""
    hourly = total(costs)
    return {
        "currency": "USD",
        "usd_per_hour": hourly,
        "lines": [{"what": each.what, "usd_per_hour": each.usd_per_hour} for each in costs],
    }


def retained_cost_lines(usd_per_hour: float | None) -> Iterator[str]:
    """One line with the price of what is retained, to stand below its list."""
    if usd_per_hour is None:
        yield "  what that costs is not known here"
    else:
        yield f"  at {usd_per_hour:.2f} USD an hour, {usd_per_hour * HOURS_PER_MONTH:.0f} USD a month"
