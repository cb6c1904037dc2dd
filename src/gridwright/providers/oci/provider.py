"""Oracle Cloud as a provider: its findings and rules, `status`, and what `up`, `down` and others do there."""

from __future__ import annotations

import ipaddress
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from gridwright.catalog import Catalog, InstanceType, load_catalog
from gridwright.errors import Finding, GridwrightError
from gridwright.filesystems.kind import CloudFindings
from gridwright.filesystems.site import Site
from gridwright.providers.boot.bundle import pointer
from gridwright.providers.cloud import CloudPricing, NamedType, first_free, named_types, written_range
from gridwright.providers.file_servers import built_lustres, shared_disk_file_systems
from gridwright.providers.machines import (
    CONTROLLER,
    machines_of_types,
    nodes_without_jobs,
    scheduler_not_packaged,
)
from gridwright.providers.oci.deploy import deployer_of
from gridwright.providers.oci.down import down, look, question
from gridwright.providers.oci.files import oci_files
from gridwright.providers.oci.head import oci_head
from gridwright.providers.oci.layout import (
    DEFAULT_VOLUME,
    DEVICE_LETTERS,
    GRID,
    STORAGE,
    OciLayout,
    costs_of,
    has_platform_image,
    is_there,
    oci_layout,
    report_lustre_rules,
    section_of,
    stack_name,
    tiered_lustres,
)
from gridwright.providers.oci.preflight import check
from gridwright.providers.oci.resource_manager import POLL_S, Deployer, outputs
from gridwright.providers.oci.section import (
    LARGEST_NETWORK,
    NETWORK,
    SERVICES,
    SMALLEST_NETWORK,
    SUBNETS,
    Oci,
    default_subnets,
)
from gridwright.providers.oci.session import COMPUTE, OciCloud
from gridwright.providers.oci.terraform.boot import PARTS, BootReports, object_text, part_of
from gridwright.providers.oci.up import OciUp, up
from gridwright.providers.provider import Caller, Provider, Removal
from gridwright.providers.rendering import Notes, Rendering
from gridwright.setup.distributions import distribution
from gridwright.setup.playbook import Hosts
from gridwright.spec.fields import Change, Update
from gridwright.spec.filesystem import FILESYSTEMS, Disks, Servers
from gridwright.spec.model import GridSpec
from gridwright.spec.provider import MetadataService, ProviderSection, Purchasing, SharedVolumes
from gridwright.units import format_rate
from gridwright.yamltext.fields import FieldError
from gridwright.yamltext.structure import KEY, Refused

if TYPE_CHECKING:
    from gridwright.filesystems.resources import Cost
    from gridwright.providers.machines import HostMachine
    from gridwright.providers.provider import LinkedRepository, Preflight
    from gridwright.repository.store import ObjectStore
    from gridwright.schedulers.head_node import HeadNode
    from gridwright.schedulers.machines import GridMachines, SchedulerSetup
    from gridwright.spec.linked import LinkedDirectory


def oci_findings(spec: GridSpec) -> Iterator[Finding]:
    """All findings about a grid on OCI; what the catalogue does not know is passed over here."""
    for name, filesystem in spec.filesystems.items():
        kind = FILESYSTEMS.get(filesystem.type)
        if isinstance(kind, CloudFindings):
            yield from kind.cloud_findings(name, filesystem, spec)
    yield from _scheduler(spec)
    yield from _no_server_image(spec)
    yield from _no_client_packages(spec)
    catalog = load_catalog(spec.file.parent if spec.file else None)
    for each in _data_servers(spec):
        try:
            yield from _volumes_below_card(each, spec, catalog)
        except GridwrightError:
            # `check` tells of unknown shapes and volumes by itself, with their places.
            continue


@dataclass(frozen=True, slots=True)
class _DataServers:
    """Servers whose volumes hold the data of a file system."""

    filesystem: str
    servers: Servers | None
    disks: Disks | None
    """Those of each server that new files go to."""
    most: int
    """How many of these each can have: the servers of a pair attach those of both, in all pools."""
    words: str
    """What a server is to its volumes."""


def _data_servers(spec: GridSpec) -> Iterator[_DataServers]:
    most = len(DEVICE_LETTERS)
    for name, shared in shared_disk_file_systems(spec).items():
        every = [*shared.pool_disks.values(), *([shared.nsd.disks] if shared.nsd else [])]
        others = sum(each.count or 1 for each in every if each is not None and each is not shared.file_disks)
        yield _DataServers(name, shared.nsd, shared.file_disks, most // 2 - others, "is the first of")
    for name, lustre in built_lustres(spec).items():
        yield _DataServers(name, lustre.oss, lustre.oss.disks if lustre.oss else None, most, "has")


def _scheduler(spec: GridSpec) -> Iterator[Finding]:
    oci = spec.section(Oci)
    if oci is not None:
        yield from nodes_without_jobs(spec, "OCI")
        yield from scheduler_not_packaged(spec, distribution(oci.distribution))


def _no_server_image(spec: GridSpec) -> Iterator[Finding]:
    oci = spec.section(Oci)
    if oci is None or oci.server_image is not None or oci.image is not None:
        return
    for name in built_lustres(spec):
        yield Finding(
            "warning",
            "no-server-image",
            f"Lustre {name} is built, and no image is named whose kernel has the server packages of Lustre: "
            "its servers do not come up",
            "Add server_image: ocid1.image... to oci; gridwright help oci says how to make one",
        )


def _no_client_packages(spec: GridSpec) -> Iterator[Finding]:
    """The platform images of OCI have no client of Lustre, and no repository is right for all kernels."""
    oci = spec.section(Oci)
    named = any(
        spec.setup.variables.get(each) for each in ("lustre_client_repository", "lustre_client_packages")
    )
    if oci is None or oci.image is not None or named:
        return
    for name in (*built_lustres(spec), *tiered_lustres(spec)):
        yield Finding(
            "warning",
            "no-client-packages",
            f"nodes mount Lustre {name}, no repository with its client is named, and the platform image of "
            f"{oci.distribution} has none: nodes do not mount it",
            "Write setup: {variables: {lustre_client_repository: ...}}, one for the kernel of that image, or "
            "image: with the OCID of an image that has the client",
        )
        return


def _volumes_below_card(each: _DataServers, spec: GridSpec, catalog: Catalog) -> Iterator[Finding]:
    """The rule of paper 003: volumes x rate reach the rate of the server's card (facts oci-scale).

    Only of servers with two cards: with one, volumes and clients share it, and the model reckons with that.
    """
    servers, disks, name = each.servers, each.disks, each.filesystem
    if servers is None or disks is None:
        return
    network = catalog.instance(servers.instance, spec.provider).network
    if network.nics < 2:
        return
    count = disks.count or 1
    rate = catalog.volume(disks.type, spec.provider).limits(int(disks.size or DEFAULT_VOLUME))
    card = network.baseline_bytes_per_s / network.nics
    volumes = count * rate.steady_bytes_per_s
    if volumes >= card:
        return
    enough, most = math.ceil(card / rate.steady_bytes_per_s), each.most
    more = (
        f"Write count: {enough} under its disks"
        if enough <= most
        else f"Take larger volumes or a faster type: {most} disks a server are the most"
    )
    yield Finding(
        "info",
        "volumes-below-card",
        f"each server of {name} {each.words} {count} volumes that pass {format_rate(volumes)} together, "
        f"and its card passes {format_rate(card)}: the volumes bind",
        f"{more}; or keep it where predict finds the libraries' rates met",
    )


LOGIN_GROUP = "login"
"""The bastion host is called login1, as the first node of a group of this name would be."""
SMALLEST_SUBNET = 30
"""Longest prefix of a subnet (OCI, VCNs and subnets)."""

_Network = ipaddress.IPv4Network
_Problems = Iterator[Refused]


def oci_problems(data: Mapping[str, Any]) -> _Problems:
    """Problems between fields of a grid on OCI: a path and what is wrong there."""
    oci = data.get("oci")
    if not isinstance(oci, Mapping):
        return
    if not data.get("region"):
        yield (
            ("oci",),
            FieldError(
                "the spec says how the grid lies on OCI, and not in which region",
                "add region: us-ashburn-1, or another of gridwright catalog list --provider oci",
            ),
        )
    if oci.get("vcn") is not None:
        for name in ("network", "subnets"):
            if name in oci:
                yield (
                    ("oci", name),
                    FieldError(
                        f"{name} is of a VCN that the grid makes, and vcn names one", f"remove {name}"
                    ),
                )
    else:
        yield from _subnets(oci)
    if oci.get("state") is not None and oci.get("deploy", "resource-manager") == "resource-manager":
        yield (
            ("oci", "state"),
            FieldError(
                "Resource Manager keeps the state itself, and state names a directory for it",
                "remove state, or write deploy: tofu",
            ),
        )
    distribution = oci.get("distribution", "")
    if isinstance(distribution, str) and oci.get("image") is None and not has_platform_image(distribution):
        yield (
            ("oci", "distribution"),
            FieldError(
                f"OCI has no platform image of {distribution} that is known here",
                "add image: with the OCID of your own, or write ubuntu-24.04 or ol-9",
            ),
        )
    for section in ("nodes", "machines"):
        groups = data.get(section)
        for name in groups if isinstance(groups, Mapping) else ():
            if name in (CONTROLLER, LOGIN_GROUP):
                yield (
                    (section, name, KEY),
                    FieldError(f"{name} is what the grid's own machine is called", "choose another name"),
                )


def _subnets(oci: Mapping[str, Any]) -> _Problems:
    """Subnets are parts of the network, and apart from each other."""
    network = written_range(oci.get("network", NETWORK))
    given = oci.get("subnets")
    # The models tell of a network of another size, which has no three subnets.
    if network is None or not LARGEST_NETWORK <= network.prefixlen <= SMALLEST_NETWORK:
        return
    if not isinstance(given, Mapping):
        return
    named = {
        name: found for name in (*SUBNETS, SERVICES) if (found := written_range(given.get(name))) is not None
    }
    taken = {**default_subnets(network), **named}
    for name, subnet in named.items():
        others = {other: each for other, each in taken.items() if other != name}
        what = _problem(subnet, network, others)
        if what is not None:
            size = min(max(subnet.prefixlen, network.prefixlen + 1), SMALLEST_SUBNET)
            near = first_free(network, others.values(), size)
            remedy = f"write {near}" if near else "write a larger oci.network, or smaller subnets"
            taken[name] = near or subnet
            yield ("oci", "subnets", name), FieldError(what, remedy)


def _problem(subnet: _Network, network: _Network, others: Mapping[str, _Network]) -> str | None:
    if not subnet.subnet_of(network):
        return f"{subnet} is outside the network, {network}"
    if subnet.prefixlen > SMALLEST_SUBNET:
        return f"{subnet} is smaller than a subnet of OCI can be"
    for name, other in others.items():
        if subnet.overlaps(other):
            return f"{subnet} has addresses of subnet {name}, {other}"
    return None


@dataclass(frozen=True, slots=True)
class OciMachineStatus:
    """One machine of the layout."""

    name: str
    role: str
    state: str
    """As OCI calls it; `missing` where there is none."""
    fault_domain: str | None
    set_up: str
    """How its own set-up is: done, or what it is at; empty of a machine that is missing."""


@dataclass(frozen=True, slots=True)
class OciDrift:
    """One resource that is not as the state has it."""

    stack: str
    address: str
    how: str
    """changed or gone."""


@dataclass(frozen=True, slots=True)
class OciVolumeStatus:
    """One volume: the servers it is for, and those that it is attached to."""

    name: str
    wanted: tuple[str, ...]
    attached: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        """Whether each of its servers has it, and nobody else."""
        return sorted(self.wanted) == sorted(self.attached)


@dataclass(frozen=True, slots=True)
class OciStatus:
    """See Status."""

    grid: str
    region: str
    has_storage: bool
    has_grid: bool
    machines: tuple[OciMachineStatus, ...]
    volumes: tuple[OciVolumeStatus, ...]
    drift: tuple[OciDrift, ...] | None = None
    """What somebody else has changed; None where nobody looked."""

    @property
    def state(self) -> str:
        """not-up, storage-only, up, setting-up or broken."""
        if not self.has_grid:
            return "storage-only" if self.has_storage else "not-up"
        if self.whole:
            return "up"
        at_it = all(each.set_up == "done" or not each.set_up.startswith("failed") for each in self.machines)
        return "setting-up" if self._is_there and at_it and not self.drift else "broken"

    @property
    def whole(self) -> bool:
        """Whether all machines run and are set up, all volumes are at all their servers, and none drifted."""
        return self._is_there and all(each.set_up == "done" for each in self.machines) and not self.drift

    @property
    def _is_there(self) -> bool:
        running = all(each.state == "RUNNING" for each in self.machines)
        return self.has_grid and self.has_storage and running and all(each.is_whole for each in self.volumes)

    def document(self) -> dict[str, Any]:
        """See Result."""
        return {**asdict(self), "state": self.state, "whole": self.whole}

    def text(self) -> str:
        """See Result."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"grid {self.grid} in {self.region}: {self.state}"
        if not self.has_grid:
            return
        for each in self.machines:
            set_up = f"set-up: {each.set_up}" if each.set_up else "-"
            yield f"  {each.name}  {each.role}  {each.state}  {each.fault_domain or '-'}  {set_up}"
        whole = sum(each.is_whole for each in self.volumes)
        yield f"  volumes attached to all their servers: {whole} of {len(self.volumes)}"
        for one in self.volumes:
            if not one.is_whole:
                is_at, belongs_to = ", ".join(one.attached) or "none", ", ".join(one.wanted)
                yield f"  {one.name}: attached to {is_at}, not to {belongs_to}"
        if self.drift is not None:
            yield f"  resources that are not as the state has them: {len(self.drift) or 'none'}"
            yield from (f"  {each.address} is {each.how} ({each.stack})" for each in self.drift)
            if self.drift:
                yield "  gridwright up shows what it would mend, and mends it"


def status(
    spec: GridSpec, caller: Caller | None = None, *, drift: bool = False, poll_s: float = POLL_S
) -> OciStatus:
    """How the grid stands by what OCI says now; nothing is changed. Raises GridwrightError.

    With `drift` each resource is compared with the state, which takes minutes; `caller` may stop that.
    """
    oci = section_of(spec, "status")
    cloud, layout = OciCloud(str(spec.region)), oci_layout(spec)
    deployer = deployer_of(spec, oci, cloud, caller or Caller(), poll_s=poll_s)
    stacks = {part: deployer.find(stack_name(spec.name, part)) for part in (STORAGE, GRID)}
    known = {} if stacks[STORAGE] is None else outputs(deployer.state(stacks[STORAGE]))
    machines = {
        each.display_name: each
        for each in cloud.listed(*COMPUTE, "list_instances", oci.compartment)
        if is_there(each, spec.name)
    }
    return OciStatus(
        spec.name,
        cloud.region,
        stacks[STORAGE] is not None,
        stacks[GRID] is not None,
        tuple(_machines(cloud, layout, machines, known)),
        tuple(_volumes(cloud, layout, machines, known.get("volumes", {}))),
        _drift(deployer, stacks) if drift else None,
    )


def _machines(
    cloud: OciCloud, layout: OciLayout, found: Mapping[str, Any], known: Mapping[str, Any]
) -> Iterator[OciMachineStatus]:
    """Machines with how their set-up is: of the bundle that is there for them now."""
    where = (str(known.get("namespace", "")), str(known.get("bucket", "")))
    bundles = {part: object_text(cloud, *where, pointer(part)) for part in PARTS} if all(where) else {}
    reports = BootReports(cloud, *where).look(set(found)) if all(where) else {}
    for each in layout.machines:
        instance = found.get(each.name)
        if instance is None:
            yield OciMachineStatus(each.name, each.role.value, "missing", None, "")
            continue
        report = reports.get(each.name)
        is_current = report is not None and report.is_of(instance.id, bundles.get(part_of(each.role)))
        told = report.text if report is not None and is_current else "nothing told yet"
        yield OciMachineStatus(
            each.name, each.role.value, instance.lifecycle_state, instance.fault_domain, told
        )


def _volumes(
    cloud: OciCloud, layout: OciLayout, machines: Mapping[str, Any], ids: Mapping[str, str]
) -> Iterator[OciVolumeStatus]:
    names = {each.id: name for name, each in machines.items()}
    servers: dict[str, Counter[str]] = defaultdict(Counter)
    for each in cloud.listed(*COMPUTE, "list_volume_attachments", layout.oci.compartment):
        if each.lifecycle_state == "ATTACHED" and each.instance_id in names:
            servers[each.volume_id][names[each.instance_id]] += 1
    for one in layout.volumes:
        yield OciVolumeStatus(one.name, tuple(one.servers), tuple(sorted(servers[ids.get(one.name, "")])))


def _drift(deployer: Deployer, stacks: Mapping[str, Any]) -> tuple[OciDrift, ...]:
    """Resources of both stacks that somebody else has changed or removed."""
    with deployer.held():
        return tuple(
            OciDrift(stack.display_name, address, how)
            for stack in stacks.values()
            if stack is not None
            for address, how in deployer.drift(stack)
        )


def report_wrong_shapes(site: Site) -> None:
    """Note shapes of section oci that the catalogue lacks, and one image for two kinds of processor."""
    for each in _of_section(site.spec):
        try:
            site.catalog.instance(each.name, site.spec.provider)
        except GridwrightError as error:
            for problem in error.problems:
                site.report(each.path, problem.what, problem.remedy or "")
    oci = site.spec.section(Oci)
    if oci is None:
        return
    every = [*named_types(site.spec), *_of_section(site.spec)]
    servers = [each for each in every if each.path[0] == "filesystems"] if oci.server_image else []
    if oci.image is not None:
        _report_two_kinds(site, "image", [each for each in every if each not in servers])
    _report_two_kinds(site, "server_image", servers)


def _report_two_kinds(site: Site, field: str, shapes: Sequence[NamedType]) -> None:
    """Note where machines that one image starts have two kinds of processor."""
    first: dict[str, NamedType] = {}
    for each in shapes:
        if (instance := _known(site, each)) is not None:
            first.setdefault(instance.architecture, each)
    if len(first) > 1:
        kinds = ", and ".join(f"{each.what} ({each.name}) {kind}" for kind, each in first.items())
        site.report(
            ("oci", field),
            f"one image starts machines of one kind of processor, and the grid has two: {kinds}",
            f"remove {field}, so that each shape has a platform image of its own, or write shapes of one "
            "kind",
        )


def _of_section(spec: GridSpec) -> Iterator[NamedType]:
    oci = spec.section(Oci)
    if oci is None:
        return
    if oci.bastion == "host":
        yield NamedType(("oci", "login"), "the bastion host", oci.login)
    if spec.scheduler.needs_head_node:
        yield NamedType(("oci", "head"), "the grid control server", oci.head)


def _known(site: Site, each: NamedType) -> InstanceType | None:
    try:
        return site.catalog.instance(each.name, site.spec.provider)
    except GridwrightError:
        return None


class OciPricing(CloudPricing):
    """See PricingProvider."""

    def costs_of(
        self, spec: GridSpec, catalog: Catalog, machines: int, *, has_lustre: bool
    ) -> tuple[Cost, ...]:
        """See PricingProvider."""
        return costs_of(spec, catalog, machines)

    def report_not_offered(self, site: Site) -> None:
        """See PricingProvider."""
        report_wrong_shapes(site)

    def report_too_many_volumes(self, site: Site) -> None:
        """See PricingProvider."""
        report_lustre_rules(site)


class OciComparison:
    """See StateComparison."""

    def drifted(self, spec: GridSpec, caller: Caller) -> OciStatus:
        """See Provider."""
        return status(spec, caller, drift=True)


class LustreRepositories:
    """Repositories that managed Lustre carries."""

    def linked_repository(
        self, spec: GridSpec, directory: LinkedDirectory, store: Callable[[], ObjectStore], caller: Caller
    ) -> LinkedRepository:
        """One of managed Lustre, whose objects are asked for by OCI's own API."""
        from gridwright.providers.oci.object_links import OciLinkedRepository

        return OciLinkedRepository(spec, directory, OciCloud(str(spec.region)), caller)


class OciProvider(Provider):
    """See Provider."""

    name = "oci"
    section = ProviderSection(
        Oci,
        "What only provider oci has. render needs it.",
        Update(Change.REBUILD, "network and machines are made anew"),
    )
    metadata_service = MetadataService(
        # Boot volumes answer by iSCSI at 169.254.0.2, other volumes in 169.254.2.0/24 and beyond, without a
        # password: who reaches them reads the disk of root.
        addresses=("169.254.0.0/16", "fd00:c1::a9fe:a9fe"),
        accounts=("oracle-cloud-agent", "oracle-cloud-agent-updater"),
        # 169.254.169.254 is the name service and the clock of a VCN, too.
        open_tcp=(53,),
        open_udp=(53, 123),
    )
    """OCI, getting instance metadata; essential firewall rules; DNS in your VCN; configuring NTP. The
    IPv6 address is that of the oci SDK for Python 2.189.0 (instance_principals_security_token_signer.py)."""
    is_cloud = True
    market = Purchasing(
        one_price_everywhere=True, planned_volumes=("lower-cost", "balanced", "higher-performance")
    )
    shared_volumes = SharedVolumes(has_pools=True)
    pricing = OciPricing()
    comparison = OciComparison()
    links = LustreRepositories()

    def problems(self, data: Mapping[str, Any]) -> Iterator[Refused]:
        """See ProviderKind."""
        return oci_problems(data)

    def findings(self, spec: GridSpec) -> Iterator[Finding]:
        """See ProviderKind."""
        return oci_findings(spec)

    def hosts(self, spec: GridSpec, machine: str) -> Hosts:
        """Nodes by name, and the node of the scheduler's own service."""
        compute = super().hosts(spec, machine).names()
        return Hosts.named(compute=compute, head=[CONTROLLER] if spec.scheduler.needs_head_node else [])

    def head_node(self, spec: GridSpec) -> HeadNode:
        """The machine with the scheduler, through the bastion; this one where it is the grid's."""
        return oci_head(spec)

    def render(self, spec: GridSpec, machine: HostMachine, release: str | None) -> Rendering:
        """Two Terraform roots, beside the playbook; the playbook alone where the spec has no section oci."""
        if spec.section(Oci) is None:
            return super().render(spec, machine, release)
        return Rendering(*oci_files(spec, release))

    def up(self, spec: GridSpec, caller: Caller, *, replace: frozenset[str] = frozenset()) -> OciUp:
        """Make the grid by Resource Manager, or change it."""
        return up(spec, caller, replace)

    def preflight(self, spec: GridSpec) -> Preflight:
        """See Provider."""
        return check(spec)

    def status(self, spec: GridSpec) -> OciStatus:
        """How the grid stands."""
        return status(spec)

    def removal(self, spec: GridSpec, *, delete_data: frozenset[str] = frozenset()) -> Removal:
        """What down would do."""
        found = look(spec, delete_data)
        return Removal(question(found), lambda caller: down(found, caller), is_long=True)

    def machines(self, spec: GridSpec, machine: HostMachine) -> GridMachines:
        """Nodes as the catalogue lists their shapes."""
        return machines_of_types(spec)

    def notes(self, spec: GridSpec, setup: SchedulerSetup) -> Notes:
        """Why there are no templates, where the spec has no section oci; whose cores and memory they are."""
        return Notes(
            at_end="Templates that make nodes and file systems need section oci, which this spec lacks; "
            "cores and memory are those of the catalogue, less 5 % of the memory for firmware and kernel."
        )


OCI = OciProvider()
