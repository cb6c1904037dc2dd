"""Clouds in which Gridwright builds nothing: their grids are predicted from what the spec says of nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from gridwright.filesystems.resources import Cost
from gridwright.providers.predicted_nodes import PredictedNodes
from gridwright.providers.provider import Provider
from gridwright.yamltext.fields import FieldError
from gridwright.yamltext.together import Refused

if TYPE_CHECKING:
    from gridwright.catalog import InstanceType
    from gridwright.spec.model import GridSpec


class PredictedCloud(Provider):
    """See Provider; a subclass has the name and a section derived from PredictedNodes."""

    reaches_nodes = False
    plans_services = True

    def problems(self, data: Mapping[str, Any]) -> Iterator[Refused]:
        """Nodes whose cores nobody says: no catalogue has them, and those of this machine are others."""
        groups = data.get("nodes")
        if groups is None:
            yield (), "nodes"
        for name, group in groups.items() if isinstance(groups, Mapping) else ():
            if isinstance(group, Mapping) and group.get("cores") is None and "instance" not in group:
                yield (
                    ("nodes", name),
                    FieldError(
                        f"the catalogue has no machines of {self.name}, and these have no cores:",
                        "add cores: 16, the physical cores of each",
                    ),
                )

    def machine_words(self, spec: GridSpec) -> str:
        """See ProviderKind."""
        return self._nodes(spec).machine or "nodes"

    def node_costs(self, spec: GridSpec, count: int) -> tuple[Cost, ...]:
        """See PricingProvider."""
        nodes = self._nodes(spec)
        words = " ".join([f"{count} node{'s'[: count != 1]}", *([nodes.machine] if nodes.machine else [])])
        return (Cost(words, None if nodes.node_price is None else nodes.node_price * count),)

    def node_network(self, spec: GridSpec) -> float | None:
        """See PricingProvider."""
        network = self._nodes(spec).node_network
        return None if network is None else float(network.bytes_per_s)

    def described_node(self, spec: GridSpec) -> tuple[InstanceType, float]:
        """See PricingProvider."""
        from gridwright.providers.described_node import described_node

        return described_node(spec, self._nodes(spec))

    @staticmethod
    def _nodes(spec: GridSpec) -> PredictedNodes:
        return spec.section(PredictedNodes) or PredictedNodes()
