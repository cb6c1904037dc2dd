"""What the disks of one node or server deliver: instance stores and block volumes, striped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gridwright.catalog import InstanceStore, InstanceType
from gridwright.errors import GridwrightError
from gridwright.filesystems.resources import Operation
from gridwright.filesystems.site import Site
from gridwright.spec.filesystem import INSTANCE_STORE, Disks
from gridwright.units import Bytes


@dataclass(frozen=True, slots=True)
class DiskRates:
    """Rates of all the disks of one machine together, in bytes per second."""

    steady: Mapping[Operation, float]
    burst: Mapping[Operation, float] | None
    burst_s: float | None
    capacity_bytes: int
    count: int
    what: str
    source: str
    are_volumes: bool
    usd_per_hour: float | None


def disk_rates(disks: Disks, instance: InstanceType, site: Site, *path: str) -> DiskRates | str:
    """The rates of `disks` in or at one `instance`, or in words why they are not known.

    Problems with the fields below `path` are noted at the site.
    """
    if disks.type == INSTANCE_STORE:
        return _instance_store(disks, instance, site, *path)
    return _volumes(disks, instance, site, *path)


def store_rates(store: InstanceStore) -> dict[Operation, float] | None:
    """Listed rates of a whole instance store, in bytes per second; None where none are known."""
    if store.write_bytes_per_s is None:
        return None
    # Flash reads at least as fast as it writes; some lists have only what is guaranteed for writes.
    read = store.read_bytes_per_s or store.write_bytes_per_s
    return {"write": store.write_bytes_per_s, "read": read}


def _instance_store(disks: Disks, instance: InstanceType, site: Site, *path: str) -> DiskRates | str:
    store = instance.instance_store
    if store is None:
        site.report(
            (*path, "type"),
            f"{instance.name} has no instance store",
            "choose a type with one (gridwright catalog list shows them), or block volumes, such as gp3",
        )
        return "it has no disks"
    for name in ("size", "iops", "throughput"):
        if getattr(disks, name) is not None:
            site.report((*path, name), f"disks of an instance store have their own {name}", "remove the line")
    count = disks.count or store.disks
    if count > store.disks:
        site.report(
            (*path, "count"),
            f"{instance.name} has {store.disks} disks, and {count} are asked for",
            f"write {store.disks}, or remove the line for all",
        )
        count = store.disks
    rates = store_rates(store)
    if rates is None:
        return f"no listed rate is known for the instance store of {instance.name}"
    return DiskRates(
        {operation: rate * count / store.disks for operation, rate in rates.items()},
        None,
        None,
        count * store.disk_bytes,
        count,
        f"{count} {'NVMe ' if store.nvme else ''}{store.medium.upper()} of {instance.name}",
        store.source or "",
        are_volumes=False,
        usd_per_hour=0.0,
    )


def _volumes(disks: Disks, instance: InstanceType, site: Site, *path: str) -> DiskRates | str:
    problems = len(site.problems)
    with site.field(*path, "type"):
        site.catalog.volume(disks.type, site.spec.provider)
    if disks.size is None:
        site.report((*path, "size"), "size is missing", "write the size of each volume, such as 2 TiB")
    if len(site.problems) > problems or disks.size is None:
        return "its volumes are not described"
    volume = site.catalog.volume(disks.type, site.spec.provider)
    bought = disks.throughput.bytes_per_s if disks.throughput else None
    with site.field(*path):
        limits = volume.limits(disks.size, disks.iops, bought)
    if len(site.problems) > problems:
        return "its volumes are not described"
    try:
        usd: float | None = volume.usd_per_hour(disks.size, site.region, disks.iops, bought)
    except GridwrightError:
        usd = None
    count = disks.count or 1
    burst = limits.burst_bytes_per_s
    return DiskRates(
        {"write": limits.steady_bytes_per_s * count, "read": limits.steady_bytes_per_s * count},
        {"write": burst * count, "read": burst * count} if burst else None,
        limits.burst_s,
        count * disks.size,
        count,
        f"{count} {disks.type} volume{'s'[: count != 1]} of {Bytes(disks.size)}",
        "; ".join(sorted({str(fact.source) for fact in volume.facts.values()})[:1]),
        are_volumes=True,
        usd_per_hour=None if usd is None else usd * count,
    )
