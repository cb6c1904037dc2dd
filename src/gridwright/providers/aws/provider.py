"""AWS as a provider: nodes by EC2 instance type, made by two CloudFormation stacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from gridwright.errors import Finding
from gridwright.providers.aws.section import Aws
from gridwright.providers.provider import Provider, Removal
from gridwright.spec.fields import Change, Update
from gridwright.spec.provider import MetadataService, ProviderSection
from gridwright.yamltext.together import Refused

if TYPE_CHECKING:
    from gridwright.catalog import Catalog
    from gridwright.filesystems.resources import Cost
    from gridwright.filesystems.site import Site
    from gridwright.providers.aws.status_result import AwsStatus
    from gridwright.providers.aws.stopping_result import AwsStarted, AwsStopped
    from gridwright.providers.aws.up_result import AwsUp
    from gridwright.providers.caller import Caller
    from gridwright.providers.linked import LinkedRepository
    from gridwright.providers.machines import HostMachine
    from gridwright.providers.preflight import Preflight
    from gridwright.providers.rendering import Rendering
    from gridwright.repository.store import ObjectStore
    from gridwright.schedulers.head_node import HeadNode
    from gridwright.spec.linked import LinkedDirectory
    from gridwright.spec.model import GridSpec


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
    needs_region = True
    powers_nodes = True
    buys_capacity = True
    shares_volumes = True
    shared_volume_types = ("io2",)
    """Those of EBS Multi-Attach (Amazon EBS User Guide); io1 costs as much, and has no NVMe reservations."""
    planned_volumes = ("gp3", "gp2", "st1")
    """Of disks of one machine. io2 is left out: at the sizes that plans try, gp3 has the same throughput for
    less."""

    def settings_of_pairs(self, spec: GridSpec) -> Mapping[str, Any] | None:
        """See ProviderKind. Nodes are members of a cluster, so that none is replaced by itself, or comes."""
        changes = any(group.min is not None for group in spec.nodes.values())
        return None if changes else {"replace_nodes": False}

    def problems(self, data: Mapping[str, Any]) -> Iterator[Refused]:
        """See ProviderKind."""
        from gridwright.providers.aws.crosscheck import aws_problems

        return aws_problems(data)

    def findings(self, spec: GridSpec) -> Iterator[Finding]:
        """See ProviderKind."""
        from gridwright.providers.aws.findings import aws_findings

        return aws_findings(spec)

    def head_node(self, spec: GridSpec) -> HeadNode:
        """The machine with the scheduler, through the login node; this one where it is one of the grid's."""
        from gridwright.providers.aws.head import aws_head

        return aws_head(spec)

    def render(self, spec: GridSpec, machine: HostMachine, release: str | None) -> Rendering:
        """Templates and the bundle, beside the playbook."""
        from gridwright.providers.aws.files import aws_files
        from gridwright.providers.rendering import Rendering

        return Rendering(*aws_files(spec, release))

    def render_image(self, spec: GridSpec, release: str | None) -> Rendering:
        """A template of Packer with the playbook that it runs."""
        from gridwright.providers.aws.image_build import image_build

        return image_build(spec, release)

    def costs_beside(self, spec: GridSpec, catalog: Catalog) -> tuple[Cost, ...]:
        """Login and head node, root volumes, the way out, the load balancer of the console."""
        from gridwright.providers.aws.costs import costs_beside

        return costs_beside(spec, catalog)

    def costs_of(
        self, spec: GridSpec, catalog: Catalog, machines: int, *, has_lustre: bool
    ) -> tuple[Cost, ...]:
        """See Seller."""
        from gridwright.providers.aws.costs import costs_of

        return costs_of(spec, catalog, machines)

    def report_not_offered(self, site: Site) -> None:
        """See Seller."""
        from gridwright.providers.aws.layout import room_problems
        from gridwright.providers.aws.offered import report_not_offered

        report_not_offered(site)
        for each in room_problems(site.spec):
            site.report(tuple(str(each.field).split(".")), each.what, each.remedy or "")

    def report_too_many_volumes(self, site: Site) -> None:
        """See Seller."""
        from gridwright.providers.aws.attached import report_not_shared, report_too_many_volumes

        report_too_many_volumes(site)
        report_not_shared(site)

    def linked_repository(
        self, spec: GridSpec, directory: LinkedDirectory, store: Callable[[], ObjectStore], caller: Caller
    ) -> LinkedRepository:
        """One of FSx for Lustre."""
        from gridwright.providers.aws.data_repository.linked import FsxRepository
        from gridwright.providers.aws.session import Cloud

        return FsxRepository(spec, directory, Cloud(spec.region or ""), store, caller)

    def up(self, spec: GridSpec, caller: Caller, *, replace: frozenset[str] = frozenset()) -> AwsUp:
        """Make the grid, or change it."""
        from gridwright.providers.aws.up import up

        return up(spec, caller, replace)

    def renew(self, spec: GridSpec, caller: Caller, *, replace: frozenset[str] = frozenset()) -> AwsUp:
        """The same, with what names of images stand for today."""
        from gridwright.providers.aws.up import up

        return up(spec, caller, replace, new_images=True)

    def stop(self, spec: GridSpec, caller: Caller) -> AwsStopped:
        """Stop every machine; what holds data stays."""
        from gridwright.providers.aws.stopping import stop

        return stop(spec, caller)

    def is_stopped(self, spec: GridSpec) -> bool:
        """Whether its stack says so."""
        from gridwright.providers.aws.stopping import deployed, is_stopped
        from gridwright.providers.caller import Caller

        return is_stopped(deployed(spec, Caller()).grid)

    def start(self, spec: GridSpec, caller: Caller) -> AwsStarted:
        """Start them again, as they were deployed."""
        from gridwright.providers.aws.stopping import start

        return start(spec, caller)

    def preflight(self, spec: GridSpec) -> Preflight:
        """What AWS itself would refuse."""
        from gridwright.model.grid import check_against_catalogue
        from gridwright.providers.aws.layout import aws_layout
        from gridwright.providers.aws.preflight.looking import preflight
        from gridwright.providers.aws.session import Cloud

        layout = aws_layout(spec)
        check_against_catalogue(spec)
        return preflight(spec, layout, Cloud(str(spec.region)))

    def status(self, spec: GridSpec) -> AwsStatus:
        """How the grid stands."""
        from gridwright.providers.aws.status import status

        return status(spec)

    def removal(self, spec: GridSpec, *, delete_data: frozenset[str] = frozenset()) -> Removal:
        """What down would do."""
        from gridwright.providers.aws.down import down, look, plan

        found = look(spec, delete_data)
        asked = "\n".join(plan(found).question())
        return Removal(asked or None, lambda caller: down(found, caller), is_long=True)


AWS = AwsProvider()
