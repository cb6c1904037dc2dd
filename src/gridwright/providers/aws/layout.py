"""Every machine of a grid on AWS with its name, its address and its targets: pure, from the spec alone.

Where in a subnet the machines of each group have their addresses, so that a group can grow.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from gridwright.errors import GridwrightError, Problem, input_error
from gridwright.filesystems import kind_of
from gridwright.filesystems.provided import ManagedLustre
from gridwright.providers.aws.addresses import (
    address_problems,
    machine_addresses,
    reserved_addresses,
    room_of_login,
    small_ranges,
)
from gridwright.providers.aws.disk_pairs import (
    PairVolume,
    addresses_needed,
    pair_problems,
    pair_servers,
    pair_volumes,
    paired_servers,
)
from gridwright.providers.aws.section import Aws, default_subnets
from gridwright.providers.controller import CONTROLLER
from gridwright.providers.lustre_servers import (
    ServerExamples,
    Target,
    built_lustres,
    lustre_problems,
    server_roles,
    targets_of_servers,
)
from gridwright.spec.locate import problem_at
from gridwright.spec.model import GridSpec
from gridwright.spec.site_setup import MACHINES
from gridwright.units import Bytes


def first_offsets(counts: Sequence[int], first: int, size: int, least: int) -> Iterator[int]:
    """Offset of the first address of each group in a subnet of `size` addresses.

    Every group has room for a power of two of machines, `least` or more, so that one that grows within it
    moves none behind it. In a subnet that is too small for that, groups stand one behind the other.
    """
    rooms = [max(least, 1 << (count - 1).bit_length()) for count in counts]
    # AWS keeps the last address of a subnet; the last group ends with its last machine.
    fits = first + sum(rooms[:-1]) + sum(counts[-1:]) < size
    offset = first
    for count, room in zip(counts, rooms, strict=True):
        yield offset
        offset += room if fits else count


FIRST_ADDRESS = 10
"""Offset of the first machine in a subnet: AWS keeps the first four addresses and the last one."""
FIRST_COMPUTE = 16
"""Offset of the first node that runs jobs; the head node is below."""
ROOM_OF_NODES = 16
ROOM_OF_SERVERS = 8
"""Addresses that a group has at least, where the subnet has room."""
FIRST_OF_SITE = 4
"""Offset of the first machine in a range of a subnet that is there, where every address counts."""
LOGIN = "login1"
DEFAULT_VOLUME = Bytes(100 * 2**30)
"""Of disks that say no size."""
_EXAMPLES = ServerExamples(
    mds="{instance: m5.4xlarge, disks: {type: gp3, size: 500 GiB}}",
    disks="{type: gp3, size: 500 GiB}",
    volume="gp3",
)


class Role(StrEnum):
    """What a machine is there for."""

    COMPUTE = "compute"
    HEAD = "head"
    LOGIN = "login"
    MGS = "mgs"
    MDS = "mds"
    OSS = "oss"
    NSD = "nsd"
    """One of a pair that shares its volumes."""
    MACHINE = "machine"
    """Beside the nodes, without the scheduler."""

    @property
    def serves_lustre(self) -> bool:
        """Whether it is a server of a Lustre."""
        return self in (Role.MGS, Role.MDS, Role.OSS)

    @property
    def serves_files(self) -> bool:
        """Whether it is a server of a file system, without a part in the scheduler."""
        return self.serves_lustre or self is Role.NSD

    @property
    def group(self) -> str:
        """Its group in the inventory of the playbook."""
        if self is Role.MACHINE:
            return MACHINES
        return "storage" if self.serves_files else "compute" if self is Role.COMPUTE else "head"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One machine. Its name and address stay when the instance is replaced."""

    name: str
    role: Role
    group: str
    """Name of the group or the file system in the spec; the role where it belongs to neither."""
    instance: str
    subnet: str
    address: ipaddress.IPv4Address
    replaced: bool
    """Whether an Auto Scaling group replaces it, so that it claims its name, interface and volumes."""
    targets: tuple[Target, ...] = ()
    powered: bool = False
    """Whether it is there only while the scheduler wants it on."""
    pair: int = 0
    """The pair of a server that shares its volumes, from 1 on."""


@dataclass(frozen=True)
class AwsLayout:
    """The machines of a grid, and the subnets that they are in."""

    grid: str
    aws: Aws
    subnets: Mapping[str, ipaddress.IPv4Network]
    """Ranges that machines have their addresses from, by the name of the subnet. In a VPC that is there they
    may be parts of subnets, and there is no storage where the grid has none."""
    machines: tuple[Machine, ...]
    volumes: tuple[PairVolume, ...] = ()
    """Those that both servers of a pair attach."""

    @property
    def networks(self) -> tuple[ipaddress.IPv4Network, ...]:
        """Ranges of the VPC."""
        return self.aws.networks

    def of_role(self, *roles: Role) -> tuple[Machine, ...]:
        """Machines of these roles, in order."""
        return tuple(each for each in self.machines if each.role in roles)

    @property
    def always_on(self) -> tuple[Machine, ...]:
        """Machines that are there as long as the grid is not stopped."""
        return tuple(each for each in self.machines if not each.powered)

    def servers_of(self, filesystem: str) -> tuple[Machine, ...]:
        """The servers of a Lustre that is built."""
        return tuple(each for each in self.machines if each.role.serves_lustre and each.group == filesystem)

    def pairs_of(self, filesystem: str) -> tuple[Machine, ...]:
        """Servers of a file system that share their volumes, in order."""
        return tuple(each for each in self.of_role(Role.NSD) if each.group == filesystem)

    def volumes_of(self, server: str) -> tuple[PairVolume, ...]:
        """Those that a server shares with the other one of its pair."""
        return tuple(each for each in self.volumes if server in each.servers)

    @cached_property
    def addresses(self) -> dict[str, str]:
        """Address of each machine by its name."""
        return {each.name: str(each.address) for each in self.machines}

    @property
    def root_nids(self) -> list[str]:
        """Addresses, as Lustre has them, of machines whose root is root of file systems, too."""
        return [f"{each.address}@tcp" for each in self.of_role(Role.HEAD, Role.LOGIN)]

    def lustre_source(self, filesystem: str) -> str:
        """What clients mount of a Lustre that is built: 10.20.64.10@tcp:/shared."""
        servers = self.servers_of(filesystem)
        (mgs,) = (each for each in servers if any(one.with_mgt or one.kind == "mgt" for one in each.targets))
        fsname = next(one.fsname for each in servers for one in each.targets if one.kind == "ost")
        return f"{mgs.address}@tcp:/{fsname}"


def aws_section(spec: GridSpec) -> Aws:
    """What the spec says of AWS. Raises GridwrightError (INPUT) where it says nothing."""
    aws = spec.section(Aws)
    if aws is None:
        raise input_error(
            f"grid {spec.name} says nothing of where on AWS it is to be, and who may log in",
            where=str(spec.file) if spec.file else None,
            remedy="add aws: {zone: us-east-1a, ssh_from: [203.0.113.0/24]} with a zone of its region and "
            "your own range of addresses",
        )
    return aws


def aws_subnets(aws: Aws) -> dict[str, ipaddress.IPv4Network]:
    """Ranges by the name of their subnet: of a VPC that is there, what the grid has of them.

    Those of its own that the spec does not name are quarters and the upper half of the network.
    """
    if aws.vpc is not None:
        return {name: ipaddress.IPv4Network(each.addresses) for name, each in aws.vpc.subnets().items()}
    defaults = default_subnets(ipaddress.IPv4Network(aws.network))
    return defaults | {name: ipaddress.IPv4Network(value) for name, value in aws.subnets.given().items()}


def fsx_file_systems(spec: GridSpec) -> dict[str, ManagedLustre]:
    """Those on FSx for Lustre, by name."""
    return {
        name: managed
        for name, each in spec.filesystems.items()
        if (managed := kind_of(each).managed_lustre(each)) is not None
    }


def aws_layout(spec: GridSpec) -> AwsLayout:
    """Lay the grid out. Raises GridwrightError (INPUT) with all that cannot be built as it is written."""
    aws = aws_section(spec)
    subnets = aws_subnets(aws)
    problems = list(_problems(spec, aws, subnets))
    if problems:
        raise GridwrightError(*problems)
    machines = [
        *_grid_machines(spec, aws, subnets),
        *_beside(spec, subnets["compute"]),
        *_servers(spec, aws, subnets),
    ]
    return AwsLayout(spec.name, aws, subnets, tuple(machines), tuple(pair_volumes(spec)))


def _grid_machines(
    spec: GridSpec, aws: Aws, subnets: Mapping[str, ipaddress.IPv4Network]
) -> Iterator[Machine]:
    yield Machine(
        name=LOGIN,
        role=Role.LOGIN,
        group=Role.LOGIN,
        instance=aws.login.instance,
        subnet="public",
        address=subnets["public"][first_address(aws)],
        replaced=False,
    )
    if spec.scheduler.needs_head_node:
        yield Machine(
            name=CONTROLLER,
            role=Role.HEAD,
            group=Role.HEAD,
            instance=aws.head.instance,
            subnet="compute",
            address=subnets["compute"][first_address(aws)],
            replaced=False,
        )
    network = subnets["compute"]
    # Machines beside the nodes have the upper end.
    size = network.num_addresses - reserved_addresses(spec)
    powered = spec.powered_nodes()
    counts = [len(nodes.node_names(group)) for group, nodes in spec.nodes.items()]
    offsets = first_offsets(counts, first_compute(aws), size, ROOM_OF_NODES)
    for (group, nodes), offset in zip(spec.nodes.items(), offsets, strict=True):
        for number, name in enumerate(nodes.node_names(group)):
            yield Machine(
                name=name,
                role=Role.COMPUTE,
                group=group,
                instance=nodes.instance or "",
                subnet="compute",
                address=network[offset + number],
                replaced=aws.replace_nodes,
                powered=name in powered,
            )


def _beside(spec: GridSpec, compute: ipaddress.IPv4Network) -> Iterator[Machine]:
    addresses = machine_addresses(spec, compute)
    for group, machines in spec.machines.items():
        for name in machines.machine_names(group):
            yield Machine(
                name=name,
                role=Role.MACHINE,
                group=group,
                instance=machines.instance or "",
                subnet="compute",
                address=addresses[name],
                replaced=machines.replace,
            )


def first_address(aws: Aws) -> int:
    """Offset of the first machine in a range."""
    return FIRST_ADDRESS if aws.vpc is None else FIRST_OF_SITE


def first_compute(aws: Aws) -> int:
    """Offset of the first node that runs jobs, with or without a head node below."""
    return FIRST_COMPUTE if aws.vpc is None else FIRST_OF_SITE + 1


def _servers(spec: GridSpec, aws: Aws, subnets: Mapping[str, ipaddress.IPv4Network]) -> Iterator[Machine]:
    """Servers of Lustre, then pairs; each group has room to grow."""
    groups = [
        (name, lustre, *each) for name, lustre in built_lustres(spec).items() for each in server_roles(lustre)
    ]
    paired = [tuple(pair_servers(name, each)) for name, each in paired_servers(spec).items()]
    if not groups and not paired:
        return
    network = subnets["storage"]
    counts = [*(servers.count for *_, servers in groups), *map(len, paired)]
    offsets = [*first_offsets(counts, first_address(aws), network.num_addresses, ROOM_OF_SERVERS)]
    for (name, lustre, role, servers), offset in zip(groups, offsets[: len(groups)], strict=True):
        for number, targets in enumerate(targets_of_servers(name, lustre, role, servers), start=1):
            yield Machine(
                name=f"{name}-{role}{number}",
                role=Role(role),
                group=name,
                instance=servers.instance,
                subnet="storage",
                address=network[offset + number - 1],
                replaced=True,
                targets=tuple(targets),
            )
    for pairs, offset in zip(paired, offsets[len(groups) :], strict=True):
        for number, one in enumerate(pairs):
            yield Machine(
                name=one.name,
                role=Role.NSD,
                group=one.filesystem,
                instance=one.instance,
                subnet="storage",
                address=network[offset + number],
                replaced=False,
                pair=one.pair,
            )


def _problems(spec: GridSpec, aws: Aws, subnets: Mapping[str, ipaddress.IPv4Network]) -> Iterator[Problem]:
    yield from _room_problems(spec, aws, subnets)
    yield from pair_problems(spec, aws)
    yield from (problem_at(spec, *each) for each in lustre_problems(spec, _EXAMPLES))


def room_problems(spec: GridSpec) -> Iterator[Problem]:
    """Where a grid has fewer addresses than machines, or two at one address; none without section aws."""
    aws = spec.section(Aws)
    if aws is not None:
        yield from _room_problems(spec, aws, aws_subnets(aws))
        yield from pair_problems(spec, aws)


def _room_problems(
    spec: GridSpec, aws: Aws, subnets: Mapping[str, ipaddress.IPv4Network]
) -> Iterator[Problem]:
    servers = sum(each.count for one in built_lustres(spec).values() for _, each in server_roles(one))
    servers += addresses_needed(spec)
    needed = {
        "public": first_address(aws) + room_of_login(aws),
        "compute": first_compute(aws) + spec.node_count() + 1,
        "storage": first_address(aws) + servers + 1 if servers else 0,
    }
    serves = bool(servers or fsx_file_systems(spec))
    found = [*small_ranges(spec, aws, subnets, needed, serves=serves)]
    yield from found
    if not found:
        taken = [each.address for each in _grid_machines(spec, aws, subnets) if each.subnet == "compute"]
        yield from address_problems(spec, subnets["compute"], taken)
