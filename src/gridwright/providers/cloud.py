"""What clouds in which grids are made have alike: ranges of addresses, machines and costs, head nodes."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any, NamedTuple

import psutil

from gridwright.errors import GridwrightError, Problem, environment_error
from gridwright.filesystems.resources import Cost
from gridwright.model.pricing_provider import PricingProvider
from gridwright.spec.model import GridSpec
from gridwright.units import HOURS_PER_MONTH
from gridwright.yamltext.fields import FieldError
from gridwright.yamltext.source import show

if TYPE_CHECKING:
    from gridwright.catalog import Catalog
    from gridwright.model.grid import GridModel


WIDEST_SSH = 8
"""Shortest prefix of a range that is let in from outside: a site's own addresses are never more."""
SSH_EXAMPLE = "write the addresses that your users come from, such as 203.0.113.0/24"


def parsed_range(value: str, example: str, *, widest: int = 0) -> IPv4Network:
    """A range; what is wrong names the nearest one, with a prefix of `widest` or more, or the example."""
    try:
        return IPv4Network(value)
    except ValueError:
        pass
    try:
        near = IPv4Network(value, strict=False)
    except ValueError:
        raise FieldError(f"{show(value)} is no range of IPv4 addresses", example) from None
    if near.prefixlen < widest:
        near = IPv4Network((value.partition("/")[0], widest), strict=False)
    raise FieldError(f"{value} has bits of an address behind its prefix", f"write {near}")


def private_network(value: str, example: str, largest: int, smallest: int, unfit: str) -> str:
    """A private range with a prefix from `largest` to `smallest`; `unfit` says what is wrong with others."""
    network = parsed_range(value, example)
    if not network.is_private or network.is_loopback or network.is_link_local:
        raise FieldError(f"{value} is not a private range of addresses", example)
    if not largest <= network.prefixlen <= smallest:
        near = largest if network.prefixlen < largest else smallest
        nearby = IPv4Network((network.network_address, near), strict=False)
        raise FieldError(f"{value} is not of a size that {unfit}", f"write {nearby}")
    return str(network)


def let_in(value: str, *, example: str = SSH_EXAMPLE, do: str = "log in") -> str:
    """A range that others may come from, not much of the Internet; `do` is what for."""
    network = parsed_range(value, example, widest=WIDEST_SSH)
    if network.prefixlen == 0:
        raise FieldError(f"{value} lets everybody on the Internet try to {do}", example)
    if network.prefixlen < WIDEST_SSH:
        near = IPv4Network((network.network_address, WIDEST_SSH))
        raise FieldError(f"{value} is a large part of the Internet", f"write {near}, or a narrower range")
    return str(network)


def written_range(value: object) -> IPv4Network | None:
    """A range that is written as it should be; None for others, of which the models tell."""
    try:
        return IPv4Network(value) if isinstance(value, str) else None
    except ValueError:
        return None


def first_free(network: IPv4Network, used: Collection[IPv4Network], prefix: int) -> IPv4Network | None:
    """The first part of a network with this prefix that overlaps none of those that are used."""
    parts = network.subnets(new_prefix=prefix)
    return next((each for each in parts if not any(each.overlaps(other) for other in used)), None)


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


def is_one_of(machines: Iterable[tuple[str, object]]) -> bool:
    """Whether this machine has the name and an address of one of these; pairs of a name and an address."""
    name = socket.gethostname().partition(".")[0]
    own = {each.address for interface in psutil.net_if_addrs().values() for each in interface}
    return any(each == name and str(address) in own for each, address in machines)


def host_keys(spec: GridSpec, made: str) -> str:
    """Names the file of host keys: another one for each grid, and for each time that its machines changed."""
    return f"{spec.name}-{hashlib.sha256(made.encode()).hexdigest()[:12]}"


def not_up(spec: GridSpec) -> GridwrightError:
    """The error of a grid that is not up, or not whole."""
    return environment_error(
        f"grid {spec.name} is not up",
        where=str(spec.file) if spec.file else None,
        remedy=f"run gridwright up {spec.file or 'FILE'}; see how it stands with gridwright status",
    )
