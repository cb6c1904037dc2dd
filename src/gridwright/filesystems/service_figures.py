"""The figures of a file system that is a service: those of the grid spec, else those of its offer."""

from __future__ import annotations

from collections.abc import Mapping

from gridwright.catalog.managed import ManagedOffer
from gridwright.filesystems.resources import OPERATIONS, Operation, PublishedMix
from gridwright.filesystems.service_limits import ClientLimits, ServiceLimits
from gridwright.filesystems.service_model import ServiceFileSystem
from gridwright.filesystems.service_routes import Budget, ServiceBurstFigure, ServiceFigure, ServiceFigures
from gridwright.units import Rate

_SPEC = "the grid spec"


def figures_of(
    filesystem: ServiceFileSystem, offer: ManagedOffer | None, title: str, connections: int
) -> ServiceFigures:
    """All that is known of it, in bytes per second. Own figures take the place of published ones.

    `connections` are those of each node where its limits name none.
    """
    limits = filesystem.limits or ServiceLimits()
    client = limits.client or ClientLimits()
    return ServiceFigures(
        title=offer.name if offer else title,
        alone=_directions(limits, _published(offer, "read"), _published(offer, "write")),
        separate=limits.separate,
        budget=_budget(limits),
        bought=_stated(filesystem.throughput) or _by_capacity(filesystem, offer),
        burst=ServiceBurstFigure(
            float(limits.burst.rate.bytes_per_s),
            None if limits.burst.credit is None else float(limits.burst.credit),
        )
        if limits.burst
        else None,
        client=_directions(client, None, None),
        # Any client reaches what any client is published to get; the service's own may reach more.
        client_both=_stated(client.both) or _published(offer, "client_plain") or _published(offer, "client"),
        flow=_stated(client.flow),
        connections=client.connections or connections,
    )


def published_mix(offer: ManagedOffer | None, figures: ServiceFigures) -> PublishedMix | None:
    """What was published of reads and writes at once; None where less is bought than was measured with."""
    read, write = _published(offer, "mixed_read"), _published(offer, "mixed_write")
    if read is None or write is None:
        return None
    if figures.bought is not None and figures.bought.bytes_per_s < read.bytes_per_s + write.bytes_per_s:
        return None
    return PublishedMix(read.bytes_per_s, write.bytes_per_s, read.source)


def _stated(rate: Rate | None) -> ServiceFigure | None:
    return None if rate is None else ServiceFigure(float(rate.bytes_per_s), _SPEC, "stated")


def _published(offer: ManagedOffer | None, fact: str) -> ServiceFigure | None:
    rate = offer.figure(fact) if offer else None
    if offer is None or rate is None:
        return None
    return ServiceFigure(rate, str(offer.facts[fact].source))


def _by_capacity(filesystem: ServiceFileSystem, offer: ManagedOffer | None) -> ServiceFigure | None:
    """Throughput that comes with the capacity."""
    each = _published(offer, "by_capacity")
    if each is None or filesystem.capacity is None:
        return None
    return ServiceFigure(each.bytes_per_s * filesystem.capacity, each.source)


def _budget(limits: ServiceLimits) -> Budget | None:
    if (stated := limits.budget) is None:
        return None
    costs: Mapping[Operation, float] = {"read": stated.read_cost, "write": stated.write_cost}
    return Budget(ServiceFigure(float(stated.rate.bytes_per_s), _SPEC, "stated"), costs)


def _directions(
    limits: ServiceLimits | ClientLimits, read: ServiceFigure | None, write: ServiceFigure | None
) -> dict[Operation, ServiceFigure]:
    """What is known in each direction, the spec's own figures first."""
    known = {"read": _stated(limits.read) or read, "write": _stated(limits.write) or write}
    return {operation: figure for operation in OPERATIONS if (figure := known[operation]) is not None}
