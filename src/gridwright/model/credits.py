"""Burst credits of resources, spent and earned while flows with given demands share them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gridwright.filesystems.resources import Resource, Route
from gridwright.model.prediction import reaches
from gridwright.model.solver import Flow, solve

EMPTY = 1e-9
"""A bucket with less than this part of its size is taken to be empty."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """Credits of a resource, of all nodes together.

    `full` bytes let it pass `burst` bytes/s in place of `steady` until they are spent. What is not used below
    `steady` fills it again, at `most_refill` bytes/s at most.
    """

    resource: Resource
    steady: float
    burst: float
    full: float
    most_refill: float

    def net(self, used: float, balance: float) -> float:
        """How fast its balance changes in bytes/s while `used` bytes/s pass."""
        if used > self.steady:
            return self.steady - used if balance > 0 else 0.0
        return min(self.steady - used, self.most_refill) if balance < self.full else 0.0


@dataclass(frozen=True, slots=True)
class Stretch:
    """A time with constant rates. `least` is the least part of its demand that a flow gets.

    `bound_by` names what binds that flow, empty where each gets all it asks for.
    """

    start_s: float
    end_s: float
    demand: float
    rate: float
    least: float
    bound_by: str
    used: tuple[float, ...]
    balances: tuple[float, ...]
    """Of each bucket at the end of it."""

    @property
    def short(self) -> bool:
        """Whether a flow gets less than it asks for."""
        return not reaches(self.least, 1.0)


@dataclass(frozen=True, slots=True)
class DemandOnRoute:
    """Bytes/s that so many nodes ask of a library with all cores busy, and the most their streams move."""

    route: Route
    nodes: int
    bytes_per_s: float
    streams_bytes_per_s: float


class SharedResources:
    """Resources that some libraries share in one direction; those with a published burst have a bucket."""

    def __init__(self, demands: Sequence[DemandOnRoute]) -> None:
        found: dict[str, tuple[Resource, int]] = {}
        for demand in demands:
            found.update({use.resource.name: (use.resource, demand.nodes) for use in demand.route.uses})
        self.demands = demands
        self.resources = tuple(resource for resource, _ in found.values())
        self._index = {name: number for number, name in enumerate(found)}
        self._parts = [nodes if each.scope == "node" else 1 for each, nodes in found.values()]
        self._steady = [
            each.bytes_per_s * part for each, part in zip(self.resources, self._parts, strict=True)
        ]
        self.buckets: Mapping[int, Bucket] = {
            number: bucket
            for number, each in enumerate(self.resources)
            if (bucket := bucket_of(each, self._parts[number])) is not None
        }

    @property
    def unpublished(self) -> tuple[str, ...]:
        """Resources that burst, of which no fact says for how long: only their steady rates count."""
        return tuple(
            each.name
            for each in self.resources
            if each.highest_bytes_per_s > each.bytes_per_s and each.burst_s is None
        )

    def until(self, start_s: float, end_s: float, busy: float, balances: Sequence[float]) -> Stretch:
        """Let the part `busy` of all cores ask, until `end_s` or until a bucket is empty."""
        rates, bound = self._rates(busy, balances)
        used = [0.0] * len(self.resources)
        for demand, rate in zip(self.demands, rates, strict=True):
            for use in demand.route.uses:
                used[self._index[use.resource.name]] += rate * use.coefficient
        nets = [
            bucket.net(used[number], balance)
            for (number, bucket), balance in zip(self.buckets.items(), balances, strict=True)
        ]
        lengths = [balance / -net for balance, net in zip(balances, nets, strict=True) if net < 0]
        length = min([end_s - start_s, *lengths])
        after = tuple(
            _kept(bucket, balance + net * length)
            for bucket, balance, net in zip(self.buckets.values(), balances, nets, strict=True)
        )
        asked = [demand.bytes_per_s * busy for demand in self.demands]
        parts = [rate / each if each else 1.0 for rate, each in zip(rates, asked, strict=True)]
        worst = min(range(len(parts)), key=parts.__getitem__)
        short = not reaches(parts[worst], 1.0)
        # A last step that rounding leaves of nothing must end the day all the same.
        ends = end_s if length >= end_s - start_s else start_s + length
        return Stretch(
            start_s,
            ends,
            sum(asked),
            sum(rates),
            parts[worst],
            bound[worst] if short else "",
            tuple(used),
            after,
        )

    def _rates(self, busy: float, balances: Sequence[float]) -> tuple[list[float], list[str]]:
        """The rate of each library, and what binds it."""
        if not busy:
            return [0.0] * len(self.demands), [""] * len(self.demands)
        capacities = list(self._steady)
        for (number, bucket), balance in zip(self.buckets.items(), balances, strict=True):
            if balance > 0:
                capacities[number] = bucket.burst
        flows = [
            Flow(
                tuple((self._index[use.resource.name], use.coefficient) for use in demand.route.uses),
                weight=demand.bytes_per_s,
                cap=min(demand.bytes_per_s, demand.streams_bytes_per_s) * busy,
            )
            for demand in self.demands
        ]
        found = solve(capacities, flows)
        names = ["streams" if number is None else self.resources[number].name for number in found.bound_by]
        return list(found.rates), names


def bucket_of(resource: Resource, parts: int) -> Bucket | None:
    """The credits of a resource that each of `parts` nodes has; None where none are published."""
    burst = resource.highest_bytes_per_s
    if resource.burst_s is None or burst <= resource.bytes_per_s:
        return None
    full = resource.burst_s * (burst - resource.bytes_per_s) * parts
    refill = full / resource.refill_s if resource.refill_s else float("inf")
    return Bucket(resource, resource.bytes_per_s * parts, burst * parts, full, refill)


def _kept(bucket: Bucket, balance: float) -> float:
    if balance <= bucket.full * EMPTY:
        return 0.0
    return min(balance, bucket.full)
