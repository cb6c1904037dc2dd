"""Machines that a cloud sells: the types that a spec names, what they cost, and the bill as a document."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from gridwright.errors import GridwrightError, Problem
from gridwright.filesystems.resources import Cost
from gridwright.model.pricing_provider import PricingProvider
from gridwright.spec.model import GridSpec
from gridwright.units import HOURS_PER_MONTH

if TYPE_CHECKING:
    from gridwright.catalog import Catalog
    from gridwright.model.grid import GridModel


class NamedType(NamedTuple):
    """A type of machine that a spec names: where, for what, and its name."""

    path: tuple[str, ...]
    what: str
    name: str


def named_types(spec: GridSpec) -> Iterator[NamedType]:
    """Types of nodes, servers, and machines beside the nodes; what a provider's section names is its own."""
    for name, group in spec.nodes.items():
        if group.instance is not None:
            yield NamedType(("nodes", name, "instance"), f"nodes {name}", group.instance)
    for name, filesystem in spec.filesystems.items():
        for role, servers in filesystem.server_groups.items():
            path = ("filesystems", name, role, "instance")
            yield NamedType(path, f"{role.upper()} servers of {name}", servers.instance)
    for name, machines in spec.machines.items():
        if machines.instance is not None:
            yield NamedType(("machines", name, "instance"), f"machines {name}", machines.instance)


def machine_costs(spec: GridSpec, catalog: Catalog, own: Mapping[str, str]) -> Iterator[Cost]:
    """Lines of the grid's `own` machines, types by what they are, and of machines beside the nodes."""
    for what, instance in own.items():
        yield Cost(f"{what} {instance}", _price(spec, catalog, instance), instance)
    for name, group in spec.machines.items():
        usd = _price(spec, catalog, group.instance or "")
        what = f"{group.count} x {group.instance} of machines {name}"
        yield Cost(what, None if usd is None else usd * group.count, group.instance or "")


def _price(spec: GridSpec, catalog: Catalog, name: str) -> float | None:
    """USD per hour of one machine; None where it, or the type, is not known: `check` says so."""
    try:
        return catalog.instance_usd_per_hour(name, spec.region or "")
    except GridwrightError:
        return None


class CloudPricing(PricingProvider):
    """The pricing of a cloud in which Gridwright makes grids."""

    def costs_beside(self, spec: GridSpec, catalog: Catalog) -> tuple[Cost, ...]:
        """Lines of the bill for what the provider's section brings; none without that section."""
        built = [each for each in spec.filesystems.values() if each.is_built]
        servers = sum(group.count for each in built for group in each.server_groups.values())
        return self.costs_of(spec, catalog, spec.node_count() + servers, has_lustre=False)


def cost_document(spec: GridSpec, model: GridModel) -> dict[str, Any]:
    """The bill by line, as `predict` and `plan` have it; None where a price is not known."""
    hourly = model.usd_per_hour
    return {
        "schema": 1,
        "region": spec.region,
        "currency": "USD",
        "lines": [{"what": each.what, "usd_per_hour": each.usd_per_hour} for each in model.costs],
        "usd_per_hour": hourly,
        "usd_per_month": None if hourly is None else hourly * HOURS_PER_MONTH,
    }


def problems_of(spec: GridSpec, *checks: Callable[[GridSpec], object]) -> list[Problem]:
    """What the checks of a spec raise, each problem once."""
    found: list[Problem] = []
    for check in checks:
        try:
            check(spec)
        except GridwrightError as error:
            found += [each for each in error.problems if each not in found]
    return found
