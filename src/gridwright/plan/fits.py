"""One instance type, or an existing part of the spec, held against every requirement: what excludes it.

The filters of nodes come first, then the result of a search, with its candidates in words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product

from gridwright.catalog import Catalog, InstanceType
from gridwright.errors import GridwrightError, nearest
from gridwright.plan.candidates import LEVELS, Candidate, Market, Search
from gridwright.plan.design import Fit, Fits
from gridwright.plan.existing import ExistingStorage
from gridwright.plan.needs import NODES, Given, Needs
from gridwright.plan.node_side import NodeSide, Place, Placement, listed
from gridwright.spec.crosscheck import MAX_NODES
from gridwright.spec.load import problem_at
from gridwright.spec.requirements import NodeBounds
from gridwright.units import format_bytes, format_rate


@dataclass(frozen=True, slots=True)
class Filter:
    """One requirement of a node: what a type provides, what is required, whether it fits.

    `score` orders types that fail by how near they come; None where nearness means nothing. `field` is
    where the requirement stands in the spec.
    """

    requirement: str
    required: str
    provided: Callable[[InstanceType], str]
    fits: Callable[[InstanceType], bool]
    score: Callable[[InstanceType], float] | None = None
    field: str = ""

    def fit(self, instance: InstanceType) -> Fit:
        """The row of an explanation."""
        fits = self.fits(instance)
        return Fit(self.requirement, self.provided(instance), self.required, "yes" if fits else "no")


def check_family_names(needs: Needs, catalog: Catalog) -> None:
    """Raise GridwrightError for families that the provider does not have, each with the nearest."""
    spec = needs.spec
    families = {one.family for one in catalog.instances.values() if one.provider == spec.provider}
    problems = []
    for key, names in (
        ("allow", needs.requirements.families.allow),
        ("forbid", needs.requirements.families.forbid),
    ):
        for name in names:
            if name not in families:
                near = nearest(name, families)
                hint = f"did you mean {near}? " if near else ""
                path = ("requirements", "families", key)
                what = f"there is no family {name!r} of {spec.provider}"
                problems.append(problem_at(spec, path, what, f"{hint}gridwright catalog list shows all"))
    for name in set(needs.requirements.families.allow) & set(needs.requirements.families.forbid):
        what = f"family {name} is allowed and forbidden"
        problems.append(problem_at(spec, ("requirements", "families", "forbid"), what, "keep one of the two"))
    if problems:
        raise GridwrightError(*problems)


def node_filters(needs: Needs) -> Iterator[Filter]:
    """What a type must have to be a node at all, before rates and costs."""
    requirements, given = needs.requirements, needs.given.instance
    if given:
        yield Filter("the type that is kept", given, lambda one: one.name, lambda one: one.name == given)
    if requirements.architecture:
        yield Filter(
            "architecture",
            requirements.architecture,
            lambda one: one.architecture,
            lambda one: one.architecture == requirements.architecture,
        )
    allow, forbid = requirements.families.allow, requirements.families.forbid
    if allow:
        yield Filter(
            "allowed families", ", ".join(allow), lambda one: one.family, lambda one: one.family in allow
        )
    if forbid:
        yield Filter(
            "forbidden families",
            f"not {', '.join(forbid)}",
            lambda one: one.family,
            lambda one: one.family not in forbid,
        )
    # A type that the spec names is wanted, whatever it has beside.
    if not allow and not given:
        yield Filter(
            "accelerators",
            "none (or the family named under families.allow)",
            lambda one: str(one.accelerators),
            lambda one: not one.accelerators,
        )
    if not allow and not given:
        yield Filter(
            "processor",
            "at full speed for good (or its family under families.allow)",
            lambda one: (
                "slower when its credits are spent" if one.burstable_cpu else "at full speed for good"
            ),
            lambda one: not one.burstable_cpu,
        )
    yield from _size_bounds(requirements.nodes)
    if requirements.memory_per_core is not None:
        memory = requirements.memory_per_core
        yield Filter(
            "memory per core",
            str(memory),
            lambda one: f"{math.floor(one.memory_bytes_per_core / 2**30 * 100) / 100:g} GiB",
            lambda one: one.memory_bytes_per_core >= memory,
            lambda one: one.memory_bytes_per_core,
            field="requirements.memory_per_core",
        )


def _size_bounds(bounds: NodeBounds) -> Iterator[Filter]:
    """The bounds on cores and memory of each node; those on the number of nodes go by the whole grid."""
    cores, memory = bounds.cores, bounds.memory
    yield from _between("cores", cores.least, cores.most, lambda one: one.cores, str)
    yield from _between("memory", memory.least, memory.most, lambda one: one.memory_bytes, format_bytes)


def _between(
    name: str,
    least: int | None,
    most: int | None,
    value: Callable[[InstanceType], int],
    words: Callable[[int], str],
) -> Iterator[Filter]:
    field = f"requirements.nodes.{name}"
    if least is not None:
        yield Filter(
            f"{name} of a node",
            f"at least {words(least)}",
            lambda one: words(value(one)),
            lambda one: value(one) >= least,
            value,
            field=f"{field}.least",
        )
    if most is not None:
        yield Filter(
            f"{name} of a node",
            f"at most {words(most)}",
            lambda one: words(value(one)),
            lambda one: value(one) <= most,
            lambda one: -value(one),
            field=f"{field}.most",
        )


@dataclass
class SearchResult:
    """The candidates of a search, before designs are made of them."""

    needs: Needs
    market: Market
    suitable: list[tuple[InstanceType, float]]
    candidates: list[Candidate] = field(default_factory=list)
    seconds: float = 0.0
    without_price: tuple[str, ...] = ()

    @cached_property
    def cheapest(self) -> dict[str, Candidate]:
        """The cheapest candidate of each instance type, whatever the budget. Ask once the search is over."""
        best: dict[str, Candidate] = {}
        for one in self.candidates:
            known = best.get(one.instance.name)
            if known is None or one.usd_per_hour < known.usd_per_hour:
                best[one.instance.name] = one
        return best


def search_market(
    needs: Needs, on_sale: Market, levels: Sequence[float] = LEVELS, sizes: Sequence[int] | None = None
) -> SearchResult:
    """Cost every candidate of a market at so many times the rates, with so many cores.

    Raises GridwrightError for kept file systems that are not on sale.
    """
    filters = list(node_filters(needs))
    suitable = [(one, usd) for one, usd in on_sale.instances if all(each.fits(one) for each in filters)]
    result = SearchResult(needs, on_sale, suitable)
    result.without_price = tuple(
        one.name for one in on_sale.without_price if all(each.fits(one) for each in filters)
    )
    engine = Search(needs, on_sale, levels, sizes)
    if suitable:
        engine.existing.check(suitable[0][0])
    for instance, usd in suitable:
        result.candidates.extend(engine.candidates(instance, usd))
    return result


def title(candidate: Candidate) -> str:
    """The candidate in one line."""
    by_place: dict[str, list[str]] = {}
    for name, place in candidate.places.items():
        home = candidate.homes.get(name)
        by_place.setdefault(f"{home}, which is kept" if home else place, []).append(name)
    words = {
        "shared": candidate.shared.title if candidate.shared else "",
        "scratch": candidate.scratch.title if candidate.scratch else "",
        "instance-store": "instance store",
        "volumes": f"{candidate.volumes} at each node",
    }
    places = "; ".join(f"{'+'.join(names)} on {words.get(place, place)}" for place, names in by_place.items())
    return f"{candidate.count} x {candidate.instance.name}; {places}"


def survives(candidate: Candidate) -> str:
    """What survives, in words."""
    points = candidate.data_points
    if "data" not in candidate.places and candidate.shared is None:
        data = "no library on shared storage"
    elif points:
        data = "data outlive a server" + (", which is replaced" if points > 2 else "")
    else:
        data = "data are lost with a server"
    lost = candidate.lost_with_node
    return f"{data}; {' and '.join(lost)} lost with a node" if lost else f"{data}; nothing lost with a node"


PLACES: dict[Place, str] = {
    "shared": "over the network",
    "instance-store": "on its instance store",
    "volumes": "on volumes",
}
"""Where work and util may live, as far as a node is concerned: scratch is over the network, too."""
_STORAGE_ROW = "storage for the libraries"
_BUDGET_ROW = "budget for the cheapest grid with it"


@dataclass(frozen=True, slots=True)
class Held:
    """A type against the requirements: a row for each, and what excludes the type, in words.

    `cheapest` is the cheapest grid with it, whatever the budget; None where the rest cannot be met.
    """

    rows: tuple[Fit, ...]
    excluded_by: tuple[str, ...]
    cheapest: Candidate | None


def held(result: SearchResult, instance: InstanceType) -> Held:
    """Hold a type of the catalogue against every requirement."""
    cheapest = result.cheapest.get(instance.name)
    side = NodeSide(result.needs, result.market.volumes, instance)
    rows = [*_type_rows(result, instance), *_data_row(side)]
    excluded = [f"{fit.requirement}: {_short(fit)}" for fit in rows if fit.fits == "no"]
    placed, unplaced = _place_rows(side)
    rows += placed
    excluded += unplaced
    for fit in (_storage_row(side, cheapest, excluded), _budget_row(result, cheapest)):
        rows.append(fit)
        if fit.fits == "no":
            excluded.append(f"{fit.requirement}: {_short(fit)}")
    return Held(tuple(rows), tuple(excluded), cheapest)


def _short(fit: Fit) -> str:
    return f"{fit.provided}, {fit.required} required"


def _type_rows(result: SearchResult, instance: InstanceType) -> Iterator[Fit]:
    """What the type is, whatever the libraries need: filters, price, cores."""
    needs = result.needs
    for node_filter in node_filters(needs):
        yield node_filter.fit(instance)
    price = result.market.prices.get(instance.name)
    yield Fit(
        f"price in {needs.region or needs.spec.provider}",
        "none known" if price is None else f"{price:.4g} USD/h",
        "known",
        "no" if price is None else "yes",
    )
    side = NodeSide(needs, result.market.volumes, instance)
    count = side.nodes({})
    enough = side.allows(count, 0)
    most = needs.requirements.nodes.count.most or MAX_NODES
    yield Fit(
        "cores",
        f"{count} x {instance.cores} = {count * instance.cores}",
        f"{needs.cores}{'' if count <= most else f', on at most {most} nodes'}",
        "yes" if enough else "no",
    )


def _data_row(side: NodeSide) -> Iterator[Fit]:
    """Data are on a file system that all nodes share, so over the network they must come."""
    if "data" in side.needs.libraries and _existing_place(side, "data") != "kept-local":
        yield _rate_row("data over the network, per core", side.network, side.needs.rate(["data"]))


def _rate_row(what: str, provided: float, required: float) -> Fit:
    fits: Fits = "yes" if provided >= required else "no"
    return Fit(what, format_rate(provided, True), format_rate(required, True), fits)


def _place_rows(side: NodeSide) -> tuple[list[Fit], list[str]]:
    """Where work and util may live: one place is enough. Second, why there is none, if so."""
    needs = side.needs
    own = [name for name in needs.libraries if name != "data" and name not in needs.given.homes]
    # Where data alone are too much for the network, that is said once, and not of every place again.
    data = [name for name in needs.libraries if name == "data" and needs.rate([name]) <= side.network]
    assigned = [dict(zip(own, places, strict=True)) for places in product(PLACES, repeat=len(own))]
    base: dict[str, Place] = dict.fromkeys(data, "shared")
    base |= {
        name: _existing_place(side, name) for name in needs.given.homes if needs.rate([name]) <= side.network
    }
    local = [each for each in assigned if side.local_obstacle(each) is None]
    least = min(local, key=lambda each: _network_load(side, {**base, **each}))
    working = [each for each in local if side.obstacle({**base, **each}) is None]
    if not own:
        return [], []
    who = listed(own)
    rows = [_alternative(side, own, base, place, bool(working)) for place in PLACES]
    rows += _room_row(side, own)
    rows.append(_availability_row(side, own, bool(working)))
    rows.append(_place_row(who, own, working))
    # What lives on the node has no part in this row, unless its volumes are behind the same network.
    everything: dict[str, Place] = {name: "shared" for name in needs.libraries if name == "data"}
    everything |= {name: _existing_place(side, name) for name in needs.given.homes}
    users = side.network_users({**everything, **least})
    if users:
        what = f"all at once over the network ({listed(users)}), per core"
        rows.append(_rate_row(what, side.network, needs.rate(users)))
    if working:
        return rows, []
    uniform: list[dict[str, Place]] = [dict.fromkeys(own, place) for place in PLACES]
    obstacles = [side.obstacle({**base, **places}) for places in uniform]
    return rows, [f"no place for {who}: {'; '.join(obstacle for obstacle in obstacles if obstacle)}"]


def _existing_place(side: NodeSide, library: str) -> Place:
    """The place of a library that names a file system; shared where it names none."""
    home = side.needs.given.homes.get(library)
    own = home is not None and side.needs.given.filesystems[home].is_node_local
    return "kept-local" if own else "shared" if home is None else "kept"


def _network_load(side: NodeSide, places: dict[str, Place]) -> tuple[float, int]:
    users = side.network_users(places)
    return side.needs.rate(users), len(users)


def _alternative(side: NodeSide, own: list[str], base: dict[str, Place], place: Place, other: bool) -> Fit:
    """One place for work and util; where it misses and `other` places do, nothing is lost."""
    obstacle = side.obstacle({**base, **dict.fromkeys(own, place)})
    beside = " beside data" if place == "shared" and base else ""
    required = side.needs.rate([*base, *own] if beside else own)
    rate = side.place_rate(place)
    fits: Fits = "yes" if obstacle is None else "alternative" if other else "no"
    # A rate that is enough, and still no place: what stands in the way says more than the rate.
    provided = format_rate(rate, True) if rate is not None and (rate < required or not obstacle) else obstacle
    what = f"{listed(own)} {PLACES[place]}{beside}, per core"
    return Fit(what, provided or "none", format_rate(required, True), fits)


def _place_row(who: str, own: list[str], working: list[dict[str, Place]]) -> Fit:
    alone = [PLACES[place] for place in PLACES if dict.fromkeys(own, place) in working]
    if alone:
        provided = ", ".join(alone)
    elif working:
        provided = ", ".join(f"{name} {PLACES[place]}" for name, place in working[0].items())
    else:
        provided = "none"
    return Fit(f"a place for {who}", provided, "one that reaches the rates", "yes" if working else "no")


def _room_row(side: NodeSide, own: list[str]) -> Iterator[Fit]:
    """The room on instance stores, which more nodes than the cores need may have to bring."""
    store = side.instance.instance_store
    room = side.needs.capacity_later(own)
    places: dict[str, Place] = dict.fromkeys(own, "instance-store")
    if store is None or not room or side.local_obstacle(places) is not None:
        return
    nodes, for_cores = side.nodes(places), side.nodes({})
    more = f" ({for_cores} for the cores)" if nodes > for_cores else ""
    provided = f"{nodes} x {format_bytes(store.total_bytes)}{more}"
    yield Fit(f"room for {listed(own)} on its instance store", provided, format_bytes(room), "yes")


def _availability_row(side: NodeSide, own: list[str], placed: bool) -> Fit:
    may_lose = side.needs.requirements.availability.lose_work_with_node
    what = f"{listed(own)} after the loss of a node"
    if may_lose:
        return Fit(what, "lost from an instance store, kept elsewhere", "may be lost", "yes")
    provided = f"kept {' or '.join(text for place, text in PLACES.items() if place != 'instance-store')}"
    return Fit(what, provided, "must be kept", "yes" if placed else "open")


def _storage_row(side: NodeSide, cheapest: Candidate | None, excluded: list[str]) -> Fit:
    """Whether what is on sale serves and holds the libraries of so many nodes."""
    needs = side.needs
    names = list(needs.libraries)
    cores = cheapest.cores if cheapest else side.nodes({}) * side.instance.cores
    rate, room = format_rate(needs.rate(names) * cores), format_bytes(needs.capacity(names))
    required = f"{rate} at once and {room} in all"
    if cheapest is not None:
        provided = title(cheapest).partition("; ")[2]
        return Fit(_STORAGE_ROW, provided, required, "yes")
    if excluded:
        return Fit(_STORAGE_ROW, "not looked for", required, "open")
    return Fit(_STORAGE_ROW, "nothing on sale delivers and holds it", required, "no")


def _budget_row(result: SearchResult, cheapest: Candidate | None) -> Fit:
    budget = result.needs.requirements.budget
    required = "no budget is stated"
    if budget is not None:
        required = f"at most {hourly(budget, cheapest.usd_per_hour if cheapest else None)}"
    if cheapest is None:
        return Fit(_BUDGET_ROW, "no grid to cost", required, "open")
    over = budget is not None and cheapest.usd_per_hour > budget
    return Fit(_BUDGET_ROW, hourly(cheapest.usd_per_hour, budget), required, "no" if over else "yes")


def hourly(usd: float, beside: float | None = None) -> str:
    """USD per hour in words, so fine that it does not look the same as what it is held against."""
    hidden = beside is not None and usd != beside and f"{usd:.2f}" == f"{beside:.2f}"
    return f"{usd:.6f} USD/h" if hidden else f"{usd:.2f} USD/h"


def bottlenecks(result: SearchResult) -> list[str]:
    """A line for each existing part that misses something, or without which there would be a design.

    Call it where no design was found, or none within the budget.
    """
    lines = []
    for part in result.needs.given.parts:
        lacks = list(_lacks(result, part))
        better = _nearest(result, part)
        if better is None and not lacks:
            continue
        if better is None:
            nearest = "nothing else in its place alone helps"
        else:
            nearest = f"the nearest change: {better[0]}, {title(better[1])}, {hourly(better[1].usd_per_hour)}"
        lines.append(f"{part}: {'; '.join([*(lacks or ['with it as it is no design is left']), nearest])}")
    if len(lines) > 1 and (whole := freed(result, Given())) is not None:
        lines.append(f"with nothing kept: {title(whole)}, {hourly(whole.usd_per_hour)}")
    return lines


def freed(result: SearchResult, given: Given) -> Candidate | None:
    """The cheapest design that keeps only this much, within the budget; None where there is none."""
    there = search_market(replace(result.needs, given=given), result.market).candidates
    budget = result.needs.requirements.budget or math.inf
    return min(
        (one for one in there if one.later_usd_per_hour <= budget),
        key=lambda one: one.usd_per_hour,
        default=None,
    )


def _nearest(result: SearchResult, part: str) -> tuple[str, Candidate] | None:
    """What to change about a part, in words, and the cheapest design after that; None where nothing helps."""
    given = result.needs.given
    if part.startswith(f"{NODES}.") and given.instance and given.count:
        more = freed(result, replace(given, count=None))
        if more is not None:
            return f"{more.count} nodes of this type", more
    other = freed(result, given.without(part))
    what = "other nodes" if part.startswith(f"{NODES}.") else "another file system"
    return None if other is None else (what, other)


def _lacks(result: SearchResult, part: str) -> Iterator[str]:
    sort, _, name = part.partition(".")
    if sort == NODES:
        yield from _nodes_lack(result)
    else:
        yield from _filesystem_lacks(result, name)


def _nodes_lack(result: SearchResult) -> Iterator[str]:
    """What kept nodes miss, whatever file systems they have."""
    needs, given = result.needs, result.needs.given
    if given.instance is None:
        return
    instance = result.market.catalog.instance(given.instance, needs.spec.provider)
    if given.instance not in result.market.prices:
        where = needs.region or needs.spec.provider
        yield f"no price of {given.instance} is known in {where}; catalog.yaml beside the spec can have one"
    required = needs.cores
    if given.count and given.count * instance.cores < required:
        has = given.count * instance.cores
        lacking = required - has
        yield f"{given.count} x {instance.name} have {has} of {required} cores required, {lacking} too few"
    beside = (_STORAGE_ROW, _BUDGET_ROW, "cores", "price in")
    yield from (each for each in held(result, instance).excluded_by if not each.startswith(beside))
    most = needs.requirements.nodes.count.most
    least = math.ceil(required / instance.cores)
    if given.count is None and most is not None and least > most:
        yield f"{required} cores take {least} of it, and requirements.nodes.count.most is {most}"


def _filesystem_lacks(result: SearchResult, name: str) -> Iterator[str]:
    """What a kept file system misses of its own libraries' needs, on the nodes on which it misses least."""
    given = result.needs.given
    homes = {library: home for library, home in given.homes.items() if home == name}
    if not homes:
        return
    kept = given.filesystems[name]
    place: Place = "kept-local" if kept.is_node_local else "kept"
    placement = Placement.of(result.needs, dict.fromkeys(homes, place), homes)
    alone = replace(result.needs, given=replace(given, filesystems={name: kept}, homes=homes))
    storage = ExistingStorage(alone, result.market.catalog)
    # On nodes that are yet to be found, what a node of one type lets through says nothing.
    whole = kept.is_node_local or given.instance is not None
    least: list[str] | None = None
    for instance in _types(result):
        words = list(dict.fromkeys(_short_of(storage, instance, placement, name, alone.given.count, whole)))
        if least is None or len(words) < len(least):
            least = words
        if not least:
            return
    yield from least or ()


def _types(result: SearchResult) -> list[InstanceType]:
    """The types that the nodes may be of; those with the fewest cores beyond what is required first."""
    given, required = result.needs.given, result.needs.cores
    if given.instance is not None:
        return [result.market.catalog.instance(given.instance, result.needs.spec.provider)]
    types = [one for one, _ in result.suitable]
    if given.count is not None:
        # So many nodes of a smaller type have too few cores, of a larger one more than are required.
        types = [one for one in types if one.cores * given.count >= required] or types
        return sorted(types, key=lambda one: (one.cores, one.name))
    return sorted(types, key=lambda one: (-required % one.cores, one.name))


def _short_of(
    storage: ExistingStorage,
    instance: InstanceType,
    placement: Placement,
    name: str,
    count: int | None,
    whole: bool,
) -> Iterator[str]:
    # Too few nodes are said of the nodes: file systems are held against all cores that are required.
    number = max(count or 1, math.ceil(storage.needs.cores / instance.cores))
    on = storage.on(instance, number)
    if on is None:
        yield from (what for home, what in storage.refusals(instance, number) if home == name)
        return
    for limit in on.limits(placement):
        if limit.level < 1.0 and (whole or not limit.nodes_own):
            yield str(limit)
    for _, words in (*on.short_of_room(placement), *on.losses(placement)):
        yield words
