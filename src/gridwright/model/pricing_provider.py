"""What the model asks of a provider: what is sold, and what is billed beside nodes and file systems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from gridwright.catalog import Catalog, InstanceType
    from gridwright.filesystems.resources import Cost
    from gridwright.filesystems.site import Site
    from gridwright.spec.model import GridSpec


class PricingProvider:
    """The pricing of a provider, by default of one that sells nothing; see `Provider.pricing`.

    What has no price has None in its line of the bill, and nothing is raised for it.
    """

    def costs_beside(self, spec: GridSpec, catalog: Catalog) -> tuple[Cost, ...]:
        """Lines of the bill for what a grid needs beside its nodes and file systems."""
        return ()

    def costs_of(
        self, spec: GridSpec, catalog: Catalog, machines: int, *, has_lustre: bool
    ) -> tuple[Cost, ...]:
        """The same for so many nodes and servers of file systems, whatever the spec has of them."""
        return ()

    def node_costs(self, spec: GridSpec, count: int) -> tuple[Cost, ...]:
        """Lines of the bill for so many nodes that no catalogue has, by what the spec says of their price."""
        return ()

    def node_network(self, spec: GridSpec) -> float | None:
        """What the spec says of the network of nodes that no catalogue has, in bytes per second."""
        return None

    def described_node(self, spec: GridSpec) -> tuple[InstanceType, float] | None:
        """Nodes that the spec describes as a type, with its USD per hour; None where the catalogue has them.

        Raises GridwrightError for what a plan has to know and the spec does not say.
        """
        return None

    def report_not_offered(self, site: Site) -> None:
        """Note each instance type of the spec that its region does not sell, or that lacks what it needs."""

    def report_too_many_volumes(self, site: Site) -> None:
        """Note where nodes or servers would have more volumes attached than their type takes."""


def pricing_provider(spec: GridSpec) -> PricingProvider:
    """The pricing of a grid's provider."""
    return cast("PricingProvider", cast("Any", spec.provider_kind).pricing)
