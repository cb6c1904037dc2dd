"""The cheapest grids whose simulated night of jobs ends in time."""

from __future__ import annotations

import math
import time
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

from gridwright.catalog import Catalog, load_catalog
from gridwright.model.grid import GridModel, grid_model
from gridwright.model.night import CriticalJob, Night, critical_path
from gridwright.plan.deadline_pool import Better, Contender, Pool
from gridwright.plan.deadline_sizes import candidates_of
from gridwright.plan.found import title
from gridwright.plan.grid_spec import design_spec, spec_text
from gridwright.plan.needs import Needs, read_needs
from gridwright.spec.load import parse_spec
from gridwright.spec.model import GridSpec

HOUR_S = 3600.0
FASTER = 0.95
"""Each design of the front ends the night in at most this part of the time of the one before."""
FRONT = 12
"""Most designs of the front, but for the fastest."""
NEAR = 2.0
"""The front begins with a design that takes up to so many times what is asked for."""
LAUNCHES = 50_000
"""Most launches that are simulated for the front beside the answer: some seconds, of however many jobs."""


@dataclass(frozen=True, slots=True)
class NightDesign:
    """A grid and when its night ends, in seconds; `least_s` is when it could by steady rates at the earliest.

    `checked_s` is the end when the design was simulated again from the text of its spec. `path` is the
    chain of jobs that determines the end. `front`: no cheaper design that was simulated ends as early.
    """

    title: str
    spec: GridSpec
    usd_per_hour: float
    finish_s: float
    least_s: float
    checked_s: float
    path: tuple[CriticalJob, ...]
    meets: bool
    front: bool

    @property
    def usd_per_night(self) -> float:
        """What the grid costs from the start of the first job to the end of the last."""
        return self.usd_per_hour * self.finish_s / HOUR_S

    @property
    def bound_by(self) -> str:
        """What took most of the critical path."""
        total: dict[str, float] = {}
        for job in self.path:
            for cause, seconds in job.waits.items():
                total[cause] = total.get(cause, 0.0) + seconds
        return max(total, key=lambda cause: total[cause])


@dataclass(frozen=True, slots=True)
class DeadlinePlan:
    """Designs that meet the deadline by cost, then those that miss it; `best` is the cheapest in time.

    `fastest` ends earliest of those simulated. `relaxed` is the cheapest with an hour more. Without
    `best`, `fastest` tells by how much the deadline is missed, and its path what binds.
    """

    grid: str
    night: str
    jobs: int
    finish_within_s: float
    designs: tuple[NightDesign, ...]
    best: NightDesign | None
    fastest: NightDesign | None
    relaxed: NightDesign | None
    considered: int
    simulated: int
    seconds: float

    @property
    def saved_usd_per_hour(self) -> float | None:
        """What one more hour would save; None where no design meets one of the two deadlines."""
        if self.best is None or self.relaxed is None:
            return None
        return self.best.usd_per_hour - self.relaxed.usd_per_hour

    @property
    def missed_by_s(self) -> float | None:
        """By how much the fastest misses the deadline; None where one meets it, or none was found."""
        if self.best is not None or self.fastest is None:
            return None
        return self.fastest.finish_s - self.finish_within_s


@dataclass
class NightSearch:
    """Finds the cheapest of some candidates that ends in time, and simulates as few as it can.

    `contenders` are in the order of their cost. A candidate is passed over where steady rates alone make it
    late, and where one that was late outdoes it in every capacity: those that none outdoes come
    first, so that few simulations tell that nothing ends in time. Grids of the same rates are
    simulated once. For a shorter time every candidate that was passed over stays so, thus the
    cheapest for it is never cheaper.
    """

    contenders: list[Contender]
    needs: Needs
    catalog: Catalog
    night: Night
    _models: dict[int, GridModel] = field(default_factory=dict)
    _least: dict[int, float] = field(default_factory=dict)
    _ends: dict[Hashable, float] = field(default_factory=dict)
    _ended: dict[int, float] = field(default_factory=dict)
    """Candidates that were simulated, and when they end."""

    @property
    def simulated(self) -> int:
        """How many grids were simulated."""
        return len(self._ends)

    def model(self, number: int) -> GridModel:
        """A candidate as the model has it."""
        if number not in self._models:
            spec = design_spec(self.contenders[number].candidate, self.needs)
            self._models[number] = grid_model(spec, self.catalog)
        return self._models[number]

    def least_s(self, number: int) -> float:
        """When a candidate could end the night at the earliest."""
        if number not in self._least:
            self._least[number] = self.night.least_s(self.model(number))
        return self._least[number]

    def end_s(self, number: int) -> float:
        """When a candidate ends the night, simulated."""
        if number not in self._ended:
            model = self.model(number)
            key = _rates(model)
            if key not in self._ends:
                self._ends[key] = self.night.run_on(model).elapsed_s
            self._ended[number] = self._ends[key]
        return self._ended[number]

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

    def cheapest(self, within_s: float, most: float = math.inf) -> int | None:
        """The cheapest candidate that ends within so many seconds.

        None where none does, and once `most` grids were simulated.
        """
        for number in self.largest:
            self.end_s(number)
        late = Better()
        for number, end in self._ended.items():
            if end > within_s:
                late.add(self.contenders[number])
        for number, one in enumerate(self.contenders):
            if late.outdo(one):
                continue
            if self.simulated >= most:
                return None
            if self.least_s(number) <= within_s and self.end_s(number) <= within_s:
                return number
            late.add(one)
        return None

    def front(self, within_s: float) -> list[int]:
        """The cheapest that takes up to NEAR times `within_s`, then the cheapest that ends clearly earlier.

        And so on. Where none does it begins with the cheapest of all. It ends with the fastest of the
        largest, or before it where that takes too many simulations.
        """
        found: list[int] = []
        most = self.simulated + LAUNCHES / self.night.jobs
        near = self.cheapest(within_s * NEAR, most)
        number = near if near is not None else 0 if self.contenders else None
        while number is not None and len(found) < FRONT:
            found.append(number)
            earlier = self.end_s(number) * FASTER
            number = self.cheapest(earlier, most) if earlier >= self.night.floor_s else None
        fastest = min(self.largest, key=lambda each: (self.end_s(each), each), default=None)
        if fastest is not None and self.end_s(fastest) < self.end_s(found[-1]):
            found.append(fastest)
        return found


def plan_deadline(spec: GridSpec, night: Night, catalog: Catalog | None = None) -> DeadlinePlan:
    """Find the cheapest grids whose night ends within `requirements.finish_within`.

    Raises GridwrightError as `plan` does, and for jobs that cannot be simulated there.
    """
    started = time.perf_counter()
    needs = read_needs(spec)
    catalog = catalog or load_catalog(spec.file.parent if spec.file else None)
    deadline = float(needs.requirements.finish_within or 0.0)
    every = candidates_of(needs, catalog, night)
    pool = Pool(night.most_nodes, night.most_cores)
    finder = NightSearch(pool.worth_simulating(every), needs, catalog, night)
    best, relaxed = finder.cheapest(deadline), finder.cheapest(deadline + HOUR_S)
    chosen = {each for each in (best, relaxed, *finder.front(deadline)) if each is not None}
    made = {number: _design(finder, number, deadline) for number in sorted(chosen)}
    made = _marked(made)
    fastest = min(made.values(), key=lambda each: each.finish_s, default=None)
    return DeadlinePlan(
        spec.name,
        night.matrix.name,
        night.jobs,
        deadline,
        _ranked(each for number, each in made.items() if each.front or number == best),
        made[best] if best is not None else None,
        fastest,
        made[relaxed] if relaxed is not None else None,
        len(every),
        finder.simulated,
        time.perf_counter() - started,
    )


def _design(finder: NightSearch, number: int, deadline_s: float) -> NightDesign:
    """A candidate with its path, simulated again from the text that `--write` saves."""
    one, model = finder.contenders[number].candidate, finder.model(number)
    spec = model.spec
    base = finder.needs.spec.file.parent if finder.needs.spec.file else None
    again = parse_spec(spec_text(spec), base=base) if base else spec
    checked = finder.night.run_on(grid_model(again, finder.catalog))
    end = finder.end_s(number)
    return NightDesign(
        title(one),
        spec,
        model.usd_per_hour if model.usd_per_hour is not None else one.usd_per_hour,
        end,
        finder.least_s(number),
        checked.elapsed_s,
        critical_path(checked),
        meets=max(end, checked.elapsed_s) <= deadline_s,
        front=False,
    )


def _ranked(designs: Iterable[NightDesign]) -> tuple[NightDesign, ...]:
    """Those that meet the deadline first, each by cost."""
    return tuple(sorted(designs, key=lambda each: (not each.meets, each.usd_per_hour)))


def _marked(designs: dict[int, NightDesign]) -> dict[int, NightDesign]:
    """The same with those marked than which no cheaper one ends as early."""
    found: dict[int, NightDesign] = {}
    earliest = float("inf")
    for number, one in designs.items():
        found[number] = replace(one, front=one.finish_s < earliest)
        earliest = min(earliest, one.finish_s)
    return found


def _rates(model: GridModel) -> Hashable:
    """All that a simulation reads of a grid: equal ones end at the same time."""
    routes = tuple(
        (library, operation, route.uses, route.stream_bytes_per_s)
        for library, ways in sorted(model.routes.items())
        for operation, route in sorted(ways.items())
    )
    return (model.nodes, model.cores_per_node, str(routes))
