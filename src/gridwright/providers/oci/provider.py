"""Provider oci: what plans, predictions and the configuration of schedulers ask of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from gridwright.errors import Finding
from gridwright.providers.oci.section import Oci
from gridwright.providers.provider import Provider, Removal
from gridwright.spec.fields import Change, Update
from gridwright.spec.provider import MetadataService, ProviderSection
from gridwright.yamltext.together import Refused

if TYPE_CHECKING:
    from gridwright.catalog import Catalog
    from gridwright.filesystems.resources import Cost
    from gridwright.filesystems.site import Site
    from gridwright.providers.caller import Caller
    from gridwright.providers.linked import LinkedRepository
    from gridwright.providers.machines import HostMachine
    from gridwright.providers.oci.status_result import OciStatus
    from gridwright.providers.oci.up_result import OciUp
    from gridwright.providers.preflight import Preflight
    from gridwright.providers.read_me import Notes
    from gridwright.providers.rendering import Rendering
    from gridwright.repository.store import ObjectStore
    from gridwright.schedulers.head_node import HeadNode
    from gridwright.schedulers.machines import GridMachines
    from gridwright.schedulers.set_up import SchedulerSetup
    from gridwright.setup.playbook import Hosts
    from gridwright.spec.linked import LinkedDirectory
    from gridwright.spec.model import GridSpec


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
    one_price_everywhere = True
    shares_volumes = True
    shares_pools = True
    planned_volumes = ("lower-cost", "balanced", "higher-performance")

    def problems(self, data: Mapping[str, Any]) -> Iterator[Refused]:
        """See ProviderKind."""
        from gridwright.providers.oci.crosscheck import oci_problems

        return oci_problems(data)

    def findings(self, spec: GridSpec) -> Iterator[Finding]:
        """See ProviderKind."""
        from gridwright.providers.oci.findings import oci_findings

        return oci_findings(spec)

    def hosts(self, spec: GridSpec, machine: str) -> Hosts:
        """Nodes by name, and the node of the scheduler's own service."""
        from gridwright.providers.controller import CONTROLLER
        from gridwright.setup.playbook import Hosts

        compute = super().hosts(spec, machine).names()
        return Hosts.named(compute=compute, head=[CONTROLLER] if spec.scheduler.needs_head_node else [])

    def head_node(self, spec: GridSpec) -> HeadNode:
        """The machine with the scheduler, through the bastion; this one where it is the grid's."""
        from gridwright.providers.oci.head import oci_head

        return oci_head(spec)

    def render(self, spec: GridSpec, machine: HostMachine, release: str | None) -> Rendering:
        """Two Terraform roots, beside the playbook; the playbook alone where the spec has no section oci."""
        from gridwright.providers.oci.files import oci_files
        from gridwright.providers.rendering import Rendering

        if spec.section(Oci) is None:
            return super().render(spec, machine, release)
        return Rendering(*oci_files(spec, release))

    def linked_repository(
        self, spec: GridSpec, directory: LinkedDirectory, store: Callable[[], ObjectStore], caller: Caller
    ) -> LinkedRepository:
        """One of managed Lustre, whose objects are asked for by OCI's own API."""
        from gridwright.providers.oci.object_links.linked import OciLinkedRepository
        from gridwright.providers.oci.session import OciCloud

        return OciLinkedRepository(spec, directory, OciCloud(str(spec.region)), caller)

    def up(self, spec: GridSpec, caller: Caller, *, replace: frozenset[str] = frozenset()) -> OciUp:
        """Make the grid by Resource Manager, or change it."""
        from gridwright.providers.oci.up import up

        return up(spec, caller, replace)

    def preflight(self, spec: GridSpec) -> Preflight:
        """See Provider."""
        from gridwright.providers.oci.preflight.checking import check

        return check(spec)

    def status(self, spec: GridSpec) -> OciStatus:
        """How the grid stands."""
        from gridwright.providers.oci.status import status

        return status(spec)

    def drifted(self, spec: GridSpec, caller: Caller) -> OciStatus:
        """See Provider."""
        from gridwright.providers.oci.status import status

        return status(spec, caller, drift=True)

    def removal(self, spec: GridSpec, *, delete_data: frozenset[str] = frozenset()) -> Removal:
        """What down would do."""
        from gridwright.providers.oci.down import down, look, question

        found = look(spec, delete_data)
        return Removal(question(found), lambda caller: down(found, caller), is_long=True)

    def costs_beside(self, spec: GridSpec, catalog: Catalog) -> tuple[Cost, ...]:
        """Bastion host, grid control server, boot volumes."""
        from gridwright.providers.oci.costs import costs_beside

        return costs_beside(spec, catalog)

    def costs_of(
        self, spec: GridSpec, catalog: Catalog, machines: int, *, has_lustre: bool
    ) -> tuple[Cost, ...]:
        """See Seller."""
        from gridwright.providers.oci.costs import costs_of

        return costs_of(spec, catalog, machines)

    def report_not_offered(self, site: Site) -> None:
        """See Seller."""
        from gridwright.providers.oci.named_shapes import report_wrong_shapes

        report_wrong_shapes(site)

    def report_too_many_volumes(self, site: Site) -> None:
        """See Seller."""
        from gridwright.providers.oci.lustre_rules import report_lustre_rules

        report_lustre_rules(site)

    def machines(self, spec: GridSpec, machine: HostMachine) -> GridMachines:
        """Nodes as the catalogue lists their shapes."""
        from gridwright.providers.machines import machines_of_types

        return machines_of_types(spec)

    def notes(self, spec: GridSpec, setup: SchedulerSetup) -> Notes:
        """Why there are no templates, where the spec has no section oci; whose cores and memory they are."""
        from gridwright.providers.read_me import Notes

        return Notes(
            at_end="Templates that make nodes and file systems need section oci, which this spec lacks; "
            "cores and memory are those of the catalogue, less 5 % of the memory for firmware and kernel."
        )


OCI = OciProvider()
