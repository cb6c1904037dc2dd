"""The cheapest grids whose simulated night of jobs ends in time.

Which sizes of a grid are planned for where jobs and a deadline say what is needed.

Which candidate is the cheapest that ends a night in time, with as few simulations as can tell.

Which candidates are worth a simulation: those that no cheaper one outdoes in every capacity.
"""

from __future__ import annotations

import math
import time
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import ge

from gridwright.catalog import Catalog, InstanceType, load_catalog
from gridwright.filesystems.offers import most_volumes
from gridwright.filesystems.resources import Route
from gridwright.filesystems.servers import store_rates
from gridwright.filesystems.site import shares_network, steady_network, volume_limit
from gridwright.model.batch_window import BatchWindow, CriticalJob, critical_path
from gridwright.model.grid import GridModel, grid_model
from gridwright.plan.candidates import LEVELS, Candidate, market
from gridwright.plan.fits import node_filters, title
from gridwright.plan.grid_spec import design_spec, spec_text
from gridwright.plan.needs import Needs, read_needs
from gridwright.plan.node_side import NETWORKED
from gridwright.plan.search import order, search
from gridwright.spec.load import parse_spec
from gridwright.spec.model import GridSpec

NodeRates = tuple[float, float, float]
"""Of a node, in bytes per second: its network, its volumes at most, its instance store."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A candidate with its capacities; those of one `sharing` have every library in the same place.

    `capacities` are cores, network and storage, rates in bytes per second and 0 where there is none. Fewer
    nodes are better at the same capacity in all, since more jobs share what a node has.
    """

    candidate: Candidate
    sharing: tuple[tuple[str, str], ...]
    capacities: tuple[float, ...]

    @property
    def cores(self) -> float:
        """Cores that jobs can use."""
        return self.capacities[1]

    def in_turns_s(self, cpu_s: float, sizes: Mapping[str, float]) -> float:
        """How long so much computing, then moving the bytes of each library takes, one after the other.

        It is no bound: it says which of two looks faster.
        """
        _, cores, network, volumes, shared, scratch, store = self.capacities
        ways = {"volumes": volumes, "shared": shared, "scratch": scratch, "instance-store": store}
        found = cpu_s / cores
        for library, place in self.candidate.places.items():
            size = sizes.get(library, 0.0)
            found += size / network if place in NETWORKED else 0.0
            found += size / ways[place] if ways.get(place) else 0.0
        return found

    def outdoes(self, other: Contender) -> bool:
        """Whether this has no less of any capacity.

        More of everything ends a night no later as a rule; jobs that meet otherwise can make it a little
        later, so a cheaper design may be passed over by that little.
        """
        return self.sharing == other.sharing and all(map(ge, self.capacities, other.capacities))


class Better:
    """Contenders, to ask whether one of them outdoes another; only those of its sharing are looked at."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[str, str], ...], list[tuple[float, ...]]] = {}

    def add(self, one: Contender) -> None:
        """Take one in."""
        self._known.setdefault(one.sharing, []).append(one.capacities)

    def outdo(self, other: Contender) -> bool:
        """Whether one of them outdoes another."""
        known = self._known.get(other.sharing)
        if known is None:
            return False
        nodes, cores, network, volumes, shared, scratch, store = other.capacities
        # The last that was taken in is most like this one: both cost about the same. Millions are
        # compared, and one comparison after the other is three times as fast as all of them at once.
        for more in reversed(known):
            if (
                more[1] >= cores
                and more[2] >= network
                and more[0] >= nodes
                and more[4] >= shared
                and more[3] >= volumes
                and more[5] >= scratch
                and more[6] >= store
            ):
                return True
        return False


@dataclass(slots=True)
class Pool:
    """Chooses who is simulated. More nodes than `most_nodes` and cores than `most_cores` find no job."""

    most_nodes: float
    most_cores: float
    _nodes: dict[str, NodeRates] = field(default_factory=dict)

    def worth_simulating(self, candidates: Iterable[Candidate]) -> list[Contender]:
        """Those that no cheaper one outdoes, by cost."""
        kept = Better()
        contenders: list[Contender] = []
        for candidate in sorted(candidates, key=order):
            one = self.contender(candidate)
            if not kept.outdo(one):
                kept.add(one)
                contenders.append(one)
        return contenders

    def contender(self, one: Candidate) -> Contender:
        """A candidate with what the jobs can use of it."""
        network, attached, store = self._rates_of(one.instance)
        count = min(float(one.count), self.most_nodes)
        volumes = min(one.volumes.bytes_per_s, attached) if one.volumes else 0.0
        has_store = "instance-store" in one.places.values()
        return Contender(
            one,
            _sharing(one),
            (
                -count,
                min(one.instance.cores * count, self.most_cores),
                network * count,
                volumes * count,
                one.shared.bytes_per_s if one.shared else 0.0,
                one.scratch.bytes_per_s if one.scratch else 0.0,
                store * count if has_store else 0.0,
            ),
        )

    def _rates_of(self, instance: InstanceType) -> NodeRates:
        if instance.name not in self._nodes:
            rates = store_rates(instance.instance_store) if instance.instance_store else None
            store = min(rates.values()) if rates else 0.0
            limit = volume_limit(instance) or float("inf")
            self._nodes[instance.name] = (steady_network(instance), limit, store)
        return self._nodes[instance.name]


def _sharing(one: Candidate) -> tuple[tuple[str, str], ...]:
    """Where each library lives; kept file systems of each node are compared on nodes of one type alone.

    A network that volumes share passes its rate in both directions together, others in each: the same rate
    is less there.
    """
    homes = {name: one.homes.get(name, place) for name, place in one.places.items()}
    nodes = {"nodes": one.instance.name} if "kept-local" in one.places.values() else {}
    network = {"network": "shared with volumes"} if shares_network(one.instance) else {}
    return tuple(sorted({**homes, **nodes, **network}.items()))


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
    night: BatchWindow
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
            self._keys[number] = _deadline_rates(self.model(number))
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


def _deadline_rates(model: GridModel) -> Hashable:
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


CORES = (1, 2, 4)
"""Multiples of the required cores that are planned for: more cores can end the night earlier."""
SHARES = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Parts and multiples of what jobs move while they compute at full speed, where a library has no rate."""


def candidates_of(needs: Needs, catalog: Catalog, night: BatchWindow, within_s: float) -> list[Candidate]:
    """What the catalogue has for the sizes that jobs can use, within the budget.

    Only grids with too few cores to compute within so many seconds may be missing, so that a shorter time
    finds nothing that a longer one does not.
    """
    on_sale = market(catalog, needs)
    on_sale = replace(on_sale, instances=worthwhile_types(on_sale.instances, needs))
    budget = needs.requirements.budget
    cores = _cores(needs, night, within_s)
    requirements = needs.requirements.model_copy(update={"cores": cores[0]})
    return [
        one
        for asked, levels in _rates(replace(needs, requirements=requirements), night)
        for one in search(asked, catalog, on_sale, levels, cores).candidates
        if budget is None or one.later_usd_per_hour <= budget
    ]


def worthwhile_types(
    instances: Sequence[tuple[InstanceType, float]], needs: Needs
) -> list[tuple[InstanceType, float]]:
    """The types of nodes without those that a type of as many cores outdoes in all else and costs no more.

    Whatever is planned with one of these costs no less, and ends no earlier, than with the other type.
    """
    given = needs.given
    filters = list(node_filters(needs))
    suitable = [(one, usd) for one, usd in instances if all(each.fits(one) for each in filters)]
    if given.instance is not None or any(
        filesystem.is_node_local for filesystem in given.filesystems.values()
    ):
        return suitable
    kept: dict[Hashable, list[tuple[int, tuple[float, ...]]]] = {}
    found = []
    for one, usd in sorted(suitable, key=lambda each: (each[1], each[0].name)):
        room, figures = _offered(one)
        alike = kept.setdefault((one.cores, shares_network(one)), [])
        if not any(room in (0, more) and all(map(ge, better, figures)) for more, better in alike):
            alike.append((room, figures))
            found.append((one, usd))
    return found


def _offered(one: InstanceType) -> tuple[int, tuple[float, ...]]:
    """The room of a type's instance store, of which the number of nodes depends, and its other capacities."""
    rates = store_rates(one.instance_store) if one.instance_store else None
    volumes = -1.0 if one.ebs is None else volume_limit(one) or math.inf
    figures = (steady_network(one), volumes, float(most_volumes(one)), min(rates.values()) if rates else 0.0)
    return one.instance_store.total_bytes if one.instance_store else 0, figures


def _rates(needs: Needs, night: BatchWindow) -> Iterator[tuple[Needs, Sequence[float]]]:
    """Needs whose libraries have rates, and how many times these are planned for."""
    homes = needs.given.homes
    # What is kept delivers what it does: the simulation tells whether that is enough.
    moved = {name: rate for name, rate in night.bytes_per_core_s().items() if name not in homes}
    free = [
        name for name, need in needs.libraries.items() if not need.bytes_per_s_per_core and moved.get(name)
    ]
    stated = [name for name, need in needs.libraries.items() if need.bytes_per_s_per_core]
    if not free:
        yield needs, LEVELS
    elif not stated:
        least = SHARES[0]
        yield _moving(needs, moved, least), [share / least for share in SHARES]
    else:
        # What is stated stays as it is, so that each share is a search of its own.
        for share in SHARES:
            yield _moving(needs, moved, share), (1.0,)


def _cores(needs: Needs, night: BatchWindow, within_s: float) -> list[int]:
    """Numbers of cores: from the required ones on, or from one on, doubled as long as jobs can use them.

    Those with which computing alone takes longer than `within_s` are left out, but for the largest.
    """
    stated = needs.requirements.cores
    if stated is not None:
        return [stated * factor for factor in CORES if factor == 1 or stated * factor / 2 < night.most_cores]
    if math.isinf(night.most_cores):
        # Each node runs all of the jobs: another node is another night, and one of any size is enough.
        return [1]
    most = max(0, math.ceil(math.log2(night.most_cores)))
    # More than what the next lower power of two leaves out is left out by the simulation.
    least = min(most, max(0, math.floor(math.log2(max(1.0, night.least_cpu_s / within_s)))))
    return [2**power for power in range(least, most + 1)]


def _moving(needs: Needs, moved: Mapping[str, float], share: float) -> Needs:
    """The same with a share of what the jobs move as the rate of each library that has none."""
    libraries = {
        name: need
        if need.bytes_per_s_per_core
        else replace(need, bytes_per_s_per_core=moved.get(name, 0.0) * share)
        for name, need in needs.libraries.items()
    }
    return replace(needs, libraries=libraries)


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


def plan_deadline(spec: GridSpec, night: BatchWindow, catalog: Catalog | None = None) -> DeadlinePlan:
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
        _ranked(design for number, design in made.items() if design.front or number == best),
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
