"""The limits on the way to a library: those of each group of nodes, those that all share, and a fair part.

Rates are max-min fair, by the native solver.

Where groups of nodes differ, cores share what all nodes share alike, but for those whose own nodes pass
less: what these leave is shared by the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf

from gridwright import _native
from gridwright.filesystems.allocation import spread
from gridwright.filesystems.resources import Operation, Resource, Route
from gridwright.model.grid import GridModel
from gridwright.model.grid_layouts import AlikeNodes
from gridwright.model.prediction import Bound


@dataclass(frozen=True, slots=True)
class Flow:
    """Something that moves at one rate and takes a part of one or several resources.

    `uses` has pairs of a resource (its index among the capacities) and a coefficient: how much of
    the resource one unit of rate takes. A resource named twice is taken twice. Flows that compete
    for a resource get rates in proportion to `weight`. No rate exceeds `cap`, which is in the unit
    of the rates (bytes per second, cores) and may be infinite.
    """

    uses: tuple[tuple[int, float], ...]
    weight: float = 1.0
    cap: float = inf


@dataclass(frozen=True, slots=True)
class Solution:
    """The rate of each flow, and the index of the resource that binds it: None for its own cap."""

    rates: tuple[float, ...]
    bound_by: tuple[int | None, ...]


def solve(capacities: Sequence[float], flows: Sequence[Flow]) -> Solution:
    """Find the weighted max-min fair rates of `flows` over resources of these `capacities`.

    No capacity is exceeded, and no rate can grow without lowering another whose rate over weight is no
    larger (progressive filling: Bertsekas and Gallager, Data Networks, 2nd edition, section 6.5.2).
    The result does not depend on the order of flows and resources, and takes O(n log n) for n uses. All
    of this holds to 1e-9 of a rate while weights and coefficients of flows that share a resource lie
    within a factor of about 10,000; beyond that, rounding decides what is left for the smallest.

    Raises:
        ValueError: numbers that cannot be taken, one per line: capacities, coefficients, weights and
            caps must be positive (capacities and caps may be infinite), resources must exist, and
            each flow needs a finite cap or a resource of finite capacity.
    """
    rates, bound_by = _native.solve_flows(capacities, flows)
    return Solution(tuple(rates), tuple(bound_by))


ALL_GROUPS = "groups"
"""What the own limits of several groups of nodes let through together."""


@dataclass(frozen=True, slots=True)
class Busy:
    """Which nodes use a library at once, with how many streams on each: one per core where it is None."""

    groups: Sequence[AlikeNodes]
    streams_per_node: int | None

    def floor_part(self, route: Route) -> float:
        """What is left of what streams could have of their own files where these lie on the same targets."""
        if route.over is None:
            return 1.0
        streams = sum(group.streams(self.streams_per_node) * group.nodes for group in self.groups)
        return spread(streams, route.over.targets, route.over.stripes, route.over.space).of_streams


def capacity(group: AlikeNodes, resource: Resource, *, burst: bool) -> float:
    """What a resource passes for all nodes of a group, in bytes/s."""
    rate = resource.highest_bytes_per_s if burst else resource.bytes_per_s
    return rate * group.nodes if resource.scope == "node" else rate


def library_chain(
    model: GridModel,
    library: str,
    operation: Operation,
    streams_per_node: int | None = None,
    *,
    burst: bool = False,
) -> list[Bound]:
    """Every limit of a library for all nodes together, from the tightest on.

    Of several groups of nodes, what their own limits let through is one limit, their sum.
    """
    groups = model.groups
    if len(groups) == 1:
        return _sorted(
            _limits(
                groups[0],
                groups[0].routes[library][operation],
                Busy(groups, streams_per_node),
                burst=burst,
            )
        )
    shared = _shared(groups[0], groups[0].routes[library][operation], burst=burst)
    busy = Busy(groups, streams_per_node)
    own = [_own_tightest(group, library, operation, busy, burst=burst) for group in groups]
    known = [bound for bound in own if bound is not None]
    return _sorted([*shared, *([_sum(known)] if len(known) == len(groups) else [])])


def group_chain(
    model: GridModel,
    group: AlikeNodes,
    library: str,
    operation: Operation,
    streams_per_node: int | None = None,
    *,
    burst: bool = False,
) -> list[Bound]:
    """Every limit of a library for one group of nodes while all groups use it, from the tightest on.

    Of what all share it is the part that is left to the group in a fair division by cores
    (`gridwright.model.chains`).
    """
    route = group.routes[library][operation]
    busy = Busy(model.groups, streams_per_node)
    own = [*_own(group, route, busy, burst=burst)]
    others = [each for each in model.groups if each is not group]
    tightest = [_own_tightest(other, library, operation, busy, burst=burst) for other in others]
    caps = [math.inf if bound is None else bound.bytes_per_s for bound in tightest]
    return _sorted(
        [
            *own,
            *(
                replace(bound, bytes_per_s=_fair_part(bound.bytes_per_s, group, others, caps))
                for bound in _shared(group, route, burst=burst)
            ),
        ]
    )


def _fair_part(whole: float, group: AlikeNodes, others: Sequence[AlikeNodes], caps: Sequence[float]) -> float:
    """What a group could take of `whole` bytes/s while others take their share, each its cap at most."""
    if whole <= 0 or any(cap <= 0 for cap in caps):
        others = [nodes for nodes, cap in zip(others, caps, strict=True) if cap > 0]
        caps = [cap for cap in caps if cap > 0]
    if whole <= 0 or not others:
        return whole
    taking = [Flow(((0, 1.0),), weight=nodes.cores, cap=cap) for nodes, cap in zip(others, caps, strict=True)]
    return solve([whole], [Flow(((0, 1.0),), weight=group.cores), *taking]).rates[0]


def _own_tightest(
    group: AlikeNodes, library: str, operation: Operation, busy: Busy, *, burst: bool
) -> Bound | None:
    own = _own(group, group.routes[library][operation], busy, burst=burst)
    return min(own, key=lambda bound: bound.bytes_per_s, default=None)


def _limits(group: AlikeNodes, route: Route, busy: Busy, *, burst: bool) -> Iterator[Bound]:
    for use in route.uses:
        yield _bound(use.resource, capacity(group, use.resource, burst=burst) / use.coefficient)
    if math.isfinite(route.stream_bytes_per_s):
        streams = group.streams(busy.streams_per_node)
        total = route.stream_bytes_per_s * streams * group.nodes
        what = f"{streams} streams on each node, each with {route.stream_limit}"
        yield Bound("streams", what, total, "", "server", busy.floor_part(route))


def _own(group: AlikeNodes, route: Route, busy: Busy, *, burst: bool) -> Iterator[Bound]:
    """Limits that the nodes of a group do not share with others."""
    own = replace(route, uses=tuple(use for use in route.uses if use.resource.scope == "node"))
    return _limits(group, own, busy, burst=burst)


def _shared(group: AlikeNodes, route: Route, *, burst: bool) -> Iterator[Bound]:
    for use in route.uses:
        if use.resource.scope == "grid":
            yield _bound(use.resource, capacity(group, use.resource, burst=burst) / use.coefficient)


def _bound(resource: Resource, bytes_per_s: float) -> Bound:
    return Bound(resource.name, resource.what, bytes_per_s, resource.source, resource.nature)


def _sum(bounds: Sequence[Bound]) -> Bound:
    """What all groups let through together, with the margin of the group that lets most through."""
    largest = max(bounds, key=lambda bound: bound.bytes_per_s)
    total = sum(bound.bytes_per_s for bound in bounds)
    floor = sum(bound.bytes_per_s * bound.floor_part for bound in bounds)
    return Bound(
        ALL_GROUPS,
        "; ".join(dict.fromkeys(bound.what for bound in bounds)),
        total,
        "; ".join(dict.fromkeys(bound.source for bound in bounds if bound.source)),
        largest.nature,
        floor / total if total else 1.0,
    )


def _sorted(bounds: Sequence[Bound] | Iterator[Bound]) -> list[Bound]:
    return sorted(bounds, key=lambda bound: bound.bytes_per_s)
