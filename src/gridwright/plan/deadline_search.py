"""Which candidate is the cheapest that ends a night in time, with as few simulations as can tell."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from gridwright.catalog import Catalog
from gridwright.filesystems.resources import Route
from gridwright.model.grid import GridModel, grid_model
from gridwright.model.night import Night
from gridwright.plan.deadline_pool import Better, Contender
from gridwright.plan.grid_spec import design_spec
from gridwright.plan.needs import Needs

FASTER = 0.95
"""Each design of the front ends the night in at most this part of the time of the one before."""
FASTER_ONES, SLOWER_ONES = 7, 5
"""Most designs of the front that are in time, but for the fastest, and that are late."""
NEAR = 2.0
"""The front begins with a design that takes up to so many times what is asked for."""
EVENTS = 1_000_000
"""Most activities that are simulated for each part of the front: some seconds, of however many jobs."""
CLEARLY = 1.01
"""What a candidate that is late by this factor outdoes is late, too; jobs that meet otherwise change less."""


@dataclass
class NightSearch:
    """Finds the cheapest of some candidates that ends in time, and simulates as few as it can.

    `contenders` are in the order of their cost. A simulation stops as soon as it cannot end in time any more.
    What is clearly late rules out whatever it outdoes in every capacity. The next to be simulated is the
    one that looks fastest, of all while none is known to be in time, then of the cheaper half of those that
    are left below the cheapest known: in time it halves them, late it outdoes many.
    """

    contenders: list[Contender]
    needs: Needs
    catalog: Catalog
    night: Night
    simulated: int = 0
    """How many grids were simulated, to their end or until they were late."""
    events: int = 0
    """How many activities ended in all simulations."""
    _models: dict[int, GridModel] = field(default_factory=dict)
    _keys: dict[int, Hashable] = field(default_factory=dict)
    _ends: dict[Hashable, float] = field(default_factory=dict)
    """When grids end, by their rates."""
    _later: dict[Hashable, float] = field(default_factory=dict)
    """By when grids whose simulation was stopped have not ended."""

    def model(self, number: int) -> GridModel:
        """A candidate as the model has it."""
        if number not in self._models:
            spec = design_spec(self.contenders[number].candidate, self.needs)
            self._models[number] = grid_model(spec, self.catalog)
        return self._models[number]

    def least_s(self, number: int) -> float:
        """When a candidate could end the night at the earliest, by steady rates."""
        return self.night.least_s(self.model(number))

    def end_s(self, number: int, until_s: float = math.inf) -> float:
        """When a candidate ends the night, simulated; infinite where that is after `until_s`."""
        if self.night.least_cpu_s / self.contenders[number].cores > until_s:
            return math.inf
        if number not in self._keys:
            self._keys[number] = _rates(self.model(number))
        key = self._keys[number]
        if key not in self._ends and self._later.get(key, 0.0) < until_s:
            end, events = self.night.end_s(self.model(number), until_s)
            self.simulated += events > 0
            self.events += events
            if end is None:
                self._later[key] = until_s
            else:
                self._ends[key] = end
        end = self._ends.get(key, math.inf)
        return end if end <= until_s else math.inf

    def cheapest(self, within_s: float, most: float = math.inf) -> int | None:
        """The cheapest candidate that ends within so many seconds.

        None where none does, and once `most` activities were simulated.
        """
        best, left = self._known(within_s)
        while left:
            if self.events >= most:
                return None
            number = self._next(left[: (len(left) + 1) // 2] if best is not None else left)
            end = self.end_s(number, within_s * CLEARLY)
            if end <= within_s:
                best = number
                left = left[: left.index(number)]
            elif end <= within_s * CLEARLY:
                left.remove(number)
            else:
                late = self.contenders[number]
                left = [one for one in left if not late.outdoes(self.contenders[one])]
        return best

    def correct(self, number: int, end_s: float) -> None:
        """Take a candidate to end then and no earlier, whatever was simulated."""
        self._keys[number] = ("corrected", number)
        self._ends[self._keys[number]] = end_s

    def _known(self, within_s: float) -> tuple[int | None, list[int]]:
        """What earlier simulations tell: the cheapest known in time, and all cheaper ones that may be."""
        best: int | None = None
        late = Better()
        out: set[int] = set()
        for number, key in self._keys.items():
            after = self._ends.get(key, self._later.get(key, 0.0))
            if key in self._ends and after <= within_s:
                best = number if best is None else min(best, number)
            elif after >= within_s:
                out.add(number)
                if after >= within_s * CLEARLY:
                    late.add(self.contenders[number])
        left = range(len(self.contenders) if best is None else best)
        return best, [n for n in left if n not in out and not late.outdo(self.contenders[n])]

    def fastest(self) -> int | None:
        """The one of the largest that ends first; of several the cheapest."""
        found, earliest = None, math.inf
        for number in sorted(self.largest, key=lambda each: (self._likely_s[each], each)):
            end = self.end_s(number, earliest)
            if end < earliest or (end == earliest and found is not None and number < found):
                found, earliest = number, end
        return found

    @cached_property
    def largest(self) -> list[int]:
        """The candidates that no other outdoes."""
        found: list[int] = []
        larger = Better()
        by_size = sorted(range(len(self.contenders)), key=lambda each: -sum(self.contenders[each].capacities))
        for number in by_size:
            one = self.contenders[number]
            if not larger.outdo(one):
                larger.add(one)
                found.append(number)
        return found

    def front(self, within_s: float) -> list[int]:
        """Designs of which no cheaper one ends as early: those in time first, then those that are late.

        The first are the cheapest in time, then the cheapest that ends clearly earlier, and so on, up to the
        fastest of the largest. The others begin with the cheapest that takes up to NEAR times `within_s`,
        or where none does, with the cheapest of all. They end before where they take too many simulations.
        """
        found = self._chain(within_s, -math.inf, FASTER_ONES)
        near = self.cheapest(within_s * NEAR, self.events + EVENTS)
        slower = [near if near is not None else 0] if self.contenders else []
        if slower and self.end_s(slower[0]) > within_s:
            slower += self._chain(self.end_s(slower[0]) * FASTER, within_s, SLOWER_ONES - 1)
        fastest = self.fastest()
        found += slower
        if fastest is not None and all(self.end_s(fastest) < self.end_s(each) for each in found):
            found.append(fastest)
        return found

    def _chain(self, within_s: float, beyond_s: float, most: int) -> list[int]:
        """The cheapest within so many seconds, then the cheapest that ends clearly earlier, and so on.

        As long as it ends after `beyond_s`, at most so many.
        """
        found: list[int] = []
        events = self.events + EVENTS
        while len(found) < most and within_s >= max(self.night.floor_s, beyond_s):
            number = self.cheapest(within_s, events)
            if number is None:
                break
            found.append(number)
            within_s = self.end_s(number) * FASTER
        return found

    def _next(self, among: Sequence[int]) -> int:
        """The one that looks fastest."""
        return min(among, key=lambda each: (self._likely_s[each], each))

    @cached_property
    def _likely_s(self) -> list[float]:
        return [one.in_turns_s(self.night.cpu_s, self.night.moved_bytes) for one in self.contenders]


def _rates(model: GridModel) -> Hashable:
    """All that a simulation reads of a grid: equal ones end at the same time."""
    routes = tuple(
        (library, operation, route.stream_bytes_per_s, *_uses(route))
        for library, ways in sorted(model.alike.routes.items())
        for operation, route in sorted(ways.items())
    )
    return (model.nodes, model.alike.cores_per_node, routes)


def _uses(route: Route) -> Iterator[Hashable]:
    for use in route.uses:
        yield (use.resource.name, use.resource.scope, use.resource.bytes_per_s, use.coefficient)
