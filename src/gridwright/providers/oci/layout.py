"""Every machine of a grid on OCI with its name, subnet, address and volumes, and the bill: from the spec.

Shapes of a spec as Terraform takes them, with what the catalogue knows of them. The VCN, its gateways,
security groups and the bastion service cost nothing (Oracle's price list, networking); traffic out of the
region, and the few MB of bundles in the bucket, go by use and are not counted.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from ipaddress import IPv4Network
from typing import Any

from gridwright.catalog import Catalog, InstanceType, load_catalog
from gridwright.errors import GridwrightError, Problem, input_error
from gridwright.filesystems.provided import FileStorage, TieredLustre, requested
from gridwright.filesystems.resources import Cost
from gridwright.filesystems.site import Site
from gridwright.providers.cloud import machine_costs
from gridwright.providers.file_servers import (
    ServerExamples,
    Target,
    WrongField,
    built_lustres,
    fsname,
    lustre_problems,
    server_roles,
    shared_disk_file_systems,
    targets_of_servers,
)
from gridwright.providers.machines import CONTROLLER
from gridwright.providers.oci.section import SERVICES, Oci
from gridwright.spec.filesystem import INSTANCE_STORE, Disks, Servers
from gridwright.spec.load import problem_at
from gridwright.spec.model import GridSpec
from gridwright.units import Bytes

# Device paths of block volumes, the same on each server that attaches one (OCI, consistent device paths).

DEVICE_LETTERS = (*(f"{chr(each)}" for each in range(ord("b"), ord("z") + 1)), *(f"a{c}" for c in "abcdefg"))
"""Ends of the consistent device paths: 32 of them, from oraclevdb to oraclevdag (facts oci-scale)."""


def device(index: int) -> str:
    """The path of the volume with this number on each server that attaches it."""
    return f"/dev/oracleoci/oraclevd{DEVICE_LETTERS[index % len(DEVICE_LETTERS)]}"


# Platform images of OCI, by the distribution: how its list of images names operating system and version.

PLATFORM_IMAGES = {"ubuntu-24.04": ("Canonical Ubuntu", "24.04"), "ol-9": ("Oracle Linux", "9")}
"""Operating system and version as GET /images of the Core Services API has them (OCI, platform images)."""


def has_platform_image(distribution: str) -> bool:
    """Whether machines of a distribution can start without an image of the site's; none is the default."""
    return not distribution or distribution in PLATFORM_IMAGES


# File systems of a grid that Oracle runs, and the subnet that they need.


def tiered_lustres(spec: GridSpec) -> dict[str, TieredLustre]:
    """Those that Oracle runs as Lustre, by name."""
    return requested(spec, TieredLustre)


def file_storages(spec: GridSpec) -> dict[str, FileStorage]:
    """Those that Oracle exports by NFS, by name."""
    return requested(spec, FileStorage)


def services(spec: GridSpec) -> tuple[str, ...]:
    """The names of all of them."""
    return (*tiered_lustres(spec), *file_storages(spec))


def services_problems(spec: GridSpec, oci: Oci, subnets: Mapping[str, IPv4Network]) -> Iterator[Problem]:
    """Services choose addresses by themselves, and could take those that machines have in the same subnet."""
    names = " and ".join(services(spec))
    if not names:
        return
    if oci.vcn is not None and oci.vcn.subnets.services is None:
        yield problem_at(
            spec,
            ("oci", "vcn", "subnets"),
            f"Oracle runs {names}, which takes addresses of its own choice, and no subnet is named for that",
            "add services: with the OCID of a subnet, and its range under ranges",
        )
    elif SERVICES not in subnets:
        yield problem_at(
            spec,
            ("oci", "subnets") if oci.vcn is None else ("oci", "vcn", "ranges"),
            f"Oracle runs {names}, which needs a subnet of its own, and the others leave no eighth of the "
            "network",
            "write smaller subnets, or services: with a range that is free",
        )


GIB = 2**30


class Shapes:
    """Shapes as the catalogue has them; what it does not know is noted once for each place."""

    def __init__(self, spec: GridSpec, catalog: Catalog) -> None:
        self._spec, self._catalog = spec, catalog
        self.problems: list[Problem] = []

    def of(self, name: str, *field: str) -> InstanceType | None:
        """The shape of that name; None after its problem was noted for the field."""
        try:
            return self._catalog.instance(name, self._spec.provider)
        except GridwrightError as error:
            found = [problem_at(self._spec, field, each.what, each.remedy or "") for each in error.problems]
            self.problems += [each for each in found if each not in self.problems]
            return None

    def words(self, name: str, *field: str) -> tuple[str, int | None, int | None]:
        """Shape, OCPUs and GiB of memory, as Terraform takes them."""
        instance = self.of(name, *field)
        flexible = re.fullmatch(r"(.+\.Flex)(?:\(([0-9]+)\))?", name)
        if flexible is None:
            return name, None, None
        # An OCPU of an Arm processor is two cores from A2 on; the number in brackets is OCPUs.
        ocpus = int(flexible[2]) if flexible[2] else (instance.cores if instance else 1)
        memory = instance.memory_bytes // GIB if instance else 16 * ocpus
        return flexible[1], ocpus, memory

    def has_two_cards(self, name: str) -> bool:
        """Whether it has a card for clients beside the one that reaches volumes."""
        instance = self._known(name)
        return instance is not None and instance.network.nics > 1

    def _known(self, name: str) -> InstanceType | None:
        try:
            return self._catalog.instance(name, self._spec.provider)
        except GridwrightError:
            return None


LOGIN = "login1"
FIRST_ADDRESS = 10
"""Offset of the first machine in a subnet: OCI keeps the first two addresses and the last one."""
FIRST_SERVER, FIRST_COMPUTE = 16, 512
"""Offsets in subnet fs: servers below, nodes that run jobs above."""
SMALL_COMPUTE = 64
"""Offset of nodes where the subnet is small."""
FAULT_DOMAINS = 3
"""Of an availability domain (OCI, regions and availability domains)."""
DEFAULT_VOLUME = Bytes(100 * 2**30)
"""Of disks that say no size."""


class OciRole(StrEnum):
    """What a machine is there for."""

    COMPUTE = "compute"
    HEAD = "head"
    LOGIN = "login"
    NSD = "nsd"
    MGS = "mgs"
    MDS = "mds"
    OSS = "oss"
    MACHINE = "machine"

    @property
    def is_server(self) -> bool:
        """Whether it serves a file system."""
        return self in (OciRole.NSD, OciRole.MGS, OciRole.MDS, OciRole.OSS)


@dataclass(frozen=True, slots=True, kw_only=True)
class OciVolume:
    """A block volume, and the servers that it is attached to, the first one first."""

    name: str
    filesystem: str
    role: OciRole
    pair: int
    """Of servers that share it; 0 where it has one server."""
    index: int
    """From 0 on: within the pair and the pool, or on its server."""
    gib: int
    vpus_per_gib: int
    servers: tuple[str, ...]
    device: str
    """The same path on each of its servers."""
    target: Target | None = None
    """Of a Lustre: what lies on it."""
    pool: str = ""
    """Of servers in pairs: the pool of disks that it is of, empty for that which is always there."""

    @property
    def is_shared(self) -> bool:
        """Whether two servers have it."""
        return len(self.servers) > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class OciMachine:
    """One machine. Its name and addresses stay when it is made anew."""

    name: str
    role: OciRole
    group: str
    """The group or the file system in the spec; the role where it belongs to neither."""
    shape: str
    """Without the number of OCPUs: VM.Optimized3.Flex."""
    ocpus: int | None
    """Of a flexible shape."""
    memory_gib: int | None
    """Of a flexible shape."""
    subnet: str
    """Of its first network card."""
    address: ipaddress.IPv4Address
    fault_domain: int
    """From 1 to 3."""
    pair: int = 0
    second_address: ipaddress.IPv4Address | None = None
    """Of the second card, in subnet fs, where clients reach a server of two."""

    @property
    def serving_address(self) -> ipaddress.IPv4Address:
        """What other machines of the grid reach it at."""
        return self.second_address or self.address


@dataclass(frozen=True)
class OciLayout:
    """The machines of a grid, their volumes, and the subnets that they are in."""

    grid: str
    oci: Oci
    subnets: dict[str, ipaddress.IPv4Network]
    machines: tuple[OciMachine, ...]
    volumes: tuple[OciVolume, ...]

    def of_role(self, *roles: OciRole) -> tuple[OciMachine, ...]:
        """Machines of these roles, in order."""
        return tuple(each for each in self.machines if each.role in roles)

    def machine(self, name: str) -> OciMachine:
        """The machine of a name that there is."""
        return next(each for each in self.machines if each.name == name)

    def servers_of(self, filesystem: str) -> tuple[OciMachine, ...]:
        """The servers of a file system that is built."""
        return tuple(each for each in self.machines if each.role.is_server and each.group == filesystem)

    def volumes_of(self, server: str) -> tuple[OciVolume, ...]:
        """Those that a server attaches, in the order of their devices."""
        own = [each for each in self.volumes if server in each.servers]
        return tuple(sorted(own, key=lambda each: (len(each.device), each.device)))

    def lustre_source(self, filesystem: str) -> str:
        """What clients mount of a Lustre that is built: 10.30.128.16@tcp:/shared."""
        (mgs,) = (each for each in self.volumes if each.filesystem == filesystem and _has_mgs(each))
        return f"{self.addresses[mgs.servers[0]]}@tcp:/{fsname(filesystem)}"

    @property
    def root_nids(self) -> list[str]:
        """Addresses, as Lustre has them, of machines whose root is root of file systems, too."""
        return [f"{each.serving_address}@tcp" for each in self.of_role(OciRole.HEAD, OciRole.LOGIN)]

    @cached_property
    def addresses(self) -> dict[str, str]:
        """What other machines reach each one at, by name."""
        return {each.name: str(each.serving_address) for each in self.machines}


def _has_mgs(volume: OciVolume) -> bool:
    return volume.target is not None and volume.target.has_mgs


def oci_section(spec: GridSpec) -> Oci:
    """What the spec says of OCI. Raises GridwrightError (INPUT) where it says nothing."""
    oci = spec.section(Oci)
    if oci is None:
        raise input_error(
            f"grid {spec.name} says nothing of where on OCI it is to be, and who may log in",
            where=str(spec.file) if spec.file else None,
            remedy="add oci: {compartment: ocid1.compartment..., ssh_from: [203.0.113.0/24], "
            "ssh_key: ssh-ed25519 ...}",
        )
    return oci


def section_of(spec: GridSpec, verb: str) -> Oci:
    """The spec's section oci. Raises GridwrightError where `verb` cannot work with it."""
    where = str(spec.file) if spec.file else None
    oci = spec.section(Oci)
    if oci is None:
        raise input_error(f"{verb} needs section oci", where=where, remedy="see gridwright help oci")
    return oci


def oci_layout(spec: GridSpec) -> OciLayout:
    """Lay the grid out. Raises GridwrightError (INPUT) with all that cannot be built as it is written."""
    oci = oci_section(spec)
    catalog = load_catalog(spec.file.parent if spec.file else None)
    subnets = oci.ranges
    if not services(spec):
        subnets.pop(SERVICES, None)
    shapes = Shapes(spec, catalog)
    groups = tuple(_server_groups(spec))
    machines = [
        *_outside(spec, oci, subnets, shapes),
        *_servers(groups, subnets, shapes),
        *_nodes(spec, subnets, shapes),
        *_beside(spec, subnets, shapes),
    ]
    problems = [*shapes.problems, *_room(spec, machines, subnets)]
    problems += services_problems(spec, oci, subnets)
    problems += [problem_at(spec, *each) for each in lustre_rules(spec)]
    volumes = tuple(_volumes(spec, groups, catalog, problems))
    if problems:
        raise GridwrightError(*problems)
    return OciLayout(spec.name, oci, subnets, tuple(machines), volumes)


@dataclass(frozen=True, slots=True)
class _Group:
    filesystem: str
    role: OciRole
    servers: Servers
    targets: tuple[list[Target], ...] = ()
    """Of each server of a Lustre."""
    pools: Mapping[str, Disks] = field(default_factory=dict)
    """Further disks of servers in pairs."""

    @property
    def are_pairs(self) -> bool:
        return self.role is OciRole.NSD

    def names(self) -> list[str]:
        return [f"{self.filesystem}-{self.role}{number}" for number in range(1, self.servers.count + 1)]


def _server_groups(spec: GridSpec) -> Iterator[_Group]:
    for name, shared in shared_disk_file_systems(spec).items():
        if shared.nsd is not None:
            yield _Group(name, OciRole.NSD, shared.nsd, pools=shared.pool_disks)
    for name, lustre in built_lustres(spec).items():
        for role, servers in server_roles(lustre):
            yield _Group(name, OciRole(role), servers, tuple(targets_of_servers(name, lustre, role, servers)))


_Subnets = dict[str, ipaddress.IPv4Network]


def _outside(spec: GridSpec, oci: Oci, subnets: _Subnets, shapes: Shapes) -> Iterator[OciMachine]:
    """The bastion host and the grid control server."""
    if oci.bastion == "host":
        shape, ocpus, memory = shapes.words(oci.login, "oci", "login")
        yield OciMachine(
            name=LOGIN, role=OciRole.LOGIN, group=OciRole.LOGIN, shape=shape, ocpus=ocpus, memory_gib=memory,
            subnet="public", address=_at(subnets["public"], FIRST_ADDRESS), fault_domain=1,
        )  # fmt: skip
    if spec.scheduler.needs_head_node:
        shape, ocpus, memory = shapes.words(oci.head, "oci", "head")
        yield OciMachine(
            name=CONTROLLER, role=OciRole.HEAD, group=OciRole.HEAD, shape=shape, ocpus=ocpus,
            memory_gib=memory, subnet="fs", address=_at(subnets["fs"], FIRST_ADDRESS), fault_domain=3,
        )  # fmt: skip


def _servers(groups: Sequence[_Group], subnets: _Subnets, shapes: Shapes) -> Iterator[OciMachine]:
    offset = FIRST_SERVER
    for group in groups:
        given = group.servers.instance
        shape, ocpus, memory = shapes.words(given, "filesystems", group.filesystem, group.role, "instance")
        two = shapes.has_two_cards(given)
        for number, name in enumerate(group.names()):
            # The servers of a pair follow each other, and so are never in one fault domain.
            yield OciMachine(
                name=name, role=group.role, group=group.filesystem, shape=shape, ocpus=ocpus,
                memory_gib=memory, subnet="storage" if two else "fs",
                address=_at(subnets["storage" if two else "fs"], offset),
                second_address=_at(subnets["fs"], offset) if two else None,
                fault_domain=number % FAULT_DOMAINS + 1,
                pair=number // 2 + 1 if group.are_pairs else 0,
            )  # fmt: skip
            offset += 1


def _nodes(spec: GridSpec, subnets: _Subnets, shapes: Shapes) -> Iterator[OciMachine]:
    network = subnets["fs"]
    offset = FIRST_COMPUTE if network.num_addresses > 2 * FIRST_COMPUTE else SMALL_COMPUTE
    for group, nodes in spec.nodes.items():
        shape, ocpus, memory = shapes.words(nodes.instance or "", "nodes", group, "instance")
        for number, name in enumerate(nodes.node_names(group)):
            yield OciMachine(
                name=name, role=OciRole.COMPUTE, group=group, shape=shape, ocpus=ocpus, memory_gib=memory,
                subnet="fs", address=_at(network, offset), fault_domain=number % FAULT_DOMAINS + 1,
            )  # fmt: skip
            offset += 1


def _beside(spec: GridSpec, subnets: _Subnets, shapes: Shapes) -> Iterator[OciMachine]:
    """Machines without the scheduler, from the upper end of the nodes' subnet."""
    offset = subnets["fs"].num_addresses - 2
    for group, machines in spec.machines.items():
        shape, ocpus, memory = shapes.words(machines.instance or "", "machines", group, "instance")
        for name in machines.machine_names(group):
            offset -= 1
            yield OciMachine(
                name=name, role=OciRole.MACHINE, group=group, shape=shape, ocpus=ocpus, memory_gib=memory,
                subnet="fs", address=_at(subnets["fs"], offset), fault_domain=1,
            )  # fmt: skip


def _at(network: ipaddress.IPv4Network, offset: int) -> ipaddress.IPv4Address:
    """An address; beyond the range it is one outside, which `_room` tells of."""
    return network.network_address + offset


def _room(spec: GridSpec, machines: Sequence[OciMachine], subnets: _Subnets) -> Iterator[Problem]:
    for name, network in subnets.items():
        last = network.num_addresses - 2
        taken = [
            each.second_address if name == "fs" and each.second_address else each.address
            for each in machines
            if each.subnet == name or (name == "fs" and each.second_address)
        ]
        offsets = [int(each) - int(network.network_address) for each in taken]
        if any(each > last for each in offsets) or len(set(offsets)) < len(offsets):
            yield problem_at(
                spec,
                ("oci", "subnets", name) if spec.section(Oci) else ("oci",),
                f"subnet {name}, {network}, has fewer addresses than the {len(taken)} machines in it need",
                "write a larger oci.network, or a larger part of it",
            )


def _volumes(
    spec: GridSpec, groups: Sequence[_Group], catalog: Catalog, problems: list[Problem]
) -> Iterator[OciVolume]:
    for group in groups:
        disks = group.servers.disks
        if (disks is None and not group.are_pairs) or (disks is not None and disks.type == INSTANCE_STORE):
            continue  # the rules of Lustre tell it
        if disks is None:
            problems.append(
                problem_at(
                    spec,
                    ("filesystems", group.filesystem, group.role),
                    f"the {group.role.upper()} servers have no disks, and cannot be built",
                    "add disks: {type: balanced, count: 10, size: 1 TiB}",
                )
            )
            continue
        places: dict[str, tuple[Disks, tuple[str, ...]]] = {"": (disks, (group.role, "disks"))}
        places |= {name: (each, ("pools", name, "disks")) for name, each in group.pools.items()}
        last = len(DEVICE_LETTERS) - 1
        for pool, (each, below) in places.items():
            field = ("filesystems", group.filesystem, *below, "type")
            kind = _volume_kind(spec, each, field, catalog, problems)
            if kind is not None and group.are_pairs:
                yield from _of_pairs(spec, group, kind, each, pool, last)
            elif kind is not None:
                yield from _of_servers(spec, group, kind)
            last -= 2 * (each.count or 1) if pool else 0


def _volume_kind(
    spec: GridSpec, disks: Disks, field: tuple[str, ...], catalog: Catalog, problems: list[Problem]
) -> tuple[int, int] | None:
    """GiB of a volume, and VPUs for each; None where the catalogue does not know its type, which is noted."""
    try:
        volume = catalog.volume(disks.type, spec.provider)
    except GridwrightError as error:
        problems += [problem_at(spec, field, each.what, each.remedy or "") for each in error.problems]
        return None
    return int(disks.size or DEFAULT_VOLUME) // GIB, int(volume.figure("vpus"))


def _of_pairs(
    spec: GridSpec, group: _Group, kind: tuple[int, int], disks: Disks, pool: str, last: int
) -> Iterator[OciVolume]:
    """Volumes that both of a pair attach, and take turns in being the first server of.

    Those of pools have device names from the `last` one down, so that they and others stay when more are
    added to the first pool or to the last one.
    """
    names = group.names()
    of_pool = f"-{pool}" if pool else ""
    for pair, first in enumerate(range(0, len(names) - 1, 2), start=1):
        both = (names[first], names[first + 1])
        for index in range(2 * (disks.count or 1)):
            yield OciVolume(
                name=f"{spec.name}-{group.filesystem}-p{pair}{of_pool}-v{index + 1:02d}",
                filesystem=group.filesystem, role=group.role, pair=pair, index=index, gib=kind[0],
                vpus_per_gib=kind[1], servers=both if index % 2 == 0 else (both[1], both[0]),
                device=device(last - index if pool else index), pool=pool,
            )  # fmt: skip


def _of_servers(spec: GridSpec, group: _Group, kind: tuple[int, int]) -> Iterator[OciVolume]:
    """Volumes of a Lustre's servers, one target each."""
    for name, targets in zip(group.names(), group.targets, strict=True):
        for index, target in enumerate(targets):
            yield OciVolume(
                name=f"{spec.name}-{name}-v{index + 1:02d}", filesystem=group.filesystem, role=group.role,
                pair=0, index=index, gib=kind[0], vpus_per_gib=kind[1], servers=(name,),
                device=device(index), target=target,
            )  # fmt: skip


# What cannot be built on OCI of a Lustre on servers of the grid's own, each with the nearest right value.

MOST_VOLUMES = 32
"""Volumes that one instance attaches (OCI, Block Volume, limits; facts oci-scale)."""
_EXAMPLES = ServerExamples(
    mds="{instance: VM.Standard.E5.Flex(8), disks: {type: higher-performance, size: 1 TiB}}",
    disks="{type: balanced, count: 8, size: 1 TiB}",
    volume="balanced",
)


def lustre_rules(spec: GridSpec) -> Iterator[WrongField]:
    """Fields that are wrong, whatever the catalogue knows of shapes and volumes."""
    yield from lustre_problems(spec, _EXAMPLES)
    yield from _too_many_volumes(spec)


def report_lustre_rules(site: Site) -> None:
    """Note them for `check`; one that is only predicted, without section oci, may lack what is built."""
    rules = _too_many_volumes if site.spec.section(Oci) is None else lustre_rules
    for each in rules(site.spec):
        site.report(*each)


def _too_many_volumes(spec: GridSpec) -> Iterator[WrongField]:
    for name, lustre in built_lustres(spec).items():
        for role, servers in server_roles(lustre):
            count = 1 if servers.disks is None else servers.disks.count or 1
            if count > MOST_VOLUMES:
                yield (
                    ("filesystems", name, role, "disks", "count"),
                    f"an instance attaches {MOST_VOLUMES} volumes at most, and each {role.upper()} of {name} "
                    f"would have {count}",
                    f"write {MOST_VOLUMES}, or more servers",
                )


# Names of what a grid has on OCI, and the tags by which all of it is found again.

GRID_TAG, PART_TAG = "gridwright-grid", "gridwright-part"
STORAGE, GRID = "storage", "grid"
"""The two roots, which are directories of what is rendered and stacks of Resource Manager."""


def stack_name(grid: str, part: str) -> str:
    """The name of a stack of Resource Manager."""
    return f"gridwright-{grid}-{part}"


def is_there(resource: Any, grid: str) -> bool:  # noqa: ANN401 - the SDK has no types
    """Whether an instance or a volume is the grid's, and is not gone or going."""
    tagged = (resource.freeform_tags or {}).get(GRID_TAG) == grid
    return tagged and resource.lifecycle_state not in ("TERMINATED", "TERMINATING")


def tags(layout: OciLayout, part: str) -> dict[str, str]:
    """Free-form tags of everything in a root; those of the site cannot hide the grid's."""
    return {**layout.oci.tags, GRID_TAG: layout.grid, PART_TAG: part}


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
