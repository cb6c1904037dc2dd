"""The section `lab:` of a grid spec, and which nodes a lab has by it, with their names and addresses."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field, WithJsonSchema

from gridwright.errors import GridwrightError, Problem, input_error, nearest
from gridwright.filesystems import kind_of
from gridwright.filesystems.kind import LabServices
from gridwright.providers.machines import CONTROLLER
from gridwright.spec.fields import Change, SpecModel, Update
from gridwright.spec.model import GridSpec
from gridwright.units import Bytes, Rate
from gridwright.yamltext.fields import FieldError, Size, TotalRate
from gridwright.yamltext.source import show

SMALLEST_DISK = 512 * 2**20
"""MooseFS gives out space in chunks of 64 MiB, and keeps some of each disk free."""
SLOWEST_NETWORK = 10**6
"""Bytes a second."""
STORAGE = "storage"
"""Nodes of a lab that serve a file system: storage1, storage2 and so on."""


def _private_network(value: str) -> str:
    example = "write a private range of addresses, such as 10.77.0.0/24"
    try:
        network = ipaddress.IPv4Network(value)
    except ValueError:
        raise FieldError(f"{show(value)} is no range of IPv4 addresses", example) from None
    if not network.is_private or network.prefixlen > 29 or network.is_loopback or network.is_link_local:
        raise FieldError(f"{value} is not a private range of 8 addresses or more", example)
    return value


def _disk(size: Bytes) -> Bytes:
    if size < SMALLEST_DISK:
        raise FieldError(
            f"{size} is too small for a disk of MooseFS", f"write {Bytes(SMALLEST_DISK)} or more"
        )
    return size


def _bandwidth(rate: Rate) -> Rate:
    if rate.bytes_per_s < SLOWEST_NETWORK:
        raise FieldError(f"{rate} is too little for ssh and Slurm on every node", "write 1 MB/s or more")
    return rate


class Lab(SpecModel):
    """A grid of several nodes in Linux namespaces of one machine."""

    network: Annotated[
        Annotated[str, AfterValidator(_private_network), WithJsonSchema({"type": "string"})],
        Update(Change.REBUILD, "every node gets another address"),
    ] = Field(
        default="10.77.0.0/24",
        description="The range of addresses of its nodes; nothing outside the lab sees them.",
    )
    disk: Annotated[
        Annotated[Size, AfterValidator(_disk)] | None, Update(Change.REBUILD, "storage nodes get empty disks")
    ] = Field(
        default=None,
        description="The size of the disk of each storage node, such as 4 GiB. It takes room on this machine "
        "as it fills. By default storage nodes share what is free on this machine.",
    )
    bandwidth: Annotated[
        Annotated[TotalRate, AfterValidator(_bandwidth)] | None,
        Update(Change.REBUILD, "nodes get their interfaces when they are made"),
    ] = Field(
        default=None,
        description="What each node sends at most, and receives at most, such as 100 MB/s, as if a network "
        "were between them. By default there is no limit.",
    )


LONGEST_NAME = 63
"""Characters of one part of a host name (RFC 1035, 2.3.4)."""


class LabRole(StrEnum):
    """What a node is there for."""

    CONTROLLER = "controller"
    COMPUTE = "compute"
    STORAGE = "storage"
    MACHINE = "machine"


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """A node as the spec wants it."""

    name: str
    """Its host name, too."""
    role: LabRole
    group: str
    """The group of nodes of a compute node, the file system of a storage node, the group of a machine, else
    `controller`."""
    address: str


@dataclass(frozen=True, slots=True)
class LabLayout:
    """All nodes of a lab: the controller, then compute nodes, storage nodes, and machines beside them."""

    lab: str
    network: str
    """The range of addresses, such as 10.77.0.0/24."""
    nodes: tuple[PlannedNode, ...]

    @property
    def prefix_length(self) -> int:
        """Bits of the network's part of an address."""
        return ipaddress.IPv4Network(self.network).prefixlen

    @property
    def controller(self) -> PlannedNode:
        """The node that the scheduler runs on."""
        return self.nodes[0]

    def of_role(self, role: LabRole) -> tuple[PlannedNode, ...]:
        """The nodes of a role, in order."""
        return tuple(node for node in self.nodes if node.role == role)

    def storage_of(self, filesystem: str) -> tuple[PlannedNode, ...]:
        """The storage nodes that serve a file system; the first has its master."""
        return tuple(node for node in self.of_role(LabRole.STORAGE) if node.group == filesystem)

    def node(self, name: str) -> PlannedNode:
        """The node of that name. Raises GridwrightError (status INPUT) where there is none."""
        for node in self.nodes:
            if node.name == name:
                return node
        names = [node.name for node in self.nodes]
        near = nearest(name, names)
        raise input_error(
            f"lab {self.lab} has no node {name!r}",
            remedy=(f"did you mean {near}? " if near else "") + f"its nodes are {', '.join(names)}",
        )

    def hosts_file(self) -> str:
        """The text of /etc/hosts, the same on every node."""
        lines = ["127.0.0.1 localhost", *(f"{node.address} {node.name}" for node in self.nodes)]
        return "\n".join(lines) + "\n"


def layout_of(spec: GridSpec) -> LabLayout:
    """Work out the nodes of a lab.

    Raises GridwrightError (status INPUT) where two nodes would have one name, or the network has too
    few addresses.
    """
    network = ipaddress.IPv4Network((spec.section(Lab) or Lab()).network)
    desired = list(_planned_nodes(spec))
    problems = [*_double_names(desired), *_long_names(desired)]
    # Low addresses are kept free in an ordinary network, as people expect routers there.
    first = 10 if network.num_addresses >= 32 else 1
    last = network.num_addresses - 2
    if first + len(desired) - 1 > last:
        problems.append(
            Problem(
                what=f"the lab has {len(desired)} nodes, and {network} has addresses for {last - first + 1}",
                field="lab.network",
                where=str(spec.file) if spec.file else None,
                remedy="name a larger range, such as 10.77.0.0/16, or have fewer nodes",
            )
        )
    if problems:
        raise GridwrightError(*problems)
    nodes = tuple(
        PlannedNode(name, role, group, str(network[first + index]))
        for index, (name, role, group) in enumerate(desired)
    )
    return LabLayout(spec.name, str(network), nodes)


def _planned_nodes(spec: GridSpec) -> Iterator[tuple[str, LabRole, str]]:
    """Name, role and group of each node, in order."""
    yield CONTROLLER, LabRole.CONTROLLER, CONTROLLER
    for group, nodes in spec.nodes.items():
        for number in range(1, nodes.count + 1):
            yield f"{group}{number}", LabRole.COMPUTE, group
    number = 0
    for name, filesystem in spec.filesystems.items():
        kind = kind_of(filesystem)
        for _ in range(kind.lab_nodes(filesystem) if isinstance(kind, LabServices) else 0):
            number += 1
            yield f"{STORAGE}{number}", LabRole.STORAGE, name
    # Last, so that no other node gets another address.
    for group, machines in spec.machines.items():
        for name in machines.machine_names(group):
            yield name, LabRole.MACHINE, group


def _long_names(desired: list[tuple[str, LabRole, str]]) -> Iterator[Problem]:
    for name, _, group in desired:
        if len(name) > LONGEST_NAME:
            yield Problem(
                what=f"{name} has {len(name)} characters, and a host name has at most {LONGEST_NAME}",
                field=f"nodes.{group}",
                remedy="give the group a shorter name",
            )
            return


def _double_names(desired: list[tuple[str, LabRole, str]]) -> Iterator[Problem]:
    groups: dict[str, str] = {}
    for name, _, group in desired:
        if name in groups:
            yield Problem(
                what=f"groups {groups[name]} and {group} would both have a node {name}",
                field=f"nodes.{group}",
                remedy="give one of them a name that does not end in a digit",
            )
        groups[name] = group
