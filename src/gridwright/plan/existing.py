"""Existing file systems in a plan: their rates, capacity and cost, by the type of the nodes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from gridwright.catalog import Catalog, InstanceType
from gridwright.errors import GridwrightError
from gridwright.filesystems import kind_of
from gridwright.filesystems.kind import Layouts
from gridwright.filesystems.layout import FileLayout
from gridwright.filesystems.provided import ManagedLustre
from gridwright.filesystems.resources import OPERATIONS, Contribution, Operation, Route
from gridwright.filesystems.site import ComputeNodes, Site, shares_network, volume_limit
from gridwright.model.grid_layouts import apply_layout
from gridwright.plan.needs import Needs
from gridwright.plan.node_side import Place, Placement
from gridwright.spec.load import problem_at
from gridwright.units import format_bytes, format_rate

VOLUME_BANDWIDTH = "node.volume-bandwidth"
"""The resource of predictions that volumes of a node share."""
_ROUNDING = 1 + 1e-9


@dataclass(frozen=True, slots=True)
class Limit:
    """A resource that libraries share: what it lets through and what is required, in bytes/s per core.

    `filesystem` is the kept one on whose way it lies, `what` names it in words; `nodes_own` ones belong to
    a node. A limit of room has no rates.
    """

    filesystem: str
    what: str
    provided: float
    required: float
    nodes_own: bool
    grid_cores: int

    @property
    def level(self) -> float:
        """How many times over it lets through what is required."""
        return self.provided * _ROUNDING / self.required if self.required else math.inf

    def __str__(self) -> str:
        if self.nodes_own:
            return f"{self.what} gives {_rates(self.provided, self.required, per_core=True)}"
        cores = self.grid_cores
        both = _rates(self.provided * cores, self.required * cores, per_core=False)
        return f"{self.what} gives {both} for {cores} cores"


def _rates(provided: float, required: float, *, per_core: bool) -> str:
    missing = 1 - provided / required if required else 0.0
    return (
        f"{format_rate(provided, per_core)} of {format_rate(required, per_core)} required, "
        f"{math.ceil(missing * 1000) / 10:g} % too little"
    )


@dataclass(frozen=True)
class ExistingOnNodes:
    """The existing file systems of a spec on nodes of one type and number."""

    needs: Needs
    nodes: ComputeNodes
    contributions: Mapping[str, Contribution]

    @cached_property
    def usd_per_hour(self) -> float:
        """What they cost; what has no price counts as nothing."""
        costs = (
            cost.usd_per_hour for contribution in self.contributions.values() for cost in contribution.costs
        )
        return sum(usd or 0.0 for usd in costs)

    def most_level(self, placement: Placement) -> float:
        """How many times over they pass the required rates; 0 where they are too small, or lose too much."""
        if not placement.homes:
            return math.inf
        if next(self.short_of_room(placement), None) or next(self.losses(placement), None):
            return 0.0
        levels = (limit.level for limit in self.limits(placement))
        return min(levels, default=math.inf)

    def rate(self, library: str, home: str) -> float:
        """What a library alone gets there in the slower direction, lasting, in bytes/s per core."""
        routes = [self._route(library, home, operation) for operation in OPERATIONS]
        limits = [route.stream_bytes_per_s for route in routes]
        limits += [
            self._per_core(use.resource.scope, use.resource.bytes_per_s) / use.coefficient
            for route in routes
            for use in route.uses
        ]
        return min(limits)

    def lost_with_node(self, homes: Mapping[str, str]) -> list[str]:
        """The libraries on kept file systems that are lost with a node."""
        return [name for name, home in homes.items() if not self.contributions[home].outlives_node]

    def server_points(self, home: str) -> int:
        """How its data fare when a server is lost: 2 where they outlive it, 3 where a service replaces it."""
        kept, filesystem = self.contributions[home], self.needs.given.filesystems[home]
        if not (kept.outlives_node and kept.outlives_server):
            return 0
        managed = kept.service is not None or ManagedLustre in kind_of(filesystem).requests(filesystem)
        return 3 if managed else 2

    def limits(self, placement: Placement) -> Iterator[Limit]:
        """Every resource on the way to kept file systems, with all that passes it."""
        for operation in OPERATIONS:
            loads: dict[str, list[float]] = {}
            seen: dict[str, tuple[str, str, float, bool]] = {}
            for library, home in placement.homes.items():
                rate = self.needs.libraries[library].bytes_per_s_per_core
                route = self._route(library, home, operation)
                for use in route.uses:
                    resource = use.resource
                    seen[resource.name] = (
                        home,
                        resource.what,
                        self._per_core(resource.scope, resource.bytes_per_s),
                        resource.scope == "node",
                    )
                    loads.setdefault(resource.name, []).append(rate * use.coefficient)
                if route.stream_bytes_per_s < math.inf:
                    yield self._limit(home, route.stream_limit, route.stream_bytes_per_s, rate, own=True)
            for name, rates in self._beside(placement, operation):
                if name in loads:
                    loads[name] += rates
            for name, rates in loads.items():
                home, what, provided, own = seen[name]
                yield self._limit(home, what, provided, self.needs.peak_factor.required(rates), own=own)

    @cached_property
    def _stated(self) -> Mapping[tuple[str, str], FileLayout | None]:
        """Layouts that the spec states, by library and kept file system."""
        return {
            (library, home): kind.stated_layout(filesystem, stated)
            for home, filesystem in self.needs.given.filesystems.items()
            if isinstance(kind := kind_of(filesystem), Layouts)
            for library, stated in self.needs.spec.libraries.items()
        }

    def _route(self, library: str, home: str, operation: Operation) -> Route:
        """The way to a library there; what the model chooses in place of a stated layout binds nothing."""
        there = self.contributions[home]
        layout = self._stated.get((library, home))
        route = there.routes[operation]
        return route if layout is None else apply_layout(route, operation, layout, there)

    def _limit(self, home: str, what: str, provided: float, required: float, *, own: bool) -> Limit:
        return Limit(home, what, provided, required, own, self.nodes.cores * self.nodes.count)

    def _per_core(self, scope: str, bytes_per_s: float) -> float:
        cores = self.nodes.cores
        return bytes_per_s / (cores if scope == "node" else cores * self.nodes.count)

    def _beside(self, placement: Placement, operation: Operation) -> Iterator[tuple[str, list[float]]]:
        """What libraries on new file systems take of the node's own resources."""
        instance = self.nodes.instance
        network = [use.resource.name for use in self.nodes.network(operation)]
        over_network: set[Place] = {"shared", "scratch"}
        if instance is not None and shares_network(instance):
            over_network.add("volumes")
        rates = self._rates_at(placement, over_network)
        yield from ((name, rates) for name in network)
        if instance is not None and volume_limit(instance) is not None:
            yield VOLUME_BANDWIDTH, self._rates_at(placement, {"volumes"})

    def _rates_at(self, placement: Placement, places: set[Place]) -> list[float]:
        libraries = self.needs.libraries
        return [libraries[name].bytes_per_s_per_core for name, at in placement.places.items() if at in places]

    def short_of_room(self, placement: Placement) -> Iterator[tuple[str, str]]:
        """Kept file systems that do not hold their libraries, by name, and by how much in words."""
        for home in dict.fromkeys(placement.homes.values()):
            has = self.contributions[home].capacity_bytes
            names = [name for name, where in placement.homes.items() if where == home]
            required = self.needs.capacity_later(names)
            when = " in 12 months" if required > self.needs.capacity(names) else ""
            if has is not None and required > has:
                yield (
                    home,
                    f"it holds {format_bytes(has)} of {format_bytes(required)} required{when} for "
                    f"{' and '.join(names)}, {format_bytes(required - has)} too little",
                )

    def losses(self, placement: Placement) -> Iterator[tuple[str, str]]:
        """Kept file systems that lose what must be kept, by name, and what in words."""
        may = self.needs.requirements.availability
        for library, home in placement.homes.items():
            contribution = self.contributions[home]
            if library == "data" and not may.lose_data_with_server:
                if not contribution.outlives_node:
                    yield home, "data on it are lost with a node, and must be kept"
                elif not contribution.outlives_server:
                    yield home, "data on it are lost with one of its servers, and must be kept"
            elif library != "data" and not contribution.outlives_node and not may.lose_work_with_node:
                yield home, f"{library} on it is lost with a node, and must be kept"


def check_existing_nodes(needs: Needs, catalog: Catalog) -> None:
    """Raise GridwrightError for nodes of a type that the provider does not have, at its field."""
    given = needs.given
    if given.instance is not None:
        site = Site(needs.spec, catalog, ComputeNodes(1, 1, None))
        site.instance(given.instance, "nodes", given.group, "instance")
        site.raise_problems()


class ExistingStorage:
    """The existing file systems of a spec, on any nodes. Raises GridwrightError for what is not on sale."""

    def __init__(self, needs: Needs, catalog: Catalog) -> None:
        self.needs = needs
        self.catalog = catalog
        self._on: dict[tuple[str, int], ExistingOnNodes | None] = {}
        self._shared: dict[tuple[str, int], Contribution] = {}

    def on(self, instance: InstanceType, count: int) -> ExistingOnNodes | None:
        """They on so many nodes of a type; None where one of them cannot be there."""
        key = (instance.name, count)
        if key not in self._on:
            self._on[key] = self._made(ComputeNodes(count, instance.cores, instance.memory_bytes, instance))
        return self._on[key]

    def _made(self, nodes: ComputeNodes) -> ExistingOnNodes | None:
        site = Site(self.needs.spec, self.catalog, nodes)
        found = {}
        for name, filesystem in self.needs.given.filesystems.items():
            found[name] = kind_of(filesystem).contribute(name, filesystem, site)
            if found[name].unknown and name in self.needs.given.homes.values():
                return None
        return None if site.problems else ExistingOnNodes(self.needs, nodes, found)

    def check(self, instance: InstanceType) -> None:
        """Raise GridwrightError for what no nodes could change, each at its field."""
        count = max(1, math.ceil(self.needs.cores / instance.cores))
        nodes = ComputeNodes(count, instance.cores, instance.memory_bytes, instance)
        site = Site(self.needs.spec, self.catalog, nodes)
        problems = []
        for name, filesystem in self.needs.given.filesystems.items():
            if filesystem.is_node_local:
                continue
            unknown = kind_of(filesystem).contribute(name, filesystem, site).unknown
            libraries = [each for each, home in self.needs.given.homes.items() if home == name]
            if unknown and libraries and not site.problems:
                what = f"what {name} gives to {' and '.join(libraries)} cannot be planned with: {unknown}"
                problems.append(problem_at(self.needs.spec, ("filesystems", name), what, "describe that"))
        site.raise_problems()
        if problems:
            raise GridwrightError(*problems)

    def refusals(self, instance: InstanceType, count: int) -> Iterator[tuple[str, str]]:
        """Which kept file systems cannot be on such nodes, by name, and why in words."""
        nodes = ComputeNodes(count, instance.cores, instance.memory_bytes, instance)
        for name, filesystem in self.needs.given.filesystems.items():
            site = Site(self.needs.spec, self.catalog, nodes)
            unknown = kind_of(filesystem).contribute(name, filesystem, site).unknown
            words = [what for _, what, _ in site.problems] or ([unknown] if unknown else [])
            yield from ((name, what) for what in words)
