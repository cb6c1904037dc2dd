"""Provider oci: what plans, predictions and the configuration of schedulers ask of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gridwright.providers.provider import Provider

if TYPE_CHECKING:
    from gridwright.providers.machines import HostMachine
    from gridwright.providers.read_me import Notes
    from gridwright.schedulers.machines import GridMachines
    from gridwright.schedulers.set_up import SchedulerSetup
    from gridwright.setup.playbook import Hosts
    from gridwright.spec.model import GridSpec


class OciProvider(Provider):
    """See Provider."""

    name = "oci"
    is_cloud = True
    reaches_nodes = False
    one_price_everywhere = True
    planned_volumes = ("lower-cost", "balanced", "higher-performance")

    def hosts(self, spec: GridSpec, machine: str) -> Hosts:
        """Nodes by name, and the node of the scheduler's own service."""
        from gridwright.providers.controller import CONTROLLER
        from gridwright.setup.playbook import Hosts

        compute = super().hosts(spec, machine).names()
        return Hosts.named(compute=compute, head=[CONTROLLER] if spec.scheduler.needs_head_node else [])

    def machines(self, spec: GridSpec, machine: HostMachine) -> GridMachines:
        """Nodes as the catalogue lists their shapes."""
        from gridwright.providers.machines import machines_of_types

        return machines_of_types(spec)

    def notes(self, spec: GridSpec, setup: SchedulerSetup) -> Notes:
        """That it is yet to be made, and whose cores and memory were written down."""
        from gridwright.providers.read_me import Notes

        return Notes(
            at_end=f"Templates that make nodes and file systems on {self.name} come with a later release; "
            "cores and memory are those of the catalogue, less 5 % of the memory for firmware and kernel."
        )


OCI = OciProvider()
