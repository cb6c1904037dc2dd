"""Where a grid is built: its nodes, the catalogue of its provider, and the problems found on the way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import cast

from gridwright.catalog import Catalog, InstanceType
from gridwright.catalog.instances import Provider
from gridwright.errors import ExitStatus, GridwrightError
from gridwright.filesystems.resources import OPERATIONS, Operation, Resource, Route, Use
from gridwright.spec.filesystem import Delivery
from gridwright.spec.load import problem_at
from gridwright.spec.model import GridSpec
from gridwright.units import format_rate


@dataclass(frozen=True, slots=True)
class ComputeNodes:
    """The nodes that run jobs; all alike. `instance` is None where no catalogue has them.

    `network_bytes_per_s` is what the spec says of the network of such nodes, in each direction.
    """

    count: int
    cores: int
    memory_bytes: int | None
    instance: InstanceType | None = None
    network_bytes_per_s: float | None = None

    def network(self, operation: Operation) -> tuple[Use, ...]:
        """What the node's network brings to the route of a shared file system."""
        if self.instance is not None:
            return (Use(_network(self.instance, operation)),)
        if self.network_bytes_per_s is None:
            return ()
        return (Use(_stated_network(self.network_bytes_per_s, operation)),)


def stated_routes(
    name: str, what: str, delivers: Delivery | None, nodes: ComputeNodes | None = None
) -> dict[Operation, Route]:
    """Routes over what the spec says that something delivers, to `nodes` together or else at each node."""
    rates = {"write": delivers.write, "read": delivers.read} if delivers else {}
    routes: dict[Operation, Route] = {}
    for operation in OPERATIONS:
        if rate := rates.get(operation):
            resource = Resource(
                f"{name}-{operation}",
                f"{what} ({rate} {operation}, as the spec says)",
                "node" if nodes is None else "grid",
                rate.bytes_per_s,
                "the grid spec",
            )
            routes[operation] = Route((*(nodes.network(operation) if nodes else ()), Use(resource)))
    return routes


def _stated_network(bytes_per_s: float, operation: Operation) -> Resource:
    """What the spec says of the node's network, in the direction of the operation."""
    direction = "out" if operation == "write" else "in"
    what = f"network of a node ({format_rate(bytes_per_s)} {direction})"
    return Resource(f"node.network-{direction}", what, "node", bytes_per_s, "the grid spec", nature="stated")


def _network(instance: InstanceType, operation: Operation) -> Resource:
    """The node's network, in the direction of the operation; one resource where volumes share it."""
    shared = shares_network(instance)
    direction = "out" if operation == "write" else "in"
    steady = steady_network(instance)
    return Resource(
        "node.network" if shared else f"node.network-{direction}",
        f"network of a node ({instance.name}, {format_rate(steady)}{'' if shared else f' {direction}'})",
        "node",
        steady,
        # Where EC2 lists the adapter's rate, what passes over TCP has a source of its own.
        str(instance.network.over_tcp or instance.source),
        burst_bytes_per_s=instance.network.peak_bytes_per_s
        if instance.network.peak_bytes_per_s > steady
        else None,
        burst_s=instance.network.burst_s,
        nature="network",
    )


def steady_network(instance: InstanceType) -> float:
    """The steady rate of an instance's network in each direction, in bytes per second.

    Nodes and servers of a grid are taken to be in one cluster placement group, as the papers advise
    (000.hw.net): some older types pass more there than is listed as their baseline.
    """
    return max(instance.network.baseline_bytes_per_s, instance.placement_bytes_per_s or 0.0)


def shares_network(instance: InstanceType) -> bool:
    """Whether what an instance moves to and from its volumes counts against its network."""
    return instance.ebs is not None and not instance.ebs.dedicated


def volume_limit(instance: InstanceType) -> float | None:
    """The lasting rate to all of an instance's volumes, in bytes per second.

    None where nothing but the network, which the volumes then share, limits it, or where none is listed.
    """
    ebs = instance.ebs
    if ebs is None or (
        not ebs.dedicated and ebs.baseline_bytes_per_s == instance.network.baseline_bytes_per_s
    ):
        return None
    return ebs.baseline_bytes_per_s


def default_region(catalog: Catalog, spec: GridSpec) -> str:
    """The region of a spec; where it names none and all have the same prices, the first one."""
    if spec.region or not spec.provider_kind.market.one_price_everywhere:
        return spec.region or ""
    return catalog.regions(cast("Provider", spec.provider))[0]


@dataclass(slots=True)
class Site:
    """What a file system's `contribute` works with."""

    spec: GridSpec
    catalog: Catalog
    nodes: ComputeNodes
    problems: list[tuple[tuple[str, ...], str, str]] = field(default_factory=list)

    @property
    def region(self) -> str:
        """Where prices are looked up; see default_region."""
        return default_region(self.catalog, self.spec)

    def report(self, path: tuple[str, ...], what: str, remedy: str) -> None:
        """Note what is wrong with a field of the spec; all problems are raised together."""
        self.problems.append((path, what, remedy))

    @contextmanager
    def field(self, *path: str) -> Iterator[None]:
        """Turn what the catalogue refuses inside into problems with this field of the spec."""
        try:
            yield
        except GridwrightError as error:
            if error.status != ExitStatus.INPUT:
                raise
            for problem in error.problems:
                place = (*path, problem.field) if problem.field else path
                self.report(place, problem.what, problem.remedy or "see gridwright catalog list")

    def instance(self, name: str, *path: str) -> InstanceType | None:
        """The instance type of that name, of the grid's provider; None after its problem was noted."""
        with self.field(*path):
            return self.catalog.instance(name, self.spec.provider)
        return None

    def instance_usd_per_hour(self, name: str, *path: str) -> float | None:
        """The price of one instance; None where none is known."""
        with self.field(*path):
            return self.catalog.instance_usd_per_hour(name, self.region)
        return None

    def raise_problems(self) -> None:
        """Raise GridwrightError with all that was noted, each at its place in the spec, if anything was."""
        if self.problems:
            raise GridwrightError(*(problem_at(self.spec, *each) for each in dict.fromkeys(self.problems)))
