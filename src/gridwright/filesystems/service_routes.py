"""What figures of a service become in a prediction: limits of all clients, a joint budget, limits of each.

Reads and writes at once pass a budget on which each byte has a cost, as FSx for Lustre has it where less is
listed for writes. With costs budget/read and budget/write either direction alone reaches its own limit, and a
mix lies on the straight line between them: r/read + w/write <= 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gridwright.filesystems.resources import OPERATIONS, Nature, Operation, Resource, Route, Use
from gridwright.filesystems.site import ComputeNodes
from gridwright.units import format_rate


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


def service_routes(name: str, figures: ServiceFigures, nodes: ComputeNodes) -> dict[Operation, Route]:
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
