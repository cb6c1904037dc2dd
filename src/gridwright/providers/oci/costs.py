"""What a grid on OCI costs beside its nodes and file systems, by the hour.

The VCN, its gateways, security groups and the bastion service cost nothing (Oracle's price list, networking);
traffic out of the region, and the few MB of bundles in the bucket, go by use and are not counted.
"""

from __future__ import annotations

from collections.abc import Iterator

from gridwright.catalog import Catalog
from gridwright.errors import GridwrightError
from gridwright.filesystems.resources import Cost
from gridwright.providers.cloud_machines import machine_costs
from gridwright.providers.oci.section import Oci
from gridwright.spec.model import GridSpec
from gridwright.units import Bytes

BOOT_VOLUME = "balanced"
"""Type of the volume that each machine starts from: what OCI makes by default (OCI, boot volumes)."""
BOOT_VOLUME_GB = 50
"""Its size: the smallest, which the templates state."""
_GIB = 2**30


def costs_of(spec: GridSpec, catalog: Catalog, machines: int) -> tuple[Cost, ...]:
    """Lines of the bill for what section oci brings to so many nodes and servers; none without it."""
    oci = spec.section(Oci)
    return () if oci is None else tuple(_lines(spec, oci, catalog, machines))


def _lines(spec: GridSpec, oci: Oci, catalog: Catalog, machines: int) -> Iterator[Cost]:
    own = {"bastion host": oci.login} if oci.bastion == "host" else {}
    if spec.scheduler.needs_head_node:
        own["grid control server"] = oci.head
    yield from machine_costs(spec, catalog, own)
    count = machines + len(own) + sum(group.count for group in spec.machines.values())
    try:
        boot: float | None = catalog.volume(BOOT_VOLUME, spec.provider).usd_per_hour(
            BOOT_VOLUME_GB * _GIB, spec.region or ""
        )
    except GridwrightError:
        boot = None
    size = Bytes(BOOT_VOLUME_GB * _GIB)
    what = f"boot volumes of {count} machines, {BOOT_VOLUME} of {size}"
    yield Cost(what, None if boot is None else boot * count)
