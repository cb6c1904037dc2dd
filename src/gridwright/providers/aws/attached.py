"""Finds nodes and servers that would have more volumes attached than their instance type takes.

EC2 refuses the volume that is one too many when the machine starts, or when its claim attaches it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gridwright.catalog import InstanceType
from gridwright.catalog.attachments import free_attachments
from gridwright.catalog.hypervisors import xen_types
from gridwright.errors import GridwrightError
from gridwright.filesystems.site import Site
from gridwright.providers.aws.disk_pairs import ROLE, paired_servers
from gridwright.providers.aws.offered import nearest_types
from gridwright.providers.aws.section import Aws
from gridwright.providers.lustre_servers import built_lustres
from gridwright.spec.storage import INSTANCE_STORE

NAMES_OF_NODE = 25
"""Device names that a launch template has for volumes: /dev/sdb to /dev/sdz (`launching.py`)."""
NAMES_OF_SERVER = 63
"""Device names that a claim has for targets: /dev/sd[f-p], then /dev/xvd[b-c][a-z] (`claim/targets.py`)."""
_MOST_NAMED = 3
"""How many types a remedy names."""


@dataclass(frozen=True, slots=True)
class _Attached:
    """Machines that are alike, with the volumes that each has beside the one it starts from.

    `counts` are those of each file system, by the path of the field that says how many.
    """

    what: str
    instance: str
    claims: bool
    """Whether it claims a network interface, which is its second one."""
    names: int
    counts: dict[tuple[str, ...], int]
    copies: int = 1
    """Volumes of a machine for one that a field counts: of a pair both attach those of both."""

    @property
    def volumes(self) -> int:
        """All of one machine."""
        return sum(self.counts.values())

    def most(self, instance: InstanceType) -> int:
        """How many volumes a machine of that type could have."""
        return min(self._free(instance), self._names(instance))

    def _free(self, instance: InstanceType) -> int:
        free = free_attachments(instance.name, int(self.claims))
        return self.names if free is None else free

    def _names(self, instance: InstanceType) -> int:
        """Device names; those of disks that are mapped by name, as Xen has it, are taken."""
        store = instance.instance_store
        mapped = store is not None and not store.nvme and self.names == NAMES_OF_NODE
        return self.names - (store.disks if store is not None and mapped else 0)

    def problem(self, instance: InstanceType) -> str:
        """What is wrong where it has too many."""
        asked = f"{self.volumes} are asked for"
        if len(self.counts) > 1:
            asked += f" by {' and '.join(path[1] for path in self.counts)} together"
        if self._names(instance) < self._free(instance):
            return f"{self.what} have device names for {self._names(instance)} volumes, and {asked}"
        beside = "the one it starts from"
        if self.claims:
            beside += " and the network interface that it claims"
        takes = f"{instance.name} of {self.what} takes {self._free(instance)} volumes"
        return f"{takes} beside {beside}, and {asked}"


def report_too_many_volumes(site: Site) -> None:
    """Note each group of nodes and each role of servers with more volumes than its type takes."""
    for each in (*_nodes(site), *_servers(site)):
        try:
            instance = site.catalog.instance(each.instance, site.spec.provider)
        except GridwrightError:
            # That the type is not there is told elsewhere.
            continue
        most = each.most(instance)
        if each.volumes <= most:
            continue
        path = max(each.counts, key=lambda one: each.counts[one])
        left = most - (each.volumes - each.counts[path])
        left //= each.copies
        fewer = f"write at most {left}, with larger or faster volumes" if left > 0 else "write fewer volumes"
        site.report(path, each.problem(instance), fewer + _other_types(site, each, instance))


def _other_types(site: Site, attached: _Attached, instance: InstanceType) -> str:
    def suits(one: InstanceType) -> bool:
        return (
            attached.most(one) >= attached.volumes
            and not one.accelerators
            and site.catalog.prices.price(one, site.region) is not None
        )

    near = nearest_types(site.catalog, instance, suits)[:_MOST_NAMED]
    if not near:
        return ""
    return f"; or choose a type that takes {attached.volumes}: the nearest are {', '.join(near)}"


def _nodes(site: Site) -> Iterator[_Attached]:
    counts: dict[tuple[str, ...], int] = {
        ("filesystems", name, "disks", "count"): disks.count or 1
        for name, each in site.spec.filesystems.items()
        if (disks := each.node_disks) is not None and disks.type != INSTANCE_STORE
    }
    aws = site.spec.section(Aws)
    claims = aws is None or aws.replace_nodes
    for name, group in site.spec.nodes.items() if counts else ():
        yield _Attached(f"nodes {name}", group.instance or "", claims, NAMES_OF_NODE, counts)


def _servers(site: Site) -> Iterator[_Attached]:
    """Servers of every file system; of those that Gridwright builds, each claims an interface."""
    built, paired = built_lustres(site.spec), paired_servers(site.spec)
    for name, filesystem in site.spec.filesystems.items():
        for role, servers in filesystem.server_groups.items():
            disks = servers.disks
            if disks is not None and disks.type != INSTANCE_STORE:
                path: tuple[str, ...] = ("filesystems", name, role, "disks", "count")
                yield _Attached(
                    f"{role.upper()} of {name}",
                    servers.instance,
                    name in built,
                    NAMES_OF_SERVER,
                    {path: (disks.count or 1) * (2 if name in paired else 1)},
                    copies=2 if name in paired else 1,
                )


def report_not_shared(site: Site) -> None:
    """Note servers in pairs that are older than Nitro: none of these attaches what another one has."""
    for name, servers in paired_servers(site.spec).items():
        if servers.instance not in xen_types():
            continue
        site.report(
            ("filesystems", name, ROLE, "instance"),
            f"both servers of a pair attach its volumes, which takes the Nitro System of AWS, and "
            f"{servers.instance} is older",
            "choose a newer type" + _nitro_types(site, servers.instance),
        )


def _nitro_types(site: Site, name: str) -> str:
    try:
        instance = site.catalog.instance(name, site.spec.provider)
    except GridwrightError:
        return ""
    near = nearest_types(
        site.catalog,
        instance,
        lambda one: (
            one.name not in xen_types()
            and not one.accelerators
            and site.catalog.prices.price(one, site.region) is not None
        ),
    )[:_MOST_NAMED]
    return f": the nearest are {', '.join(near)}" if near else ""
