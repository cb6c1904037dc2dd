"""What a grid on AWS costs beside its nodes and file systems, by the hour.

Traffic, requests, alarms, logs and what a bucket holds are not counted: they go by use.
"""

from __future__ import annotations

from collections.abc import Iterator

from gridwright.catalog import Catalog
from gridwright.errors import GridwrightError
from gridwright.filesystems.resources import Cost
from gridwright.providers.aws.section import Aws
from gridwright.spec.model import GridSpec
from gridwright.units import Bytes

ROOT_VOLUME = "gp3"
"""Type of the volume that each machine starts from; the templates have it from here."""
ROOT_VOLUME_SIZE = Bytes(50 * 2**30)
"""Its size: a system, Slurm, tools, and logs."""


def costs_beside(spec: GridSpec, catalog: Catalog) -> tuple[Cost, ...]:
    """Lines of the bill for what section aws of the spec brings; none without that section."""
    built = [each for each in spec.filesystems.values() if each.is_built]
    servers = sum(group.count for each in built for group in each.server_groups.values())
    return costs_of(spec, catalog, spec.node_count() + servers, has_lustre=bool(built))


def costs_of(spec: GridSpec, catalog: Catalog, machines: int, *, has_lustre: bool) -> tuple[Cost, ...]:
    """The same for a grid with so many nodes and servers of file systems, as the search asks it."""
    aws = spec.section(Aws)
    return () if aws is None else tuple(_lines(spec, aws, catalog, machines, has_lustre=has_lustre))


def _lines(spec: GridSpec, aws: Aws, catalog: Catalog, machines: int, *, has_lustre: bool) -> Iterator[Cost]:
    region = spec.region or ""
    hourly = catalog.services.usd
    beside = {"login node": aws.login.instance}
    if spec.scheduler.needs_head_node:
        beside["head node"] = aws.head.instance
    for what, instance in beside.items():
        yield Cost(f"{what} {instance}", _instance(catalog, instance, region), instance)
    everything = machines + len(beside)
    size = f"{ROOT_VOLUME} of {ROOT_VOLUME_SIZE}"
    root = _root_volume(catalog, region)
    yield Cost(f"root volumes of {everything} machines, {size}", None if root is None else root * everything)
    if aws.proxy is None:
        address = hourly("public-address", region)
        yield Cost("NAT gateway", hourly("nat-gateway", region))
        yield Cost(
            "2 public addresses, of login node and NAT gateway", None if address is None else 2 * address
        )
    if aws.certificate is not None and has_lustre:
        yield Cost("load balancer of the health page", hourly("load-balancer", region))


def _instance(catalog: Catalog, name: str, region: str) -> float | None:
    """The price of one instance; None where it, or the type, is not known: `check` says so."""
    try:
        return catalog.instance_usd_per_hour(name, region)
    except GridwrightError:
        return None


def _root_volume(catalog: Catalog, region: str) -> float | None:
    try:
        return catalog.volume(ROOT_VOLUME).usd_per_hour(int(ROOT_VOLUME_SIZE), region)
    except GridwrightError:
        return None
