"""What disks of a machine deliver, and what servers with such disks bring to the routes of a file system."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

from gridwright.catalog import InstanceStore, InstanceType
from gridwright.errors import GridwrightError
from gridwright.filesystems.resources import Cost, Nature, Operation, Resource, Use
from gridwright.filesystems.site import Site, shares_network, steady_network, volume_limit
from gridwright.spec.filesystem import INSTANCE_STORE, Disks, Servers
from gridwright.units import Bytes, format_rate


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


@dataclass(frozen=True, slots=True)
class BandwidthBurst:
    """Above its baseline, an instance passes its listed maximum for `burst_s` seconds.

    `refill_s`: so long it takes at least until it can do so again, with nothing above the baseline meanwhile.
    Where 30 minutes are promised in 24 hours, that is the rest of the 24 hours.
    """

    burst_s: float
    refill_s: float
    source: str


@cache
def _bursts() -> dict[str, BandwidthBurst]:
    text = resources.files("gridwright.filesystems").joinpath("data/bandwidth-bursts.csv").read_text("utf-8")
    return {
        row["provider"]: BandwidthBurst(
            float(row["burst_s"]), float(row["refill_s"]), f"{row['source']}, {row['date']}"
        )
        for row in csv.DictReader(text.splitlines())
    }


def bandwidth_burst(instance: InstanceType) -> BandwidthBurst | None:
    """Return the burst of its bandwidth to volumes; None where it has none, or no fact says how long."""
    ebs = instance.ebs
    if ebs is None or not ebs.dedicated or ebs.maximum_bytes_per_s <= ebs.baseline_bytes_per_s:
        return None
    return _bursts().get(instance.provider)


@cache
def _factors() -> dict[tuple[str, str], tuple[float, str]]:
    text = resources.files("gridwright.filesystems").joinpath("data/efficiency.csv").read_text("utf-8")
    return {
        (row["kind"], row["operation"]): (float(row["factor"]), row["source"])
        for row in csv.DictReader(text.splitlines())
    }


def efficiency(kind: str, operation: Operation) -> tuple[float, str]:
    """The part of their listed limits that servers of this kind deliver, and its source; 1 if unknown."""
    return _factors().get((kind, operation), (1.0, ""))


def disks_words(disks: Disks) -> str:
    """`8 x 2 TiB gp3`, or `instance store (4 disks)`."""
    if disks.type == INSTANCE_STORE:
        return "instance store" if disks.count is None else f"instance store ({disks.count} disks)"
    words = [f"{disks.count or 1} x {disks.size} {disks.type}" if disks.size else disks.type]
    words += [f"{disks.iops} IOPS"] if disks.iops else []
    words += [str(disks.throughput)] if disks.throughput else []
    return " ".join(words)


def servers_words(role: str, servers: Servers) -> str:
    """`on 4 OSS c5n.9xlarge with 8 x 2 TiB gp3 each`."""
    text = f"on {servers.count} {role.upper()} {servers.instance}"
    return text if servers.disks is None else f"{text} with {disks_words(servers.disks)} each"


@dataclass(frozen=True, slots=True)
class ServerGroup:
    """Servers of one role with their disks, as the catalogue has them."""

    filesystem: str
    kind: str
    role: str
    servers: Servers
    instance: InstanceType
    disks: DiskRates

    def uses(self, operation: Operation) -> tuple[Use, ...]:
        """What each byte of a library takes of all servers of the group together."""
        return (*self._network(operation), *self._volume_path(operation), self._disks(operation))

    def _resource(
        self,
        part: str,
        what: str,
        operation: Operation,
        steady: float,
        burst: float,
        source: str,
        nature: Nature,
    ) -> Resource:
        """A part that every server has, of all servers together, at the efficiency of the kind."""
        count = self.servers.count
        factor, why = efficiency(self.kind, operation)
        scaled = "" if factor == 1 else f"; {factor:.0%} of it reaches files"
        return Resource(
            f"{self.filesystem}.{self.role}.{part}",
            f"{what} of {count} {self.role.upper()}{scaled}",
            "grid",
            steady * count * factor,
            f"{source}; of which reaches files: {why}" if why else source,
            burst_bytes_per_s=burst * count * factor if burst > steady else None,
            nature=nature,
        )

    @property
    def _shares_network(self) -> bool:
        """Whether volumes are reached over the network that clients use: each byte passes it twice."""
        return self.disks.are_volumes and shares_network(self.instance) and self.instance.network.nics < 2

    def _network(self, operation: Operation) -> tuple[Use, ...]:
        """The network to the clients. A server with several cards keeps one for its volumes (003.sn.net)."""
        network = self.instance.network
        has_own_card = self.disks.are_volumes and network.nics > 1
        share = 1 / network.nics if has_own_card else 1.0
        steady, burst = steady_network(self.instance) * share, network.peak_bytes_per_s * share
        shared = self._shares_network
        direction = "" if shared else ("-in" if operation == "write" else "-out")
        what = f"network of {format_rate(steady)} ({self.instance.name})"
        what += ", shared with its volumes," if shared else ""
        source = str(network.over_tcp or self.instance.source)
        resource = self._resource(f"network{direction}", what, operation, steady, burst, source, "server")
        resource = replace(resource, burst_s=network.burst_s)
        return (Use(resource, 2.0 if shared else 1.0),)

    def _volume_path(self, operation: Operation) -> tuple[Use, ...]:
        """The bandwidth that an instance has to its volumes, reads and writes together."""
        ebs, steady = self.instance.ebs, volume_limit(self.instance)
        if ebs is None or steady is None or not self.disks.are_volumes:
            return ()
        burst = ebs.maximum_bytes_per_s
        what = f"volume bandwidth of {format_rate(steady)} ({self.instance.name})"
        lasting, source = bandwidth_burst(self.instance), str(self.instance.source)
        resource = self._resource(
            "volume-bandwidth",
            what,
            operation,
            steady,
            burst,
            f"{source}; its burst: {lasting.source}" if lasting else source,
            "volume",
        )
        if lasting:
            resource = replace(resource, burst_s=lasting.burst_s, refill_s=lasting.refill_s)
        return (Use(resource),)

    def _disks(self, operation: Operation) -> Use:
        steady = self.disks.steady[operation]
        burst = self.disks.burst[operation] if self.disks.burst else 0.0
        part = "volumes" if self.disks.are_volumes else f"disks-{operation}"
        nature: Nature = "volume" if self.disks.are_volumes else "instance store"
        what, source = self.disks.what, self.disks.source
        resource = self._resource(part, what, operation, steady, burst, source, nature)
        return Use(replace(resource, burst_s=self.disks.burst_s))

    def target_bytes_per_s(self, operation: Operation) -> float:
        """What one target (a disk of a server) delivers, in bytes per second."""
        factor, _ = efficiency(self.kind, operation)
        return self.disks.steady[operation] / self.disks.count * factor

    @property
    def targets(self) -> int:
        """Targets of all servers."""
        return self.disks.count * self.servers.count

    @property
    def capacity_bytes(self) -> int:
        """What all disks hold."""
        return self.disks.capacity_bytes * self.servers.count


def server_group(kind: str, filesystem: str, role: str, servers: Servers, site: Site) -> ServerGroup | str:
    """The servers of one role, or in words why their rates are not known."""
    path = ("filesystems", filesystem, role)
    instance = site.instance(servers.instance, *path, "instance")
    if instance is None:
        return "its servers are not described"
    if servers.disks is None:
        site.report(
            (*path, "disks"),
            f"the {role.upper()} have no disks",
            "add disks: {type: gp3, count: 8, size: 2 TiB} with what each server serves",
        )
        return "its servers are not described"
    disks = disk_rates(servers.disks, instance, site, *path, "disks")
    if isinstance(disks, str):
        return disks
    return ServerGroup(filesystem, kind, role, servers, instance, disks)


def server_costs(filesystem: str, role: str, servers: Servers, site: Site) -> tuple[Cost, ...]:
    """The bill of servers and their disks; instances without a catalogue row are passed over."""
    path = ("filesystems", filesystem, role)
    instance = site.instance(servers.instance, *path, "instance")
    if instance is None:
        return ()
    count = servers.count
    hourly = site.instance_usd_per_hour(instance.name, "region")
    what = f"{count} {role.upper()} {instance.name}"
    costs = [Cost(what, None if hourly is None else hourly * count, instance.name)]
    if servers.disks is not None:
        disks = disk_rates(servers.disks, instance, site, *path, "disks")
        if not isinstance(disks, str) and disks.are_volumes:
            usd = disks.usd_per_hour
            each = f"{disks.what} at each {role.upper()}"
            costs.append(Cost(each, None if usd is None else usd * count))
    return tuple(costs)


def server_limit(instance: InstanceType) -> float:
    """What the networks of one server let through to its volumes, before the file system's efficiency.

    Bytes per second: of several cards one is for volumes (003.sn.net); through one that volumes share, bytes
    pass twice.
    """
    network, nics = steady_network(instance), instance.network.nics
    own = volume_limit(instance) or math.inf
    if nics > 1:
        return min(network / nics, own)
    return min(network / 2 if shares_network(instance) else network, own)
