"""The cheapest grids whose simulated night of jobs ends in time."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

from gridwright.catalog import Catalog, load_catalog
from gridwright.model.grid import grid_model
from gridwright.model.night import CriticalJob, Night, critical_path
from gridwright.plan.deadline_pool import Pool
from gridwright.plan.deadline_search import NEAR, NightSearch
from gridwright.plan.deadline_sizes import candidates_of
from gridwright.plan.found import title
from gridwright.plan.grid_spec import spec_text
from gridwright.plan.needs import read_needs
from gridwright.spec.load import parse_spec
from gridwright.spec.model import GridSpec

HOUR_S = 3600.0


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


def plan_deadline(spec: GridSpec, night: Night, catalog: Catalog | None = None) -> DeadlinePlan:
    """Find the cheapest grids whose night ends within `requirements.finish_within`.

    Raises GridwrightError as `plan` does, and for jobs that cannot be simulated there.
    """
    started = time.perf_counter()
    needs = read_needs(spec)
    catalog = catalog or load_catalog(spec.file.parent if spec.file else None)
    deadline = float(needs.requirements.finish_within or 0.0)
    every = candidates_of(needs, catalog, night, max(deadline * NEAR, deadline + HOUR_S))
    pool = Pool(night.most_nodes, night.most_cores)
    finder = NightSearch(pool.worth_simulating(every), needs, catalog, night)
    checked = _Checked(finder, deadline)
    best, relaxed = checked.cheapest(deadline), checked.cheapest(deadline + HOUR_S)
    chosen = {each for each in (best, relaxed, *finder.front(deadline)) if each is not None}
    made = _marked({number: checked.design(number) for number in sorted(chosen)})
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


class _Checked:
    """Designs of a search, each simulated again from the text that `--write` saves."""

    def __init__(self, finder: NightSearch, deadline_s: float) -> None:
        self._finder = finder
        self._deadline_s = deadline_s
        self._made: dict[int, NightDesign] = {}

    def cheapest(self, within_s: float) -> int | None:
        """The cheapest candidate that ends within so many seconds, also when it is simulated again."""
        while (number := self._finder.cheapest(within_s)) is not None:
            again_s = self.design(number).checked_s
            if again_s <= within_s:
                return number
            self._finder.correct(number, again_s)
        return None

    def design(self, number: int) -> NightDesign:
        """A candidate with its path."""
        if number not in self._made:
            self._made[number] = self._make(number)
        return self._made[number]

    def _make(self, number: int) -> NightDesign:
        finder = self._finder
        one, model = finder.contenders[number].candidate, finder.model(number)
        file = finder.needs.spec.file
        again = parse_spec(spec_text(model.spec), base=file.parent if file else None)
        checked = finder.night.run_on(grid_model(again, finder.catalog))
        end = finder.end_s(number)
        return NightDesign(
            title(one),
            model.spec,
            model.usd_per_hour if model.usd_per_hour is not None else one.usd_per_hour,
            end,
            finder.least_s(number),
            checked.elapsed_s,
            critical_path(checked),
            meets=max(end, checked.elapsed_s) <= self._deadline_s,
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
