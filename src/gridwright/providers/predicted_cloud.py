"""Clouds in which Gridwright builds nothing: their grids are predicted from what the spec says of nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, cast

from pydantic import Field

from gridwright.catalog import InstanceType
from gridwright.catalog.facts import Source
from gridwright.catalog.instances import Network
from gridwright.catalog.instances import Provider as SoldBy
from gridwright.errors import GridwrightError, Problem
from gridwright.filesystems.resources import Cost
from gridwright.model.pricing_provider import PricingProvider
from gridwright.providers.provider import Provider
from gridwright.spec.fields import Budget, Change, SpecModel, Update
from gridwright.spec.load import problem_at
from gridwright.spec.provider import Purchasing
from gridwright.yamltext.fields import FieldError, TotalRate
from gridwright.yamltext.structure import Refused

if TYPE_CHECKING:
    from gridwright.spec.model import GridSpec


# The nodes of a cloud whose machines no catalogue lists, as a grid spec describes them.


class PredictedNodes(SpecModel):
    """What predictions have to be told of the nodes of a cloud whose machines the catalogue does not list."""

    machine: Annotated[str | None, Update(Change.ROLLING, "nodes are replaced one at a time")] = Field(
        default=None, max_length=64, description="The type of the nodes; predictions only name it."
    )
    node_price: Annotated[Budget | None, Update(Change.LIVE, "only predictions read it")] = Field(
        default=None, description="What one node costs, such as 2.50 USD/h. A plan has to know it."
    )
    node_network: Annotated[TotalRate | None, Update(Change.LIVE, "only predictions read it")] = Field(
        default=None,
        description="What the network of one node passes in each direction, for good, such as 2 GB/s. A plan "
        "has to know it.",
    )


# A node of a cloud whose machines no catalogue lists, as a type of machine that the grid spec describes.

STATED = Source("the grid spec", "")


def described_node(spec: GridSpec, nodes: PredictedNodes) -> tuple[InstanceType, float]:
    """Return the type of node that the spec describes, and its USD per hour.

    Nothing is known of its own disks and of volumes at it. Raises GridwrightError that names everything a
    plan has to know and the spec does not say.
    """
    problems = list(_missing(spec, nodes))
    if problems:
        raise GridwrightError(*problems)
    (group,) = spec.nodes.values()
    network = float(nodes.node_network.bytes_per_s if nodes.node_network else 0)
    cores, name = group.cores or 0, nodes.machine or "nodes"
    return InstanceType(
        name=name,
        provider=cast("SoldBy", spec.provider),
        family=name,
        cores=cores,
        vcpus=2 * cores,
        memory_bytes=int(group.memory or 0),
        architecture=(spec.requirements.architecture if spec.requirements else None) or "x86_64",
        network=Network(network, network),
        ebs=None,
        instance_store=None,
        current=True,
        placement_bytes_per_s=None,
        accelerators=0,
        bare_metal=False,
        burstable_cpu=False,
        source=STATED,
    ), nodes.node_price or 0.0


def _missing(spec: GridSpec, nodes: PredictedNodes) -> Iterator[Problem]:
    why = f"a plan has to know it: the catalogue has no machines of {spec.provider}"
    for field, value, example in (
        ("node_price", nodes.node_price, "2.30 USD/h"),
        ("node_network", nodes.node_network, "2 GB/s"),
    ):
        if value is None:
            yield problem_at(
                spec, (spec.provider, field), f"no {field} is written, and {why}", f"add {field}: {example}"
            )
    requirements = spec.requirements
    bounds = requirements.nodes.memory if requirements else None
    asked = requirements is not None and requirements.memory_per_core is not None
    asked = asked or (bounds is not None and (bounds.least, bounds.most) != (None, None))
    for name, group in spec.nodes.items():
        if asked and group.memory is None:
            path = ("nodes", str(name), "memory")
            yield problem_at(
                spec, path, f"the memory of the nodes is not written, and {why}", "add memory: 256 GiB"
            )


class PredictedPricing(PricingProvider):
    """See PricingProvider."""

    def node_costs(self, spec: GridSpec, count: int) -> tuple[Cost, ...]:
        """See PricingProvider."""
        nodes = _nodes(spec)
        words = " ".join([f"{count} node{'s'[: count != 1]}", *([nodes.machine] if nodes.machine else [])])
        return (Cost(words, None if nodes.node_price is None else nodes.node_price * count),)

    def node_network(self, spec: GridSpec) -> float | None:
        """See PricingProvider."""
        network = _nodes(spec).node_network
        return None if network is None else float(network.bytes_per_s)

    def described_node(self, spec: GridSpec) -> tuple[InstanceType, float]:
        """See PricingProvider."""
        return described_node(spec, _nodes(spec))


def _nodes(spec: GridSpec) -> PredictedNodes:
    return spec.section(PredictedNodes) or PredictedNodes()


class PredictedCloud(Provider):
    """See Provider; a subclass has the name and a section derived from PredictedNodes."""

    reaches_nodes = False
    market = Purchasing(plans_services=True)
    pricing = PredictedPricing()

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
        return _nodes(spec).machine or "nodes"
