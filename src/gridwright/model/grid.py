"""A grid as the model sees it: alike nodes, and for each library the resources its data pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from gridwright.catalog import Catalog, InstanceType, load_catalog
from gridwright.catalog.basis import disagreement_findings, estimate_findings, price_basis
from gridwright.errors import Finding
from gridwright.filesystems import kind_of
from gridwright.filesystems.resources import Contribution, Cost, Operation, Route
from gridwright.filesystems.site import ComputeNodes, Site
from gridwright.model.seller import seller_of
from gridwright.runs.host import host_facts
from gridwright.spec.model import GridSpec, Library
from gridwright.spec.requirements import Availability


@dataclass(frozen=True)
class GridModel:
    """What `predict` works on. Rates are in bytes per second, memory and capacities in bytes.

    `routes` has no entry for a library of which nothing is known; `unknown` then says what is
    missing. `costs` is the bill by line. `doubts` says which of the facts are estimates or disputed.
    """

    spec: GridSpec
    nodes: int
    cores_per_node: int
    memory_bytes_per_node: int | None
    routes: Mapping[str, Mapping[Operation, Route]]
    unknown: Mapping[str, str]
    contributions: Mapping[str, Contribution]
    instance: InstanceType | None
    costs: tuple[Cost, ...]
    doubts: tuple[Finding, ...] = ()

    @property
    def name(self) -> str:
        """The grid's name."""
        return self.spec.name

    @property
    def libraries(self) -> Mapping[str, Library]:
        """The spec's libraries by name."""
        return {str(name): library for name, library in self.spec.libraries.items()}

    @property
    def cores(self) -> int:
        """Physical cores of all nodes."""
        return self.nodes * self.cores_per_node

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
    groups = list(spec.nodes.items())
    types = [site.instance(group.instance or "", "nodes", name, "instance") for name, group in groups]
    seller_of(spec).report_not_offered(site)
    seller_of(spec).report_too_many_volumes(site)
    (_, first), instance = groups[0], types[0]
    if instance is not None:
        site.nodes = ComputeNodes(first.count, instance.cores, instance.memory_bytes, instance)
        site.instance_usd_per_hour(instance.name, "region")
    for name, filesystem in spec.filesystems.items():
        # Disks of a node that is not known cannot be judged.
        if instance is not None or not filesystem.is_node_local:
            kind_of(filesystem).contribute(name, filesystem, site)
    site.raise_problems()


def _site(spec: GridSpec, catalog: Catalog | None) -> Site:
    directory = spec.file.parent if spec.file else None
    return Site(spec, catalog or load_catalog(directory), ComputeNodes(1, 1, None))


def grid_model(spec: GridSpec, catalog: Catalog | None = None) -> GridModel:
    """Put a grid together from its spec and the catalogue.

    Raises GridwrightError with every problem of the spec's figures (a type that does not exist, a size
    that is not on offer), each at its field.
    """
    site = _site(spec, catalog)
    nodes = _compute_nodes(site)
    site.raise_problems()
    assert nodes is not None  # noqa: S101 - a problem would have been raised
    site.nodes = nodes
    seller_of(spec).report_too_many_volumes(site)
    found = {name: kind_of(each).contribute(name, each, site) for name, each in spec.filesystems.items()}
    if nodes.instance is not None:
        hourly = site.instance_usd_per_hour(nodes.instance.name, "region")
        what = f"{nodes.count} node{'s'[: nodes.count != 1]} {nodes.instance.name}"
        usd = None if hourly is None else hourly * nodes.count
        may = spec.requirements.availability if spec.requirements else Availability()
        node_cost = Cost(what, usd, nodes.instance.name, may.interrupt_nodes)
    site.raise_problems()
    costs: tuple[Cost, ...] = (node_cost,) if nodes.instance is not None else ()
    costs += tuple(cost for each in found.values() for cost in each.costs)
    costs += seller_of(spec).costs_beside(spec, site.catalog)
    of_library = {str(name): found[library.filesystem] for name, library in spec.libraries.items()}
    return GridModel(
        spec,
        nodes.count,
        nodes.cores,
        nodes.memory_bytes,
        {name: each.routes for name, each in of_library.items() if not each.unknown},
        {name: each.unknown for name, each in of_library.items() if each.unknown},
        found,
        nodes.instance,
        costs,
        _doubts(site, nodes.instance),
    )


def _doubts(site: Site, instance: InstanceType | None) -> tuple[Finding, ...]:
    if instance is None:
        return ()
    basis = price_basis(site.catalog, instance.provider, site.region, [instance])
    return (*estimate_findings(basis, site.region), *disagreement_findings(instance))


def _compute_nodes(site: Site) -> ComputeNodes | None:
    groups = list(site.spec.nodes.items())
    if len(groups) > 1:
        site.report(
            ("nodes", groups[1][0]),
            "predictions know one group of nodes that run jobs, and this is a second one",
            "keep one group; or predict each in a spec of its own",
        )
    name, group = groups[0]
    if not site.spec.is_cloud:
        machine = host_facts()
        cores, memory = group.cores or machine.physical_cores, group.memory or machine.memory_bytes
        return ComputeNodes(group.count, cores, memory)
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
    services = any(each.service for each in model.contributions.values())
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
