"""Every machine of a grid on AWS with its name, its address and its targets: pure, from the spec alone.

Where in a subnet the machines of each group have their addresses, so that a group can grow.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from gridwright.errors import GridwrightError, Problem, input_error
from gridwright.filesystems.provided import ManagedLustre, requested
from gridwright.providers.aws.claim.deciding import device_name
from gridwright.providers.aws.names import grid_stack, logical_id
from gridwright.providers.aws.section import Aws, default_subnets
from gridwright.providers.file_servers import (
    ServerExamples,
    Target,
    built_lustres,
    lustre_problems,
    server_pairs,
    server_roles,
    shared_disk_file_systems,
    targets_of_servers,
)
from gridwright.providers.machines import CONTROLLER
from gridwright.setup.distributions import Distribution, distribution, of_parameter
from gridwright.spec.filesystem import INSTANCE_STORE, Disks, Servers
from gridwright.spec.load import problem_at
from gridwright.spec.machines import MOST_MACHINES
from gridwright.spec.model import GridSpec
from gridwright.spec.site_setup import MACHINES
from gridwright.units import Bytes

# Addresses: whether ranges have enough, and those of machines beside the nodes.
#
# These are at the upper end of the nodes' range, or where the spec says.

Address = ipaddress.IPv4Address
BALANCER = 2
"""Offset of the load balancer of the console from the login node, after the NAT gateway."""


def room_of_login(aws: Aws) -> int:
    """Addresses that the range of the login node has from that node on, the last one of AWS among them."""
    return 2 + (BALANCER if aws.certificate is not None else 0)


def machine_addresses(spec: GridSpec, compute: ipaddress.IPv4Network) -> dict[str, Address]:
    """The address of each machine by its name.

    A group has MOST_MACHINES addresses below those of the groups before it, so that one more machine moves no
    other, and more nodes move none; the first one has the lowest of them.
    """
    found: dict[str, Address] = {}
    # The last address of a subnet is kept by AWS.
    end = int(compute.broadcast_address)
    for name, group in spec.machines.items():
        if group.address is None:
            end -= MOST_MACHINES
            first = end
        else:
            first = int(ipaddress.IPv4Address(group.address))
        for number, machine in enumerate(group.machine_names(name)):
            # What lies outside of all addresses is told with what lies outside of the range.
            found[machine] = Address(max(0, first + number) % 2**32)
    return found


def reserved_addresses(spec: GridSpec) -> int:
    """How many addresses at the upper end of the nodes' range are for these machines."""
    return MOST_MACHINES * sum(group.address is None for group in spec.machines.values())


def address_problems(
    spec: GridSpec, compute: ipaddress.IPv4Network, taken: Collection[Address]
) -> Iterator[Problem]:
    """Machines whose address is outside of the range, or another one's."""
    addresses = machine_addresses(spec, compute)
    used = set(taken)
    usable = range(4, compute.num_addresses - 1)
    for name, group in spec.machines.items():
        for machine in group.machine_names(name):
            address = addresses[machine]
            inside = int(address) - int(compute.network_address) in usable
            if inside and address not in used:
                used.add(address)
                continue
            where = ("address",) if group.address is not None else ()
            what = f"{machine} would have {address}, "
            what += "which another machine has" if inside else f"which is not in {compute}"
            free = _free(compute, used, group.count)
            yield problem_at(
                spec,
                ("machines", name, *where),
                what,
                f"write address: {free}" if free else "write a larger range for nodes and machines",
            )
            break


def _free(compute: ipaddress.IPv4Network, used: set[Address], count: int) -> Address | None:
    """The highest address that so many machines fit at."""
    last = compute.num_addresses - 1 - count
    return next(
        (
            compute[first]
            for first in range(last, 3, -1)
            if not any(compute[first + number] in used for number in range(count))
        ),
        None,
    )


def small_ranges(
    spec: GridSpec,
    aws: Aws,
    subnets: Mapping[str, ipaddress.IPv4Network],
    needed: Mapping[str, int],
    *,
    serves: bool,
) -> Iterator[Problem]:
    """Ranges with fewer addresses than machines take, and a subnet that a VPC of the site's has to have."""
    if aws.vpc is not None and "storage" not in subnets and serves:
        yield problem_at(
            spec,
            ("aws", "vpc"),
            "the grid has servers of a file system, and no subnet of the VPC is named for them",
            "add storage: {subnet: subnet-..., addresses: 10.8.8.0/26} to aws.vpc",
        )
    for name, subnet in subnets.items():
        if needed[name] <= subnet.num_addresses:
            continue
        place: tuple[str, ...] = ("aws", "network")
        remedy = "write a larger network, such as 10.20.0.0/16, or larger subnets"
        if aws.vpc is not None:
            place = ("aws", "vpc", "login" if name == "public" else name, "addresses")
            remedy = f"write a range of at least /{32 - (needed[name] - 1).bit_length()}"
        yield problem_at(
            spec,
            place,
            f"subnet {name}, {subnet}, has {subnet.num_addresses} addresses, and {needed[name]} are needed",
            remedy,
        )


# Servers of file systems that are pairs, with the volumes that both of a pair attach (EBS Multi-Attach).
#
# A volume that two machines write to is whole only where one file system keeps them apart: EBS does not.
# Pairs are never replaced by themselves. They are instances of the grid stack with addresses for good, and
# their attachments are resources beside them; the volumes are in the storage stack, and stay.

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


def paired_servers(spec: GridSpec) -> dict[str, Servers]:
    """Servers in pairs that the grid has itself, by file system."""
    found = {name: each.nsd for name, each in shared_disk_file_systems(spec).items()}
    return {name: servers for name, servers in found.items() if servers is not None}


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


# Which distribution machines of a grid have: what the spec says, or what the name of their image does.

DEFAULT = "ubuntu-24.04"
"""Of a grid whose spec names no image."""


def distribution_of_nodes(aws: Aws) -> Distribution | None:
    """Of nodes, head and login node; None where only their image knows it."""
    if aws.images.distribution is not None:
        return distribution(aws.images.distribution)
    if aws.images.compute is None:
        return distribution(DEFAULT)
    return of_parameter(aws.images.compute)


def login_user(aws: Aws) -> str | None:
    """Who a key pair lets in; None where there is none, or where the distribution is not known."""
    found = distribution_of_nodes(aws)
    return found.user if aws.key is not None and found is not None else None


def root_device(aws: Aws, *, serves_files: bool) -> str:
    """What the disk is called that a machine starts from; servers of Lustre have Red Hat or Rocky Linux."""
    found = None if serves_files else distribution_of_nodes(aws)
    return ROOT_DEVICE if found is None else found.root_device


ROOT_DEVICE = "/dev/sda1"
"""Of images of Ubuntu, Red Hat, Rocky Linux and AlmaLinux."""


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
    return requested(spec, ManagedLustre)


def aws_layout(spec: GridSpec) -> AwsLayout:
    """Lay the grid out. Raises GridwrightError (INPUT) with all that cannot be built as it is written."""
    aws = aws_section(spec)
    subnets = aws_subnets(aws)
    problems = [*_room_problems(spec, aws, subnets), *pair_problems(spec, aws)]
    problems += [problem_at(spec, *each) for each in lustre_problems(spec, _EXAMPLES)]
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
    paired = paired_servers(spec)
    if not groups and not paired:
        return
    network = subnets["storage"]
    counts = [servers.count for servers in (*(each[-1] for each in groups), *paired.values())]
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
    for (name, servers), offset in zip(paired.items(), offsets[len(groups) :], strict=True):
        pairs = server_pairs(f"{name}-{ROLE}", servers.count)
        for number, (pair, one) in enumerate((pair, each) for pair, both in pairs for each in both):
            yield Machine(
                name=one,
                role=Role.NSD,
                group=name,
                instance=servers.instance,
                subnet="storage",
                address=network[offset + number],
                replaced=False,
                pair=pair,
            )


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
    servers += sum(each.count for each in paired_servers(spec).values())
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


# The machine that serves the console, the address of its load balancer, and who may read it.

_PRIVATE = tuple(
    ipaddress.IPv4Network(each) for each in ("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16")
)
"""Ranges that nobody has on the Internet (RFC 1918, RFC 6598)."""


TOKEN = "ConsoleToken"  # noqa: S105 - a logical ID
"""The secret with the token, in the grid stack."""

KEY = "ConsoleKey"
"""The key pair by which the console reaches nodes, in the grid stack."""


def console_machine(layout: AwsLayout) -> Machine | None:
    """Who serves it: the head node, or the login node of a grid without one; None without a certificate."""
    if layout.aws.certificate is None:
        return None
    return (*layout.of_role(Role.HEAD), *layout.of_role(Role.LOGIN))[0]


def balancer_address(layout: AwsLayout) -> ipaddress.IPv4Address | None:
    """The one address of the load balancer, beside the login node; None where there is none.

    It is named, as one that AWS chooses might be a machine's, and so that the console lets in no other.
    """
    if layout.aws.certificate is None:
        return None
    return layout.subnets["public"][first_address(layout.aws) + BALANCER]


def readers(layout: AwsLayout) -> tuple[ipaddress.IPv4Network, ...]:
    """Who may open it: the network itself, and private ranges that users log in from, by a VPN, say."""
    given = [ipaddress.IPv4Network(each) for each in layout.aws.ssh_from]
    private = [each for each in given if any(each.subnet_of(one) for one in _PRIVATE)]
    return tuple(dict.fromkeys((*layout.networks, *private)))


def secret_name(spec: GridSpec) -> str:
    """Name of the secret with the token, and of the key pair. It is the same for each `up`.

    CloudFormation deletes secrets without a window of recovery, so that the name is free after `down`
    (CloudFormation User Guide, DeletionPolicy).
    """
    return f"{grid_stack(spec)}-console"
