"""Managed file systems of a grid as a whole: each direction alone, both at once, one client, cost.

Libraries are predicted in one direction at a time, as iotest measures them. Jobs read and write at once, and
services publish less for that than for either alone: a mix is what the resources on both routes let through
when of each byte moved the part `reads` is read and the rest written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gridwright.filesystems.resources import (
    OPERATIONS,
    Contribution,
    Operation,
    Resource,
    Route,
    ServiceTerms,
)
from gridwright.model.grid import GridModel
from gridwright.model.prediction import (
    MetadataRates,
    MixedRates,
    PublishedDeviation,
    ServicePrediction,
    ServiceRates,
)


@dataclass(frozen=True, slots=True)
class _Cost:
    """What a resource lets through, and what a byte of each direction takes of it."""

    resource: Resource
    bytes_per_s: float
    taken: Mapping[Operation, float]


def services(model: GridModel, streams_per_node: int | None) -> Iterator[ServicePrediction]:
    """What each managed file system of the grid gives, that is known at all."""
    for name, found in model.contributions.items():
        if found.service is not None and all(each in found.routes for each in OPERATIONS):
            yield _service(model, name, found, found.service, streams_per_node)


def _service(
    model: GridModel, name: str, found: Contribution, terms: ServiceTerms, streams_per_node: int | None
) -> ServicePrediction:
    prices = [cost.usd_per_hour for cost in found.costs]
    alone = _of_service(found.routes)
    clients = [Clients(group.contributions[name].routes, group.nodes) for group in model.groups]
    each_alone = [_rates([replace(each, nodes=1)], terms.reads) for each in clients]
    streams = sum(group.streams(streams_per_node) * group.nodes for group in model.groups)
    return ServicePrediction(
        filesystem=name,
        what=terms.what,
        service=_rates([Clients(alone, model.nodes)], terms.reads),
        all_nodes=_rates(clients, terms.reads),
        one_client=min(each_alone, key=lambda rates: rates.mixed.bytes_per_s),
        published=_deviation(alone, terms),
        metadata=_metadata(terms, streams),
        usd_per_hour=None if None in prices else sum(usd for usd in prices if usd is not None),
    )


@dataclass(frozen=True, slots=True)
class Clients:
    """So many alike nodes, and their way to a service in each direction."""

    routes: Mapping[Operation, Route]
    nodes: int


def _of_service(routes: Mapping[Operation, Route]) -> dict[Operation, Route]:
    """The same without limits that each node has of its own."""
    return {
        operation: Route(tuple(use for use in route.uses if use.resource.scope == "grid"))
        for operation, route in routes.items()
    }


def _rates(clients: Sequence[Clients], reads: float) -> ServiceRates:
    read, write = (mix(clients, part).bytes_per_s for part in (1.0, 0.0))
    return ServiceRates(read, write, mix(clients, reads))


def mix(clients: Sequence[Clients], reads: float) -> MixedRates:
    """The most that these nodes move in both directions when the part `reads` of all bytes is read.

    A resource that a byte read takes `a` of, and a byte written `b`, lets capacity/(reads*a + (1-reads)*b)
    bytes through. The least of what all nodes share binds, or the sum of what each group's own let through.
    """
    parts: dict[Operation, float] = {"read": reads, "write": 1 - reads}

    def passes(cost: _Cost) -> float:
        taken = sum(parts[each] * cost.taken.get(each, 0.0) for each in OPERATIONS)
        return cost.bytes_per_s / taken if taken else float("inf")

    found = [_costs(each) for each in clients]
    limits = [(passes(cost), cost.resource.name) for cost in found[0] if cost.resource.scope == "grid"]
    own = [
        min(
            ((passes(cost), cost.resource.name) for cost in costs if cost.resource.scope == "node"),
            default=None,
        )
        for costs in found
    ]
    known = [each for each in own if each is not None]
    if known and len(known) == len(own):
        limits.append((sum(most for most, _ in known), min(known)[1]))
    total, name = min(limits)
    return MixedRates(reads, total, total * reads, total * (1 - reads), name)


def _costs(clients: Clients) -> list[_Cost]:
    """Every resource on either route, of all nodes together."""
    resources: dict[str, Resource] = {}
    taken: dict[str, dict[Operation, float]] = {}
    for operation, route in clients.routes.items():
        for use in route.uses:
            resource = use.resource
            resources[resource.name] = resource
            of_resource = taken.setdefault(resource.name, {})
            of_resource[operation] = of_resource.get(operation, 0.0) + use.coefficient
    return [
        _Cost(each, each.bytes_per_s * (clients.nodes if each.scope == "node" else 1), taken[name])
        for name, each in resources.items()
    ]


def _deviation(routes: Mapping[Operation, Route], terms: ServiceTerms) -> PublishedDeviation | None:
    """How far the limits of a service, without those of nodes, are from the mix that was published."""
    if (published := terms.published) is None:
        return None
    total = published.read_bytes_per_s + published.write_bytes_per_s
    modelled = mix([Clients(routes, 1)], published.read_bytes_per_s / total)
    return PublishedDeviation(
        published.read_bytes_per_s,
        published.write_bytes_per_s,
        modelled.bytes_per_s / total - 1,
        published.source,
    )


def _metadata(terms: ServiceTerms, streams: int) -> MetadataRates | None:
    """Operations per second: a stream waits for each of its own, and all share what the service takes."""
    latency, most = terms.metadata_latency_s, terms.metadata_per_s
    if latency is None and most is None:
        return None
    of_streams = None if latency is None else streams / latency
    rates = [rate for rate in (of_streams, most) if rate is not None]
    return MetadataRates(latency, None if latency is None else 1 / latency, min(rates))
