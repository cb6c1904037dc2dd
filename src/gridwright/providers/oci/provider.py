"""Provider oci: what plans, predictions and Slurm's configuration ask of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gridwright.providers.provider import Provider

if TYPE_CHECKING:
    from gridwright.providers.read_me import Notes
    from gridwright.providers.rendering import Machine
    from gridwright.schedulers.slurm.site import Release, SlurmSite
    from gridwright.setup.playbook import Hosts
    from gridwright.spec.model import GridSpec


class OciProvider(Provider):
    """See Provider."""

    name = "oci"
    is_cloud = True
    one_price_everywhere = True
    planned_volumes = ("lower-cost", "balanced", "higher-performance")

    def hosts(self, spec: GridSpec, machine: str, site: SlurmSite | None) -> Hosts:
        """Nodes by name, and the controller of Slurm."""
        from gridwright.setup.playbook import Hosts

        compute = super().hosts(spec, machine, site).names()
        return Hosts.named(compute=compute, head=[site.controller] if site else [])

    def slurm_site(self, spec: GridSpec, machine: Machine, release: Release) -> SlurmSite:
        """Nodes as the catalogue lists their shapes."""
        from gridwright.providers.slurm_files import site_of_types

        return site_of_types(spec, release)

    def notes(self, spec: GridSpec, site: SlurmSite | None) -> Notes:
        """That it is yet to be made, and whose cores and memory were written down."""
        from gridwright.providers.read_me import Notes

        return Notes(
            at_end=f"Templates that make nodes and file systems on {self.name} come with a later release; "
            "cores and memory are those of the catalogue, less 5 % of the memory for firmware and kernel."
        )


OCI = OciProvider()
