"""AWS as a provider: nodes by EC2 instance type, made by two CloudFormation stacks.

Also what will hurt in a valid spec, such as more volumes of a machine than its type attaches (EC2 refuses the
one too many when the machine starts, or when its claim attaches it), and builds of images by Packer.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from gridwright.catalog import InstanceType, load_catalog
from gridwright.catalog.instances import free_attachments, xen_types
from gridwright.errors import Finding, GridwrightError, input_error
from gridwright.filesystems.kind import CloudFindings
from gridwright.filesystems.site import Site
from gridwright.providers.aws.costs import ROOT_VOLUME, ROOT_VOLUME_SIZE, costs_of
from gridwright.providers.aws.layout import (
    DEFAULT,
    ROLE,
    AwsLayout,
    Role,
    aws_layout,
    distribution_of_nodes,
    fsx_file_systems,
    paired_servers,
    room_problems,
)
from gridwright.providers.aws.names import DISTRIBUTION_TAG
from gridwright.providers.aws.rules import aws_problems, nearest_types, report_not_offered
from gridwright.providers.aws.section import Aws
from gridwright.providers.boot.bundle import boot_file, known_distributions
from gridwright.providers.cloud import CloudPricing
from gridwright.providers.file_servers import built_lustres
from gridwright.providers.machines import (
    lacks_scheduler,
    machines_of_types,
    nodes_without_jobs,
    scheduler_not_packaged,
)
from gridwright.providers.provider import Caller, Provider, Removal
from gridwright.providers.rendering import Rendering, markdown
from gridwright.schedulers import scheduler_kind
from gridwright.setup.distributions import Distribution
from gridwright.setup.playbook import Hosts, image_playbook_files
from gridwright.spec.fields import Change, Update
from gridwright.spec.filesystem import FILESYSTEMS, INSTANCE_STORE
from gridwright.spec.load import problem_at
from gridwright.spec.model import GridSpec
from gridwright.spec.provider import MetadataService, ProviderSection, Purchasing, SharedVolumes
from gridwright.yamltext.structure import Refused

if TYPE_CHECKING:
    from gridwright.catalog import Catalog
    from gridwright.filesystems.resources import Cost
    from gridwright.providers.aws.instances import AwsStatus
    from gridwright.providers.aws.stopping import AwsStarted, AwsStopped
    from gridwright.providers.aws.up import AwsUp
    from gridwright.providers.machines import HostMachine
    from gridwright.providers.provider import LinkedRepository, Preflight
    from gridwright.repository.store import ObjectStore
    from gridwright.schedulers.head_node import HeadNode
    from gridwright.spec.linked import LinkedDirectory


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


TEMPLATE = "image.json"
PLAYBOOK = "playbook"
_THERE = "/tmp/gridwright-image"  # noqa: S108 - of the machine that is built on, which is removed then
_BUILT_ON = {"x86_64": "m6i.large", "arm64": "m6g.large"}
"""Types that packages are installed on in some minutes, for less than 0.10 USD/h (catalogue, us-east-1)."""
_LEAST = {"iops": 3000, "throughput": 125}
"""Of a gp3 volume (EBS User Guide); Packer asks for them."""
_PROGRAMS = ("begin.sh", "bake.sh", "bake.py", "system_packages.py", "boto3.lock")


def image_build(spec: GridSpec, release: str | None) -> Rendering:
    """All files of it; the same spec gives the same bytes.

    Raises GridwrightError (INPUT) where the spec does not tell which distribution the image has.
    """
    from gridwright.providers.aws.machine_files import provided

    layout = aws_layout(spec)
    found = distribution_of_nodes(layout.aws)
    if found is None:
        what = f"nothing tells what image {layout.aws.images.compute} has"
        remedy = "write distribution beside it, such as rocky-9; gridwright help setup lists them"
        raise GridwrightError(problem_at(spec, ("aws", "images", "compute"), what, remedy))
    threads = layout.aws.hyperthreads
    scheduler = scheduler_kind(spec.scheduler).setup(
        spec, lambda: machines_of_types(spec, threads=threads), release
    )
    playbook: dict[str, str | bytes] = {
        **image_playbook_files(spec, scheduler, provided(spec, layout)),
        **{f"boot/{name}": boot_file("aws", name) for name in _PROGRAMS},
        "boot/distributions.json": known_distributions(),
    }
    template = packer_template(spec, layout, found)
    files: dict[str, str | bytes] = {
        TEMPLATE: json.dumps(template, indent=2) + "\n",
        **{f"{PLAYBOOK}/{name}": content for name, content in playbook.items()},
    }
    files["README.md"] = markdown(
        "gridwright.providers.aws",
        "image.md.j2",
        spec=spec,
        distribution=found,
        source=layout.aws.images.compute,
        template=TEMPLATE,
        proxy=layout.aws.proxy,
        slurm_is_missing=lacks_scheduler(spec, found),
        roles=[each.name for each in (*spec.setup.before, *spec.setup.after)],
    )
    return Rendering({name: files[name] for name in sorted(files)}, scheduler.findings, Hosts())


def packer_template(spec: GridSpec, layout: AwsLayout, found: Distribution) -> dict[str, Any]:
    """The template in Packer's JSON, for Packer 1.6 and newer."""
    aws = layout.aws
    architecture = _architecture(spec, layout)
    builder: dict[str, Any] = {
        "type": "amazon-ebs",
        "region": "{{user `region`}}",
        "vpc_id": "{{user `vpc`}}",
        "subnet_id": "{{user `subnet`}}",
        "instance_type": "{{user `instance_type`}}",
        **_source(aws.images.compute, found, architecture),
        "ssh_username": found.user,
        "ssh_clear_authorized_keys": True,
        "ami_name": f"gridwright-{spec.name}-{found.name}-{{{{timestamp}}}}",
        "ami_description": f"{found.title} with the packages of grid {spec.name}",
        "encrypt_boot": True,
        "launch_block_device_mappings": [
            {
                "device_name": found.root_device,
                "volume_type": ROOT_VOLUME,
                "volume_size": int(ROOT_VOLUME_SIZE) // 2**30,
                **_LEAST,
                "delete_on_termination": True,
            }
        ],
        "tags": {
            DISTRIBUTION_TAG: found.name,
            "gridwright:image-of": spec.name,
            "gridwright:source-image": "{{ .SourceAMI }} {{ .SourceAMIName }}",
        },
        "run_tags": {"Name": f"gridwright image of {spec.name}", "gridwright:image-of": spec.name},
    }
    if aws.kms_key is not None:
        builder["kms_key_id"] = aws.kms_key
    variables = {
        "region": spec.region,
        "instance_type": _BUILT_ON[architecture],
        "vpc": "",
        "subnet": "",
        "proxy": aws.proxy or "",
    }
    proxies = " ".join(f"{name}='{{{{user `proxy`}}}}'" for name in ("http_proxy", "https_proxy"))
    return {
        "description": f"Image for machines of grid {spec.name}: see README.md",
        "variables": variables,
        "builders": [builder],
        "provisioners": [
            {"type": "shell", "inline": [f"rm -rf {_THERE}", f"mkdir {_THERE}"]},
            {"type": "file", "source": f"{{{{template_dir}}}}/{PLAYBOOK}/", "destination": f"{_THERE}/"},
            {
                "type": "shell",
                "inline": [f"sudo env {proxies} sh {_THERE}/boot/bake.sh", f"sudo rm -rf {_THERE}"],
            },
        ],
    }


def _source(image: str | None, found: Distribution, architecture: str) -> Mapping[str, Any]:
    """The image that the spec names by its ID, or the newest that the distribution publishes."""
    if image is not None and image.startswith("ami-"):
        return {"source_ami": image}
    published = found.image
    if published is None:
        raise input_error(
            f"Gridwright knows no image of {found.title} on AWS",
            where="aws.images",
            remedy="name one by its ID, ami-..., in aws.images.compute",
        )
    filters = {
        "name": published.names(architecture),
        "architecture": architecture,
        "virtualization-type": "hvm",
        "root-device-type": "ebs",
    }
    return {"source_ami_filter": {"filters": filters, "owners": [published.owner], "most_recent": True}}


def _architecture(spec: GridSpec, layout: AwsLayout) -> str:
    """Of the nodes that run jobs."""
    catalog = load_catalog(spec.file.parent if spec.file else None)
    return catalog.instance(layout.of_role(Role.COMPUTE)[0].instance, "aws").architecture


def aws_findings(spec: GridSpec) -> Iterator[Finding]:
    """All findings about a grid on AWS."""
    for check in _CHECKS:
        yield from check(spec)


def _warning(name: str, text: str, remedy: str) -> Finding:
    return Finding("warning", name, text, remedy)


def _of_kinds(spec: GridSpec) -> Iterator[Finding]:
    for name, each in spec.filesystems.items():
        kind = FILESYSTEMS.get(each.type)
        if isinstance(kind, CloudFindings):
            yield from kind.cloud_findings(name, each, spec)


def _key_not_used(spec: GridSpec) -> Iterator[Finding]:
    aws = spec.section(Aws)
    for name, each in fsx_file_systems(spec).items():
        if aws is not None and aws.kms_key and each.deployment == "scratch-2":
            yield _warning(
                "key-not-used",
                f"{name} is a scratch-2, which AWS encrypts with a key of its own: aws.kms_key is not for it",
                "Write deployment: persistent-2, if it must be your key",
            )


def _no_storage_image(spec: GridSpec) -> Iterator[Finding]:
    aws = spec.section(Aws)
    if aws is None or aws.images.storage is not None:
        return
    for name in built_lustres(spec):
        yield _warning(
            "no-server-image",
            f"Lustre {name} is built, and no image is named whose kernel has the server packages of Lustre: "
            "its servers do not come up",
            "Add images: {storage: ami-...} to aws; gridwright help aws says how to make one",
        )


def _distribution_without_image(spec: GridSpec) -> Iterator[Finding]:
    aws = spec.section(Aws)
    if aws is None or aws.images.compute is not None or aws.images.distribution in (None, DEFAULT):
        return
    yield _warning(
        "distribution-without-image",
        f"aws.images says {aws.images.distribution} and names no image: nodes start from the default one, "
        f"{DEFAULT}",
        "Add compute: ami-... to aws.images; gridwright render --image builds one from what the "
        "distribution publishes",
    )


def _no_scheduler_repository(spec: GridSpec) -> Iterator[Finding]:
    aws = spec.section(Aws)
    return scheduler_not_packaged(spec, distribution_of_nodes(aws) if aws is not None else None)


def _volumes_not_made(spec: GridSpec) -> Iterator[Finding]:
    for name, each in spec.filesystems.items():
        disks = each.node_disks
        if spec.section(Aws) is not None and disks is not None and disks.type != INSTANCE_STORE:
            yield _warning(
                "volumes-not-made",
                f"{name} lies on {disks.type} volumes of each node, and set-up stripes and mounts disks "
                f"of an instance store only: {each.path} would be on the root volume",
                "Use nodes with an instance store, or put the libraries on a shared file system",
            )


def _no_owner(spec: GridSpec) -> Iterator[Finding]:
    aws = spec.section(Aws)
    if aws is None:
        return
    missing = [name for name in ("owner", "expires") if getattr(aws, name) is None]
    if missing:
        yield Finding(
            "info",
            "no-owner",
            f"aws has no {' and no '.join(missing)}: nobody can tell from the tags "
            "whose grid it is and until when it is needed",
            f"Add {' and '.join(missing)} to aws",
        )


def _local_scheduler(spec: GridSpec) -> Iterator[Finding]:
    if spec.section(Aws) is not None:
        yield from nodes_without_jobs(spec, "AWS")


def _proxy_outside(spec: GridSpec) -> Iterator[Finding]:
    aws = spec.section(Aws)
    if aws is None or aws.proxy is None:
        return
    try:
        host = ipaddress.IPv4Address(urlsplit(aws.proxy).hostname or "")
    except ValueError:
        inside = False
    else:
        inside = any(host in each for each in aws.networks)
    # A VPC of the site's has the site's own ways.
    if not inside and aws.vpc is None:
        yield _warning(
            "proxy-outside",
            f"machines reach the outside through {aws.proxy} alone, and Gridwright does not connect "
            f"the grid's network {aws.network} with it",
            "Connect the two, by peering or a transit gateway, when the storage stack is there: "
            "gridwright help aws",
        )


_CHECKS: tuple[Callable[[GridSpec], Iterator[Finding]], ...] = (
    _of_kinds,
    _key_not_used,
    _no_storage_image,
    _distribution_without_image,
    _no_scheduler_repository,
    _volumes_not_made,
    _no_owner,
    _local_scheduler,
    _proxy_outside,
)


def _settings_of_pairs(spec: GridSpec) -> Mapping[str, Any] | None:
    """Nodes are members of a cluster, so that none is replaced by itself, or comes."""
    changes = any(group.min is not None for group in spec.nodes.values())
    return None if changes else {"replace_nodes": False}


class AwsPricing(CloudPricing):
    """See PricingProvider."""

    def costs_of(
        self, spec: GridSpec, catalog: Catalog, machines: int, *, has_lustre: bool
    ) -> tuple[Cost, ...]:
        """Login and head node, root volumes, the way out, the load balancer of the console."""
        return costs_of(spec, catalog, machines)

    def report_not_offered(self, site: Site) -> None:
        """See PricingProvider."""
        report_not_offered(site)
        for each in room_problems(site.spec):
            site.report(tuple(str(each.field).split(".")), each.what, each.remedy or "")

    def report_too_many_volumes(self, site: Site) -> None:
        """See PricingProvider."""
        report_too_many_volumes(site)
        report_not_shared(site)


class AwsImages:
    """See ImageBuilds."""

    def render(self, spec: GridSpec, release: str | None) -> Rendering:
        """A template of Packer with the playbook that it runs."""
        return image_build(spec, release)

    def renew(self, spec: GridSpec, caller: Caller, *, replace: frozenset[str] = frozenset()) -> AwsUp:
        """The same, with what names of images stand for today."""
        from gridwright.providers.aws.up import up

        return up(spec, caller, replace, new_images=True)


class AwsPausing:
    """See Pausing."""

    def stop(self, spec: GridSpec, caller: Caller) -> AwsStopped:
        """Stop every machine; what holds data stays."""
        from gridwright.providers.aws.stopping import stop

        return stop(spec, caller)

    def is_stopped(self, spec: GridSpec) -> bool:
        """Whether its stack says so."""
        from gridwright.providers.aws.stopping import deployed, is_stopped

        return is_stopped(deployed(spec, Caller()).grid)

    def start(self, spec: GridSpec, caller: Caller) -> AwsStarted:
        """Start them again, as they were deployed."""
        from gridwright.providers.aws.stopping import start

        return start(spec, caller)


class FsxRepositories:
    """Repositories that FSx for Lustre carries."""

    def linked_repository(
        self, spec: GridSpec, directory: LinkedDirectory, store: Callable[[], ObjectStore], caller: Caller
    ) -> LinkedRepository:
        """One of FSx for Lustre."""
        from gridwright.providers.aws.data_repository import FsxRepository
        from gridwright.providers.aws.session import Cloud

        return FsxRepository(spec, directory, Cloud(spec.region or ""), store, caller)


class AwsProvider(Provider):
    """See Provider."""

    name = "aws"
    section = ProviderSection(
        Aws,
        "What only provider aws has. render, up, status and down need it.",
        Update(Change.REBUILD, "network and machines are made anew"),
    )
    metadata_service = MetadataService(
        addresses=("169.254.169.254", "fd00:ec2::254"), accounts=("ec2-instance-connect",)
    )
    """EC2 User Guide, instance metadata. EC2 Instance Connect looks up keys there when somebody logs in."""
    is_cloud = True
    has_machines = True
    powers_nodes = True
    # io2 is no volume of one machine: at the sizes that plans try, gp3 has the same throughput for less.
    market = Purchasing(needs_region=True, buys_capacity=True, planned_volumes=("gp3", "gp2", "st1"))
    # Those of EBS Multi-Attach (Amazon EBS User Guide); io1 costs as much, and has no NVMe reservations.
    shared_volumes = SharedVolumes(types=("io2",), settings=_settings_of_pairs)
    pricing = AwsPricing()
    images = AwsImages()
    pausing = AwsPausing()
    links = FsxRepositories()

    def problems(self, data: Mapping[str, Any]) -> Iterator[Refused]:
        """See ProviderKind."""
        return aws_problems(data)

    def findings(self, spec: GridSpec) -> Iterator[Finding]:
        """See ProviderKind."""
        return aws_findings(spec)

    def head_node(self, spec: GridSpec) -> HeadNode:
        """The machine with the scheduler, through the login node; this one where it is one of the grid's."""
        from gridwright.providers.aws.stopping import aws_head

        return aws_head(spec)

    def render(self, spec: GridSpec, machine: HostMachine, release: str | None) -> Rendering:
        """Templates and the bundle, beside the playbook."""
        from gridwright.providers.aws.files import aws_files

        return Rendering(*aws_files(spec, release))

    def up(self, spec: GridSpec, caller: Caller, *, replace: frozenset[str] = frozenset()) -> AwsUp:
        """Make the grid, or change it."""
        from gridwright.providers.aws.up import up

        return up(spec, caller, replace)

    def preflight(self, spec: GridSpec) -> Preflight:
        """What AWS itself would refuse."""
        from gridwright.model.grid import check_against_catalogue
        from gridwright.providers.aws.preflight import preflight
        from gridwright.providers.aws.session import Cloud

        layout = aws_layout(spec)
        check_against_catalogue(spec)
        return preflight(spec, layout, Cloud(str(spec.region)))

    def status(self, spec: GridSpec) -> AwsStatus:
        """How the grid stands."""
        from gridwright.providers.aws.stopping import status

        return status(spec)

    def removal(self, spec: GridSpec, *, delete_data: frozenset[str] = frozenset()) -> Removal:
        """What down would do."""
        from gridwright.providers.aws.down import down, look, plan

        found = look(spec, delete_data)
        asked = "\n".join(plan(found).question())
        return Removal(asked or None, lambda caller: down(found, caller), is_long=True)


AWS = AwsProvider()
