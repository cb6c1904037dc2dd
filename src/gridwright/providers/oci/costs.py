"""What a grid on OCI costs beside its nodes and file systems, by the hour.

The VCN, its gateways, security groups and the bastion service cost nothing (Oracle's price list, networking);
traffic out of the region, and the few MB of bundles in the bucket, go by use and are not counted.
"""

from __future__ import annotations

from collections.abc import Iterator

from gridwright.catalog import Catalog
from gridwright.errors import GridwrightError
from gridwright.filesystems.resources import Cost
from gridwright.providers.oci.section import Oci
from gridwright.spec.model import GridSpec
from gridwright.units import Bytes

BOOT_VOLUME = "balanced"
"""Type of the volume that each machine starts from: what OCI makes by default (OCI, boot volumes)."""
BOOT_VOLUME_GB = 50
"""Its size: the smallest, which the templates state."""
_GIB = 2**30


def costs_beside(spec: GridSpec, catalog: Catalog) -> tuple[Cost, ...]:
    """Lines of the bill for what section oci of the spec brings; none without that section."""
    built = [each for each in spec.filesystems.values() if each.is_built]
    servers = sum(group.count for each in built for group in each.server_groups.values())
    return costs_of(spec, catalog, spec.node_count() + servers)


def costs_of(spec: GridSpec, catalog: Catalog, machines: int) -> tuple[Cost, ...]:
    """The same for a grid with so many nodes and servers of file systems, as the search asks it."""
    oci = spec.section(Oci)
    return () if oci is None else tuple(_lines(spec, oci, catalog, machines))


def _lines(spec: GridSpec, oci: Oci, catalog: Catalog, machines: int) -> Iterator[Cost]:
    region = spec.region or ""
    beside = {"bastion host": oci.login} if oci.bastion == "host" else {}
    if spec.scheduler.needs_head_node:
        beside["grid control server"] = oci.head
    for what, shape in beside.items():
        yield Cost(f"{what} {shape}", _machine(catalog, shape, region), shape)
    count = machines + len(beside)
    for name, group in spec.machines.items():
        usd = _machine(catalog, group.instance or "", region)
        what = f"{group.count} x {group.instance} of machines {name}"
        yield Cost(what, None if usd is None else usd * group.count, group.instance or "")
        count += group.count
    try:
        boot: float | None = catalog.volume(BOOT_VOLUME, spec.provider).usd_per_hour(
            BOOT_VOLUME_GB * _GIB, region
        )
    except GridwrightError:
        boot = None
    size = Bytes(BOOT_VOLUME_GB * _GIB)
    what = f"boot volumes of {count} machines, {BOOT_VOLUME} of {size}"
    yield Cost(what, None if boot is None else boot * count)


def _machine(catalog: Catalog, name: str, region: str) -> float | None:
    """The price of one machine; None where it, or the shape, is not known: `check` says so."""
    try:
        return catalog.instance_usd_per_hour(name, region)
    except GridwrightError:
        return None
