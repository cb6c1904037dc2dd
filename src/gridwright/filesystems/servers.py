"""What servers of a file system bring to its routes: networks, the way to their volumes, disks."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gridwright.catalog import InstanceType
from gridwright.filesystems.bandwidth_bursts import bandwidth_burst
from gridwright.filesystems.disks import DiskRates, disk_rates
from gridwright.filesystems.efficiency import efficiency
from gridwright.filesystems.resources import Cost, Nature, Operation, Resource, Use
from gridwright.filesystems.site import Site, shares_network, steady_network, volume_limit
from gridwright.spec.filesystem import Servers
from gridwright.units import format_rate


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
