"""Servers of file systems that are pairs, with the volumes that both of a pair attach (EBS Multi-Attach).

A volume that two machines write to is whole only where one file system keeps them apart: EBS does not. Pairs
are never replaced by themselves. They are instances of the grid stack with addresses for good, and their
attachments are resources beside them; the volumes are in the storage stack, and stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gridwright.errors import Problem
from gridwright.providers.aws.claim.targets import device_name
from gridwright.providers.aws.names import logical_id
from gridwright.providers.aws.section import Aws
from gridwright.providers.shared_disks import server_pairs, shared_disk_file_systems
from gridwright.spec.locate import problem_at
from gridwright.spec.model import GridSpec
from gridwright.spec.storage import INSTANCE_STORE, Disks, Servers

ROLE = "nsd"
"""What specs call such servers, and their role."""
LINKS = "/dev/gridwright"
"""Where servers have their volumes by names that are the same on both of a pair; program `disk_names` makes
them."""
PARTITIONS = 7
"""Of the placement group: the most that a zone has (Amazon EC2 User Guide, partition placement groups).
Machines of two partitions share no rack. Another number would be another group, and other machines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairVolume:
    """A volume that both servers of a pair attach."""

    filesystem: str
    pair: int
    index: int
    """From 0 on, within the pair."""
    servers: tuple[str, str]
    """The one that serves it, and the one that takes it over."""
    disks: Disks

    @property
    def name(self) -> str:
        """What tells it from other volumes of the file system: p1-v01."""
        return f"p{self.pair}-v{self.index + 1:02d}"

    @property
    def slot(self) -> str:
        """The pair, as a tag of the volume names it: lake-p1."""
        return f"{self.filesystem}-p{self.pair}"

    @property
    def logical_id(self) -> str:
        """Of the volume, and its export: LakeP1V01."""
        return logical_id(self.filesystem, self.name)

    @property
    def attached_as(self) -> str:
        """The name that EC2 is given for it, on both servers; Nitro machines show it under another one."""
        return device_name(self.index)

    @property
    def path(self) -> str:
        """What it is called on both servers, whatever the kernel calls it."""
        return f"{LINKS}/{self.filesystem}-{self.name}"

    def attachment_id(self, server: str) -> str:
        """Logical ID of its attachment to a server."""
        return logical_id(server, self.name, "Attachment")


@dataclass(frozen=True, slots=True)
class PairServer:
    """One server of a pair."""

    name: str
    filesystem: str
    instance: str
    pair: int


def paired_servers(spec: GridSpec) -> dict[str, Servers]:
    """Servers in pairs that the grid has itself, by file system."""
    found = {name: each.nsd for name, each in shared_disk_file_systems(spec).items()}
    return {name: servers for name, servers in found.items() if servers is not None}


def pair_servers(name: str, servers: Servers) -> Iterator[PairServer]:
    """The servers of one file system, in their order."""
    for pair, both in server_pairs(f"{name}-{ROLE}", servers.count):
        for each in both:
            yield PairServer(each, name, servers.instance, pair)


def pair_volumes(spec: GridSpec) -> Iterator[PairVolume]:
    """All volumes, those of each pair in their order: its servers take turns in being the first."""
    for name, servers in paired_servers(spec).items():
        disks = servers.disks
        if disks is None or disks.type == INSTANCE_STORE:
            continue
        for pair, (first, second) in server_pairs(f"{name}-{ROLE}", servers.count):
            for index in range(2 * (disks.count or 1)):
                both = (first, second) if index % 2 == 0 else (second, first)
                yield PairVolume(filesystem=name, pair=pair, index=index, servers=both, disks=disks)


def partition(number: int) -> int:
    """The partition of a server by its number, from 1 on: those of a pair are in two."""
    return (number - 1) % PARTITIONS + 1


def pair_problems(spec: GridSpec, aws: Aws) -> Iterator[Problem]:
    """Servers without disks, and nodes that would leave their cluster by themselves."""
    found = paired_servers(spec)
    for name, servers in found.items():
        if servers.disks is None:
            yield problem_at(
                spec,
                ("filesystems", name, ROLE),
                f"the {ROLE.upper()} servers have no disks, and cannot be built",
                "add disks: {type: io2, count: 10, size: 1 TiB, iops: 4000}",
            )
    if found and aws.replace_nodes:
        yield problem_at(
            spec,
            ("aws", "replace_nodes"),
            f"nodes are members of the cluster that serves {', '.join(found)}, each with its address and a "
            "configuration on its disk; a machine that Auto Scaling puts in the place of one has neither",
            "write replace_nodes: false under aws: nodes stay what they are until gridwright up --replace",
        )
    for name, group in spec.machines.items() if found else ():
        if group.mounts and group.replace:
            yield problem_at(
                spec,
                ("machines", name, "replace"),
                f"machines that mount {', '.join(found)} are members of its cluster, with a configuration on "
                "their disk, and one that is replaced by itself has none",
                "write replace: false, or mounts: false",
            )


def addresses_needed(spec: GridSpec) -> int:
    """How many addresses the servers take."""
    return sum(each.count for each in paired_servers(spec).values())
