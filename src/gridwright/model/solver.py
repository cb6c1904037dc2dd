"""Weighted max-min fair rates of flows that share resources: the native solver with types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from gridwright import _native


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
