"""A file system that is a service in a prediction: its figures, routes and price.

Figures are those of the grid spec, else those of its offer. Reads and writes at once pass a budget on which
each byte has a cost, as FSx for Lustre has it where less is listed for writes. With costs budget/read and
budget/write either direction alone reaches its own limit, and a mix lies on the straight line between them:
r/read + w/write <= 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gridwright.catalog.managed import ManagedOffer, OfferPrice, offer_price
from gridwright.errors import Finding
from gridwright.filesystems.resources import (
    OPERATIONS,
    Contribution,
    Cost,
    Nature,
    Operation,
    PublishedMix,
    Resource,
    Route,
    ServiceTerms,
    Use,
)
from gridwright.filesystems.service_model import (
    ClientLimits,
    MetadataLimits,
    ServiceFileSystem,
    ServiceLimits,
)
from gridwright.filesystems.site import ComputeNodes, Site
from gridwright.units import HOURS_PER_MONTH, Bytes, Rate, format_rate


def service_contribution(
    name: str,
    filesystem: ServiceFileSystem,
    site: Site,
    title: str,
    *,
    protocol: str = "",
    connections: int = 1,
) -> Contribution:
    """What the service delivers to all nodes. Problems with the spec are noted at the site.

    `title` is what it is called where it names no offer; `protocol` is what an offer has to speak, if any.
    """
    path = ("filesystems", name)
    problems = len(site.problems)
    offer = _offer(path, filesystem, site)
    if offer is not None:
        _check_offer(path, filesystem, offer, site)
        _check_protocol(path, filesystem.type, protocol, offer, site)
    if len(site.problems) > problems:
        return Contribution({}, unknown="its offer or size is not on sale")
    figures = figures_of(filesystem, offer, title, connections)
    missing = figures.missing()
    label = _label(filesystem, title)
    limits = filesystem.limits
    hourly, findings = usd_per_hour(name, filesystem, offer, site)
    metadata = (limits.metadata if limits else None) or MetadataLimits()
    return Contribution(
        _service_routes(name, figures, site.nodes),
        (Cost(label, hourly),),
        capacity_bytes=None if filesystem.capacity is None else int(filesystem.capacity),
        # A service that loses data with one of its servers says so; none of the offers does.
        outlives_server=offer is not None or not protocol,
        unknown=f"nobody says what it delivers ({' and '.join(missing)}; limits: or throughput: does)"
        if missing
        else "",
        service=ServiceTerms(
            label,
            filesystem.reads / 100,
            _published_mix(offer, figures),
            metadata.latency,
            metadata.operations,
        ),
        findings=findings,
    )


def _label(filesystem: ServiceFileSystem, title: str) -> str:
    words = filesystem.offer or title
    return words if filesystem.capacity is None else f"{words} of {Bytes(filesystem.capacity)}"


def _offer(path: tuple[str, ...], filesystem: ServiceFileSystem, site: Site) -> ManagedOffer | None:
    """The offer that it names; None where it names none, or after its problem was noted."""
    if filesystem.offer is None:
        return None
    with site.field(*path, "offer"):
        return site.catalog.offer(filesystem.offer)
    return None


def _check_offer(
    path: tuple[str, ...], filesystem: ServiceFileSystem, offer: ManagedOffer, site: Site
) -> None:
    """Note what the offer's provider would refuse, and what has to be said for its throughput."""
    if offer.provider != site.spec.provider:
        site.report(
            (*path, "offer"),
            f"{offer.name} is an offer of {offer.provider}, and the provider is {site.spec.provider}",
            f"choose one of {site.spec.provider}, or write provider: {offer.provider}; "
            "gridwright catalog list shows all",
        )
    if offer.figure("by_capacity") and filesystem.capacity is None and filesystem.throughput is None:
        site.report(
            path,
            f"the throughput of {offer.name} goes by its capacity, and none is written",
            "add capacity: 12 TiB, or what is bought apart from it, such as throughput: 2 GB/s",
        )
    _check_capacity(path, filesystem, offer, site)
    _check_throughput(path, filesystem, offer, site)


def _check_protocol(path: tuple[str, ...], kind: str, protocol: str, offer: ManagedOffer, site: Site) -> None:
    """Note an offer that clients of this kind do not reach."""
    if protocol and offer.protocol != protocol:
        site.report(
            (*path, "offer"),
            f"nodes reach {offer.name} by {offer.protocol}, and this is of type {kind}",
            f"write type: {offer.protocol}, or an offer that speaks {protocol}; gridwright catalog list "
            "--json names their protocols",
        )


def _check_throughput(
    path: tuple[str, ...], filesystem: ServiceFileSystem, offer: ManagedOffer, site: Site
) -> None:
    """What is bought apart from capacity has to be said, within what is sold."""
    least, most, step = (offer.figure(f"throughput_{each}") for each in ("min", "max", "step"))
    if filesystem.throughput is None:
        if least is not None and filesystem.limits is None:
            site.report(
                path,
                f"the throughput of {offer.name} is bought apart from its capacity, and none is written",
                f"add throughput: {format_rate(least)}, or more",
            )
        return
    rate = filesystem.throughput.bytes_per_s
    if least is not None and rate < least:
        what, remedy = f"is sold from {format_rate(least)} on", f"write {format_rate(least)} or more"
    elif most is not None and rate > most:
        what, remedy = f"is sold up to {format_rate(most)}", f"write {format_rate(most)} or less"
    elif step and rate % step:
        what, remedy = f"is sold in steps of {format_rate(step)}", f"write a multiple of {format_rate(step)}"
    else:
        return
    site.report((*path, "throughput"), f"{offer.name} {what}, and this is {filesystem.throughput}", remedy)


def _check_capacity(
    path: tuple[str, ...], filesystem: ServiceFileSystem, offer: ManagedOffer, site: Site
) -> None:
    size = filesystem.capacity
    if size is None:
        return
    least, most, step = (offer.figure(f"capacity_{each}") for each in ("min", "max", "step"))
    if least is not None and size < least:
        what, remedy = f"is sold from {_size(least)} on", f"write {_size(least)} or more"
    elif most is not None and size > most:
        what, remedy = f"is sold up to {_size(most)}", f"write {_size(most)} or less"
    elif step is not None and size % step:
        above = (size // step + 1) * step
        what, remedy = f"is sold in steps of {_size(step)}", f"the next is {_size(above)}"
    else:
        return
    site.report((*path, "capacity"), f"{offer.name} {what}, and this is {size}", remedy)


def _size(size: float) -> str:
    return str(Bytes(int(size)))


@dataclass(frozen=True, slots=True)
class ServiceFigure:
    """A rate in bytes per second, and who says so: the grid spec, or a published source."""

    bytes_per_s: float
    source: str
    nature: Nature = "server"


@dataclass(frozen=True, slots=True)
class Budget:
    """A budget of reads and writes together; each byte of an operation takes its cost of it."""

    figure: ServiceFigure
    costs: Mapping[Operation, float]


@dataclass(frozen=True, slots=True)
class ServiceBurstFigure:
    """What the budget is until `credit_bytes` above what lasts were let through; None where nobody says."""

    bytes_per_s: float
    credit_bytes: float | None


@dataclass(frozen=True, slots=True)
class ServiceFigures:
    """What is known of a service. `alone` is what all clients get in one direction, nothing in the other.

    `separate`: what one direction moves takes nothing from the other. `bought` is throughput that is
    bought, for both directions together. `client`, `client_both` and `flow` are of one client: in a
    direction, in both, and of one of its `connections` in each direction.
    """

    title: str
    alone: Mapping[Operation, ServiceFigure]
    separate: bool = False
    budget: Budget | None = None
    bought: ServiceFigure | None = None
    burst: ServiceBurstFigure | None = None
    client: Mapping[Operation, ServiceFigure] | None = None
    client_both: ServiceFigure | None = None
    flow: ServiceFigure | None = None
    connections: int = 1

    def missing(self) -> list[Operation]:
        """Directions of which nothing limits the whole."""
        joint = self.bought is not None or self.budget is not None
        return [] if joint else [operation for operation in OPERATIONS if operation not in self.alone]


def _service_routes(name: str, figures: ServiceFigures, nodes: ComputeNodes) -> dict[Operation, Route]:
    """The route of each direction whose limit is known, behind the network of each node."""
    missing = figures.missing()
    shared = [*_shared_uses(name, figures)]
    return {
        operation: Route(
            (
                *nodes.network(operation),
                *_client(name, figures, operation),
                *(uses[operation] for uses in shared if operation in uses),
            )
        )
        for operation in OPERATIONS
        if operation not in missing
    }


def _shared_uses(name: str, figures: ServiceFigures) -> Iterator[Mapping[Operation, Use]]:
    """Limits of all clients together, each with what a byte of each direction takes of it."""
    joint = [*_budgets(name, figures)]
    for place, (part, what, budget) in enumerate(joint):
        # The first of them is what a burst lifts.
        resource = _budget_resource(f"{name}.{part}", what, budget, figures.burst if place == 0 else None)
        yield {each: Use(resource, budget.costs[each]) for each in OPERATIONS}
    if "throughput" not in [part for part, _, _ in joint]:
        for operation, figure in figures.alone.items():
            what = f"{figures.title}: {operation}s of all nodes ({format_rate(figure.bytes_per_s)})"
            yield {operation: Use(_grid(f"{name}.{operation}", what, figure))}


def _budgets(name: str, figures: ServiceFigures) -> Iterator[tuple[str, str, Budget]]:
    """Budgets that reads and writes share: name, words, figures."""
    even = dict.fromkeys(OPERATIONS, 1.0)
    if stated := figures.budget:
        costs = " and ".join(f"{operation} {stated.costs[operation]:g}" for operation in OPERATIONS)
        rate = format_rate(stated.figure.bytes_per_s)
        yield "budget", f"{figures.title}: budget of {rate}; each byte costs {costs}", stated
    if figures.bought:
        rate = format_rate(figures.bought.bytes_per_s)
        yield "bought", f"{figures.title}: {rate} bought", Budget(figures.bought, even)
    read, write = figures.alone.get("read"), figures.alone.get("write")
    if read and write and not figures.separate and figures.budget is None:
        cost = read.bytes_per_s / write.bytes_per_s
        what = (
            f"{figures.title}: {format_rate(read.bytes_per_s)} read alone, "
            f"{format_rate(write.bytes_per_s)} written alone"
        )
        yield "throughput", what, Budget(read, {"read": 1.0, "write": cost})


def _budget_resource(name: str, what: str, budget: Budget, burst: ServiceBurstFigure | None) -> Resource:
    steady = budget.figure.bytes_per_s
    lifted = burst.bytes_per_s if burst and burst.bytes_per_s > steady else None
    seconds = None
    if burst and burst.credit_bytes is not None and lifted is not None:
        seconds = burst.credit_bytes / (lifted - steady)
    return Resource(
        name,
        what,
        "grid",
        steady,
        budget.figure.source,
        burst_bytes_per_s=lifted,
        burst_s=seconds,
        nature=budget.figure.nature,
    )


def _grid(name: str, what: str, figure: ServiceFigure) -> Resource:
    return Resource(name, what, "grid", figure.bytes_per_s, figure.source, nature=figure.nature)


def _client(name: str, figures: ServiceFigures, operation: Operation) -> Iterator[Use]:
    """What one node gets."""

    def limit(part: str, what: str, figure: ServiceFigure, times: int = 1) -> Use:
        rate = figure.bytes_per_s * times
        return Use(Resource(f"{name}.{part}", what, "node", rate, figure.source, nature=figure.nature))

    if own := (figures.client or {}).get(operation):
        rate = format_rate(own.bytes_per_s)
        yield limit(f"client-{operation}", f"{operation}s of one client ({rate})", own)
    if both := figures.client_both:
        yield limit(
            "client", f"reads and writes of one client together ({format_rate(both.bytes_per_s)})", both
        )
    if flow := figures.flow:
        count = figures.connections
        what = f"{count} connection{'s'[: count != 1]} of a client, {format_rate(flow.bytes_per_s)} each"
        yield limit(f"flows-{operation}", what, flow, count)


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


def _published_mix(offer: ManagedOffer | None, figures: ServiceFigures) -> PublishedMix | None:
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


GIB = 2**30
GB_PER_S = 1e9
"""The rate whose price tells what an offer with prices by use costs."""


def usd_per_hour(
    name: str, filesystem: ServiceFileSystem, offer: ManagedOffer | None, site: Site
) -> tuple[float | None, tuple[Finding, ...]]:
    """USD for an hour, None where nobody says; and what is to be known of a list price.

    A price of the spec takes the place of all list prices. An offer that asks for each GiB that is read or
    written has no price by the hour.
    """
    if (stated := _stated_usd(filesystem)) is not None:
        return stated, ()
    listed = offer_price(offer, site.catalog.offer_prices[offer.name], site.region) if offer else None
    if offer is None or listed is None or filesystem.capacity is None:
        return None, ()
    bought = filesystem.throughput.bytes_per_s if filesystem.throughput is not None else 0
    hourly = listed.usd_per_hour(filesystem.capacity, bought)
    finding = _finding(name, offer, listed, hourly)
    return (hourly if listed.is_whole else None), (finding,)


def stated_costs(label: str, filesystem: ServiceFileSystem) -> tuple[Cost, ...]:
    """The line of the bill for what the spec says that it costs; none where it says nothing."""
    usd = _stated_usd(filesystem)
    return () if usd is None else (Cost(label, usd),)


def _stated_usd(filesystem: ServiceFileSystem) -> float | None:
    """USD for an hour by the spec."""
    if filesystem.price is None and filesystem.storage_price is None:
        return None
    gib = (filesystem.capacity or 0) / GIB
    return (filesystem.price or 0.0) + (filesystem.storage_price or 0.0) * gib / HOURS_PER_MONTH


def _finding(name: str, offer: ManagedOffer, listed: OfferPrice, hourly: float) -> Finding:
    said = " and ".join(str(source) for source in listed.sources)
    what = f"{name} is reckoned at the list price of {offer.name}, {hourly:.2f} USD/h ({said})"
    remedy = "Write what you pay: storage_price: 0.30 USD/GiB/month, or price: 3.20 USD/h"
    if not listed.is_whole:
        moved = " and ".join(
            f"{listed.moved_usd_per_hour(GB_PER_S, each):,.0f} USD/h at 1 GB/s of {each}s"
            for each in listed.usd_per_gib_moved
        )
        what = (
            f"{offer.name} asks for what is read and written: {moved}, beside {hourly:.2f} USD/h for the "
            f"capacity of {name} ({said}); its cost depends on the jobs, and is not reckoned"
        )
        remedy = "Write what it comes to with your jobs: price: 40 USD/h"
    what = "; ".join((what, *listed.notes))
    return Finding("info" if listed.is_whole else "warning", "list-price", what, remedy)
