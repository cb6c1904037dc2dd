"""A grid as the model sees it: groups of alike nodes, and for each library its layout and its resources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

from gridwright.catalog import Catalog, InstanceType, load_catalog
from gridwright.catalog.basis import disagreement_findings, estimate_findings, price_basis
from gridwright.errors import Finding
from gridwright.filesystems import kind_of
from gridwright.filesystems.allocation import TargetSpace
from gridwright.filesystems.layout import LayoutChoice
from gridwright.filesystems.resources import Contribution, Cost
from gridwright.filesystems.site import ComputeNodes, Site
from gridwright.model.grid_layouts import (
    AlikeNodes,
    apply_layouts,
    are_stated,
    layouts_of,
    of_group,
    report_layouts,
    with_space,
)
from gridwright.model.pricing_provider import pricing_provider
from gridwright.runs.host import host_facts
from gridwright.spec.library import Library
from gridwright.spec.model import GridSpec
from gridwright.spec.requirements import Availability


def library_layouts(spec: GridSpec, catalog: Catalog | None = None) -> Mapping[str, LayoutChoice]:
    """The layout of every library on a kind of file system that takes layouts, by the library's name.

    Raises GridwrightError where a layout is to be chosen and figures of the spec are not on sale.
    """
    if spec.nodes and not are_stated(spec):
        return grid_model(spec, catalog).layouts
    return layouts_of(spec, (), {})


@dataclass(frozen=True)
class GridModel:
    """What `predict` works on. Rates are in bytes per second, memory and capacities in bytes.

    `groups` are the nodes that run jobs, at least one group, with the routes from each to the libraries.
    `unknown` has each library of which nothing is known, and what is missing. `contributions` is what file
    systems bring to all groups together, `costs` the bill by line. `doubts` says which of the facts are
    estimates or disputed, `layouts` over how many targets files of libraries are striped, where one chooses.
    """

    spec: GridSpec
    groups: tuple[AlikeNodes, ...]
    unknown: Mapping[str, str]
    contributions: Mapping[str, Contribution]
    costs: tuple[Cost, ...]
    doubts: tuple[Finding, ...] = ()
    layouts: Mapping[str, LayoutChoice] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The grid's name."""
        return self.spec.name

    @property
    def libraries(self) -> Mapping[str, Library]:
        """The spec's libraries by name."""
        return {str(name): library for name, library in self.spec.libraries.items()}

    @property
    def nodes(self) -> int:
        """Nodes of all groups."""
        return sum(group.nodes for group in self.groups)

    @property
    def cores(self) -> int:
        """Physical cores of all nodes."""
        return sum(group.cores for group in self.groups)

    def group_of(self, node: int) -> AlikeNodes:
        """The group of a node by its number from 0 on: groups follow each other as in the spec."""
        for group in self.groups:
            if node < group.nodes:
                return group
            node -= group.nodes
        raise IndexError(f"the grid has {self.nodes} nodes")

    @property
    def alike(self) -> AlikeNodes:
        """The only group of nodes. Raises ValueError where there are several."""
        (group,) = self.groups
        return group

    @cached_property
    def usd_per_hour(self) -> float | None:
        """The sum of the bill; None where a price is missing, or where nothing is bought."""
        prices = [cost.usd_per_hour for cost in self.costs]
        if not prices or any(price is None for price in prices):
            return None
        return sum(price for price in prices if price is not None)


def check_against_catalogue(spec: GridSpec, catalog: Catalog | None = None) -> None:
    """Raise GridwrightError with every figure of the spec that is not on sale, each at its field."""
    site = _site(spec, catalog)
    types = [
        (group, site.instance(group.instance or "", "nodes", name, "instance"))
        for name, group in spec.nodes.items()
    ]
    pricing_provider(spec).report_not_offered(site)
    pricing_provider(spec).report_too_many_volumes(site)
    contributions: dict[str, Contribution] = {}
    for group, instance in types:
        if instance is not None:
            site.nodes = ComputeNodes(group.count, instance.cores, instance.memory_bytes, instance)
            site.instance_usd_per_hour(instance.name, "region")
            contributions = _contribute(site)
    if not any(instance for _, instance in types):
        # Disks of a node that is not known cannot be judged.
        contributions = _contribute(site, node_local=False)
    report_layouts(site, contributions)
    site.raise_problems()


def _contribute(site: Site, *, node_local: bool = True) -> dict[str, Contribution]:
    """What each file system brings to the nodes that the site is at."""
    return {
        name: kind_of(filesystem).contribute(name, filesystem, site)
        for name, filesystem in site.spec.filesystems.items()
        if node_local or not filesystem.is_node_local
    }


def _site(spec: GridSpec, catalog: Catalog | None) -> Site:
    directory = spec.file.parent if spec.file else None
    return Site(spec, catalog or load_catalog(directory), ComputeNodes(1, 1, None))


def grid_model(
    spec: GridSpec,
    catalog: Catalog | None = None,
    space: Mapping[str, tuple[TargetSpace, ...]] = MappingProxyType({}),
) -> GridModel:
    """Put a grid together from its spec and the catalogue.

    `space` has the free space of the targets of file systems where somebody looked. Raises GridwrightError
    with every problem of the spec's figures (a type that does not exist, a size that is not on offer), each
    at its field, and where `space` is of another number of targets.
    """
    site = _site(spec, catalog)
    known = [(name, nodes) for name in spec.nodes if (nodes := _compute_nodes(site, name)) is not None]
    site.raise_problems()
    site.nodes = known[0][1]
    pricing_provider(spec).report_too_many_volumes(site)
    groups = tuple(_group(site, name, nodes, space) for name, nodes in known)
    costs = [cost for _, nodes in known for cost in _node_costs(site, nodes)]
    site.raise_problems()
    contributions = _of_all(spec, groups)
    of_library = {str(name): contributions[library.filesystem] for name, library in spec.libraries.items()}
    layouts = layouts_of(spec, groups, contributions)
    return GridModel(
        spec,
        tuple(apply_layouts(group, spec, layouts) for group in groups),
        {name: each.unknown for name, each in of_library.items() if each.unknown},
        contributions,
        (
            *costs,
            *(cost for contribution in contributions.values() for cost in contribution.costs),
            *pricing_provider(spec).costs_beside(spec, site.catalog),
        ),
        _doubts(site, [nodes.instance for _, nodes in known if nodes.instance is not None]),
        layouts,
    )


def _group(
    site: Site, name: str, nodes: ComputeNodes, space: Mapping[str, tuple[TargetSpace, ...]]
) -> AlikeNodes:
    site.nodes = nodes
    contributions = with_space(site, _contribute(site), space)
    if len(site.spec.nodes) > 1:
        contributions = {
            filesystem: replace(
                contribution,
                routes={operation: of_group(name, route) for operation, route in contribution.routes.items()},
            )
            for filesystem, contribution in contributions.items()
        }
    of_library = {str(lib): contributions[library.filesystem] for lib, library in site.spec.libraries.items()}
    return AlikeNodes(
        name,
        nodes.count,
        nodes.cores,
        nodes.memory_bytes,
        nodes.instance,
        contributions,
        {library: each.routes for library, each in of_library.items() if not each.unknown},
    )


def _of_all(spec: GridSpec, groups: tuple[AlikeNodes, ...]) -> dict[str, Contribution]:
    """What file systems bring to all groups: each group has disks of its own, and all else is shared."""
    first, *others = groups
    found = dict(first.contributions)
    for name, filesystem in spec.filesystems.items():
        if not filesystem.is_node_local:
            continue
        for group in others:
            one, more = found[name], group.contributions[name]
            capacities = (one.capacity_bytes, more.capacity_bytes)
            found[name] = replace(
                one,
                costs=(*one.costs, *more.costs),
                capacity_bytes=None if None in capacities else sum(capacity or 0 for capacity in capacities),
                outlives_node=one.outlives_node and more.outlives_node,
                unknown=one.unknown or more.unknown,
            )
    return found


def _node_costs(site: Site, nodes: ComputeNodes) -> Iterator[Cost]:
    if nodes.instance is None:
        yield from pricing_provider(site.spec).node_costs(site.spec, nodes.count)
        return
    hourly = site.instance_usd_per_hour(nodes.instance.name, "region")
    what = f"{nodes.count} node{'s'[: nodes.count != 1]} {nodes.instance.name}"
    may = site.spec.requirements.availability if site.spec.requirements else Availability()
    usd = None if hourly is None else hourly * nodes.count
    yield Cost(what, usd, nodes.instance.name, may.interrupt_nodes)


def node_prices(spec: GridSpec, catalog: Catalog | None = None) -> dict[str, float | None]:
    """USD per hour of one core by group of nodes: on demand, as the catalogue or the spec has it.

    None where there is no price. Raises GridwrightError for figures of the spec that are not on offer.
    """
    site = _site(spec, catalog)
    known = {name: nodes for name in spec.nodes if (nodes := _compute_nodes(site, name)) is not None}
    prices: dict[str, float | None] = {}
    for name, nodes in known.items():
        costs = [cost.usd_per_hour for cost in _node_costs(site, nodes)]
        paid = [cost for cost in costs if cost is not None]
        whole = sum(paid) if paid and len(paid) == len(costs) else None
        prices[name] = None if whole is None else whole / (nodes.count * nodes.cores)
    site.raise_problems()
    return prices


def _doubts(site: Site, instances: Sequence[InstanceType]) -> tuple[Finding, ...]:
    if not instances:
        return ()
    alike = list({instance.name: instance for instance in instances}.values())
    basis = price_basis(site.catalog, alike[0].provider, site.region, alike)
    return (
        *estimate_findings(basis, site.region),
        *(finding for each in alike for finding in disagreement_findings(each)),
    )


def _compute_nodes(site: Site, name: str) -> ComputeNodes | None:
    group = site.spec.nodes[name]
    if not site.spec.is_cloud:
        machine = host_facts()
        cores, memory = group.cores or machine.physical_cores, group.memory or machine.memory_bytes
        return ComputeNodes(
            group.count,
            cores,
            memory,
            network_bytes_per_s=pricing_provider(site.spec).node_network(site.spec),
        )
    instance = site.instance(group.instance or "", "nodes", name, "instance")
    if instance is None:
        return None
    return ComputeNodes(group.count, instance.cores, instance.memory_bytes, instance)


def price_findings(model: GridModel) -> list[Finding]:
    """A finding for what has no price where prices are expected."""
    lines = [cost.what for cost in model.costs if cost.usd_per_hour is None]
    if not lines:
        return []
    region = f" in {model.spec.region}" if model.spec.region else ""
    services = any(contribution.service for contribution in model.contributions.values())
    stated = "; or write price: or storage_price: of a managed file system" if services else ""
    return [
        Finding(
            "warning",
            "no-price",
            f"no price is known{region} for {'; '.join(lines)}: the cost of the grid is not known",
            "Add the price to catalog.yaml beside the grid spec, or choose a region that "
            f"gridwright catalog show names{stated}",
        )
    ]
