"""Managed file systems of a grid as a whole: each direction alone, both at once, one client, cost.

Libraries are predicted in one direction at a time, as iotest measures them. Jobs read and write at once, and
services publish less for that than for either alone: a mix is what the resources on both routes let through
when of each byte moved the part `reads` is read and the rest written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

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


def services(model: GridModel, streams_per_node: int) -> Iterator[ServicePrediction]:
    """What each managed file system of the grid gives, that is known at all."""
    for name, found in model.contributions.items():
        if found.service is not None and all(each in found.routes for each in OPERATIONS):
            yield _service(model, name, found, found.service, streams_per_node)


def _service(
    model: GridModel, name: str, found: Contribution, terms: ServiceTerms, streams_per_node: int
) -> ServicePrediction:
    prices = [cost.usd_per_hour for cost in found.costs]
    alone = _of_service(found.routes)
    return ServicePrediction(
        filesystem=name,
        what=terms.what,
        service=_rates(alone, terms.reads, model.nodes),
        all_nodes=_rates(found.routes, terms.reads, model.nodes),
        one_client=_rates(found.routes, terms.reads, 1),
        published=_deviation(alone, terms),
        metadata=_metadata(terms, streams_per_node * model.nodes),
        usd_per_hour=None if None in prices else sum(usd for usd in prices if usd is not None),
    )


def _of_service(routes: Mapping[Operation, Route]) -> dict[Operation, Route]:
    """The same without limits that each node has of its own."""
    return {
        operation: Route(tuple(use for use in route.uses if use.resource.scope == "grid"))
        for operation, route in routes.items()
    }


def _rates(routes: Mapping[Operation, Route], reads: float, nodes: int) -> ServiceRates:
    read, write = (mix(routes, part, nodes).bytes_per_s for part in (1.0, 0.0))
    return ServiceRates(read, write, mix(routes, reads, nodes))


def mix(routes: Mapping[Operation, Route], reads: float, nodes: int) -> MixedRates:
    """The most that so many nodes move in both directions when the part `reads` of all bytes is read.

    A resource that a byte read takes `a` of, and a byte written `b`, lets capacity/(reads*a + (1-reads)*b)
    bytes through; the least of all resources on either route binds.
    """
    parts: dict[Operation, float] = {"read": reads, "write": 1 - reads}

    def passes(cost: _Cost) -> float:
        taken = sum(parts[each] * cost.taken.get(each, 0.0) for each in OPERATIONS)
        return cost.bytes_per_s / taken if taken else float("inf")

    binding = min(_costs(routes, nodes), key=passes)
    total = passes(binding)
    return MixedRates(reads, total, total * reads, total * (1 - reads), binding.resource.name)


def _costs(routes: Mapping[Operation, Route], nodes: int) -> list[_Cost]:
    """Every resource on either route, of all nodes together."""
    resources: dict[str, Resource] = {}
    taken: dict[str, dict[Operation, float]] = {}
    for operation, route in routes.items():
        for use in route.uses:
            resource = use.resource
            resources[resource.name] = resource
            of_resource = taken.setdefault(resource.name, {})
            of_resource[operation] = of_resource.get(operation, 0.0) + use.coefficient
    return [
        _Cost(each, each.bytes_per_s * (nodes if each.scope == "node" else 1), taken[name])
        for name, each in resources.items()
    ]


def _deviation(routes: Mapping[Operation, Route], terms: ServiceTerms) -> PublishedDeviation | None:
    """How far the limits of a service, without those of nodes, are from the mix that was published."""
    if (published := terms.published) is None:
        return None
    total = published.read_bytes_per_s + published.write_bytes_per_s
    modelled = mix(routes, published.read_bytes_per_s / total, 1)
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
