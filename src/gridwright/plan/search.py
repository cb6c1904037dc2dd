"""The search: every instance type of the catalogue, every placement, ranked.

Explains why a type does not fit, and why the neighbours of the cheapest design are no better than it.

Explains why one candidate is no better than another: parts of its cost, and what forces them.

What binds when no grid meets the requirements, and the nearest possible value.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from gridwright.catalog import Catalog, InstanceType, load_catalog
from gridwright.catalog.basis import age_findings, estimate_findings
from gridwright.errors import Finding
from gridwright.filesystems.site import default_region
from gridwright.model.grid import grid_model
from gridwright.model.predict import predict
from gridwright.model.pricing_provider import pricing_provider
from gridwright.plan.candidates import LEVELS, Candidate, Market, Search, market
from gridwright.plan.design import Design, DesignExplanation, Neighbour, Plan, price_dates
from gridwright.plan.existing import check_existing_nodes
from gridwright.plan.fits import (
    Filter,
    SearchResult,
    bottlenecks,
    check_family_names,
    freed,
    held,
    hourly,
    node_filters,
    search_market,
    survives,
    title,
)
from gridwright.plan.grid_spec import design_growth, design_spec
from gridwright.plan.needs import Need, Needs, read_needs, readings
from gridwright.plan.node_side import NodeSide, Place, listed
from gridwright.spec.crosscheck import MAX_NODES
from gridwright.spec.findings import unsilenced
from gridwright.spec.model import GridSpec
from gridwright.units import format_bytes, format_rate

STEPS = 12
"""How often the interval that holds the nearest possible value is halved."""
LEAST = 1e-3
"""The smallest part of a requirement that is tried."""


def impossible(result: SearchResult) -> tuple[str, ...]:
    """Lines that name what binds and the nearest possible value. Call it only where no design was found."""
    if result.needs.given.parts and (lines := bottlenecks(result)):
        return (*([_over_budget(result)] if result.candidates else []), *lines)
    if result.candidates:
        return (_over_budget(result),)
    if not result.market.instances:
        spec = result.needs.spec
        where = f" in {spec.region}" if spec.region else ""
        return (f"no instance type of {spec.provider} has a known price{where}",)
    if not result.suitable:
        return (_failed_filter(result),)
    return (*_too_much(result), _looked_at(result))


def _over_budget(result: SearchResult) -> str:
    best = min(result.candidates, key=lambda one: one.later_usd_per_hour)
    budget = result.needs.requirements.budget or 0.0
    # Rounded up: what is called possible must be.
    possible = math.ceil(best.later_usd_per_hour * 100) / 100
    return (
        f"requirements.budget: {budget:.2f} USD/h is below the cheapest design that meets the rest; "
        f"the nearest possible is {possible:.2f} USD/h"
    )


def _failed_filter(result: SearchResult) -> str:
    """The first requirement after which no type is left, and the best that those before it still had."""
    left = [one for one, _ in result.market.instances]
    narrowed: list[str] = []
    for node_filter in node_filters(result.needs):
        kept = [one for one in left if node_filter.fits(one)]
        if kept:
            narrowed += (
                [f"{node_filter.field or node_filter.requirement} {node_filter.required}"]
                if len(kept) < len(left)
                else []
            )
            left = kept
            continue
        what = f"{node_filter.field or node_filter.requirement}: {_none_of(len(left), narrowed)} "
        what += _has(node_filter)
        if node_filter.score is not None:
            engine = Search(result.needs, result.market)
            for one in sorted(left, key=node_filter.score, reverse=True):
                if next(engine.candidates(one, result.market.prices[one.name]), None):
                    return f"{what}; the nearest possible is {node_filter.provided(one)} ({one.name})"
        return what
    return "no instance type meets all of these at once"


def _none_of(count: int, narrowed: list[str]) -> str:
    """Which types were looked at: all with a price, or those that the requirements before had left."""
    if not narrowed:
        return "no instance type with a price has"
    return f"none of the {count} instance types with a price that meet {'; '.join(narrowed)} has"


def _has(each: Filter) -> str:
    return each.required if each.field else f"{each.requirement} {each.required}"


def _looked_at(result: SearchResult) -> str:
    """The types that stand behind the other lines, and what left out the rest."""
    spec = result.needs.spec
    if spec.provider_kind.market.plans_services:
        return f"with {spec.provider_kind.machine_words(spec)} as the spec describes them"
    of, left = len(result.market.instances), len(result.suitable)
    if left == of:
        return f"with any of all {of} instance types with a price"
    by = "; ".join(
        f"{node_filter.requirement} {node_filter.required}" for node_filter in node_filters(result.needs)
    )
    return f"with any of the {left} instance types looked at: of {of} with a price, those that meet {by}"


def _too_much(result: SearchResult) -> list[str]:
    """The rates or capacities that nothing delivers, each with the most that something does."""
    needs = result.needs
    lines = []
    for name, need in needs.libraries.items():
        part = _largest(result, partial(_scaled, needs, only=name))
        if need.bytes_per_s_per_core and part:
            asked, possible = need.bytes_per_s_per_core, need.bytes_per_s_per_core * part
            lines.append(
                f"libraries.{name}.requires: {format_rate(asked, True)} is out of reach; the rest as it is, "
                f"the nearest possible is {_at_most(possible)}"
            )
    if line := _too_few_nodes(result):
        lines.append(line)
    elif cores := _most_cores(result):
        lines.append(
            f"requirements.cores: {needs.cores} at these rates are out of reach; the nearest "
            f"possible is {cores}{_what_stops(result, cores + 1)}"
        )
    if lines:
        return lines
    if part := _largest(result, partial(_scaled, needs)):
        return [
            f"libraries.*.requires: together they are out of reach for {needs.cores} cores; "
            f"the nearest possible is {math.floor(part * 1000) / 10:g} % of each rate"
        ]
    room = needs.capacity_later(needs.libraries)
    if room and (part := _largest(result, partial(_roomy, needs))):
        return [
            f"libraries.*.capacity: no design holds {format_bytes(room)} at these rates; "
            f"the nearest possible is {math.floor(room * part / 2**40)} TiB in all"
        ]
    what = "the rates and the capacities" if room else "the rates"
    return [f"{what} of the libraries are out of reach: plan several grids"]


def _too_few_nodes(result: SearchResult) -> str:
    """The bound on the number of nodes, where it is what forbids; empty where it is not."""
    requirements = result.needs.requirements
    most = requirements.nodes.count.most
    if most is None or not _feasible(result, _of_at_most(result.needs, MAX_NODES)):
        return ""
    low, high = most, MAX_NODES
    while high - low > 1:
        middle = (low + high) // 2
        fits = _feasible(result, _of_at_most(result.needs, middle))
        low, high = (low, middle) if fits else (middle, high)
    few = "1 node is" if most == 1 else f"{most} nodes are"
    return (
        f"requirements.nodes.count.most: {few} too few for {result.needs.cores} cores at these "
        f"rates; the nearest possible is {high}"
    )


def _of_at_most(needs: Needs, nodes: int) -> Needs:
    """The needs with so many nodes at most."""
    bounds = needs.requirements.nodes
    count = bounds.count.model_copy(update={"most": nodes})
    changed = bounds.model_copy(update={"count": count})
    return replace(needs, requirements=needs.requirements.model_copy(update={"nodes": changed}))


def _what_stops(result: SearchResult, cores: int) -> str:
    """What so many cores run into, where one limit of plans alone does it; else nothing is said."""
    needs = result.needs
    counts = [(math.ceil(cores / one.cores), one.cores) for one, _ in result.suitable]
    # Whole nodes have a few cores more than are asked for, and file systems must serve them, too.
    whole = min((count * each for count, each in counts if count <= MAX_NODES), default=None)
    if whole is None:
        return f" (a plan has at most {MAX_NODES} nodes)"
    if "data" not in needs.libraries:
        return ""
    rate, room = needs.rate(["data"]) * whole, needs.capacity_later(["data"])
    may_lose = needs.requirements.availability.lose_data_with_server
    offers = [offer for _, offer in result.market.offers if offer.durable or may_lose]
    if any(offer.smallest(rate, room) for offer in offers):
        return ""
    return f" (for data, a plan has at most {' or '.join(dict.fromkeys(offer.most for offer in offers))})"


def _scaled(needs: Needs, share: float, *, only: str | None = None) -> Needs:
    """The needs with a part of the rates, or of the rate of one library."""
    return replace(
        needs,
        libraries={
            name: replace(need, bytes_per_s_per_core=need.bytes_per_s_per_core * share)
            if only in (None, name)
            else need
            for name, need in needs.libraries.items()
        },
    )


def _roomy(needs: Needs, share: float) -> Needs:
    """The needs with a part of the capacities."""
    return replace(
        needs,
        libraries={
            name: Need(
                need.bytes_per_s_per_core, int(need.capacity_bytes * share), int(need.growth_bytes * share)
            )
            for name, need in needs.libraries.items()
        },
    )


def _largest(result: SearchResult, needs_of: Callable[[float], Needs]) -> float | None:
    """The largest part of a requirement that some grid meets, found by halving; None when none does."""
    if not _feasible(result, needs_of(LEAST)):
        return None
    low, high = LEAST, 1.0
    for _ in range(STEPS):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if _feasible(result, needs_of(middle)) else (low, middle)
    return low


def _most_cores(result: SearchResult) -> int | None:
    """The most cores that some grid serves at the required rates; None when not even one."""
    low, high = 0, result.needs.cores
    while high - low > 1:
        middle = (low + high) // 2
        fewer = result.needs.requirements.model_copy(update={"cores": middle})
        low, high = (
            (middle, high) if _feasible(result, replace(result.needs, requirements=fewer)) else (low, middle)
        )
    return low or None


def _at_most(bytes_per_s: float) -> str:
    """A rate per core, rounded down: what is called possible must be."""
    return format_rate(math.floor(bytes_per_s / 1e5) * 1e5, per_core=True)


def _feasible(result: SearchResult, needs: Needs) -> bool:
    engine = Search(needs, result.market)
    return any(next(engine.candidates(instance, usd), None) for instance, usd in result.suitable)


SAME = 0.0005
"""Costs that differ by less, as a part of the whole, are called the same: in print they would be."""
HOMES: dict[Place, str] = {
    "shared": "room on the shared file system",
    "scratch": "room on a shared scratch file system",
    "instance-store": "the instance store of each node",
    "volumes": "volumes at each node",
    "kept": "a file system that is kept",
    "kept-local": "a file system of each node that is kept",
}


def difference(result: SearchResult, one: Candidate, best: Candidate) -> str:
    """What `one` costs more than `best`, by part in USD per hour, and why, in words."""
    more = one.usd_per_hour / best.usd_per_hour - 1
    losses, gains = list(_better(best, one)), list(_better(one, best))
    if abs(more) >= SAME:
        price = f"costs {abs(more):.1%} {'more' if more > 0 else 'less'}"
    else:
        price = "costs the same" if losses else "costs the same and is no worse"
    parts = ", ".join(_parts(one, best))
    reasons = [*_moved(result, one, best), *_nodes(result, one, best)]
    reasons += [f"{theirs} in place of {mine}" for mine, theirs in losses]
    text = "; ".join([f"{price}: {parts}" if parts else price, *reasons])
    return "; in return ".join([text, *(f"{mine} against {theirs}" for mine, theirs in gains)])


def bill(one: Candidate) -> dict[str, float]:
    """The cost of a candidate by part, in USD per hour; the parts add up to the whole."""
    storage = sum(choice.usd_per_hour for choice in (one.shared, one.scratch) if choice)
    volumes = one.volumes.usd_per_hour * one.count if one.volumes else 0.0
    return {
        "nodes": one.usd_per_hour - storage - volumes - one.cloud_usd_per_hour - one.existing_usd_per_hour,
        "shared storage": storage,
        "kept file systems": one.existing_usd_per_hour,
        "volumes": volumes,
        "what the cloud asks for beside": one.cloud_usd_per_hour,
    }


def _parts(one: Candidate, best: Candidate) -> Iterator[str]:
    theirs, unit = bill(best), " USD/h"
    for part, usd in bill(one).items():
        if f"{usd:.2f}" != f"{theirs[part]:.2f}":
            yield f"{part} {usd:.2f} against {theirs[part]:.2f}{unit}"
            unit = ""


def _moved(result: SearchResult, one: Candidate, best: Candidate) -> Iterator[str]:
    """Why libraries live elsewhere, and what the shared file system has to do for it."""
    moves: dict[tuple[Place, Place], list[str]] = {}
    for name, place in one.places.items():
        if best.places[name] != place:
            moves.setdefault((place, best.places[name]), []).append(name)
    obstacle = (
        NodeSide(result.needs, result.market.volumes, one.instance).obstacle(best.places) if moves else None
    )
    if obstacle is not None:
        yield f"{obstacle}, so it takes {' and '.join(_moves(moves))}"
    else:
        yield from _moves(moves)
    if one.shared is None or best.shared is None:
        return
    asked, before = _demand(result, one), _demand(result, best)
    if asked != before:
        yield f"its shared file system must bring {asked} in place of {before}"
    elif one.shared.title != best.shared.title:
        yield f"{one.shared.title} in place of {best.shared.title}"


def _moves(moves: dict[tuple[Place, Place], list[str]]) -> Iterator[str]:
    for (place, before), names in moves.items():
        yield f"{HOMES[place]} for {listed(names)} in place of {HOMES[before]}"


def _demand(result: SearchResult, one: Candidate) -> str:
    """The rate and the capacity that a candidate requires of its shared file system."""
    names = [name for name, place in one.places.items() if place == "shared"]
    rate = result.needs.rate(names) * one.cores
    return f"{format_rate(rate)} and {format_bytes(result.needs.capacity(names))}"


def _nodes(result: SearchResult, one: Candidate, best: Candidate) -> Iterator[str]:
    """What nodes of another type or number have that costs more, and how they differ."""
    if (one.instance.name, one.count) == (best.instance.name, best.count):
        return
    required = result.needs.cores
    for_cores = NodeSide(result.needs, result.market.volumes, one.instance).nodes({})
    if one.count > for_cores:
        yield f"{one.count} nodes for the room on their instance stores, where {for_cores} have the cores"
    elif one.cores > max(best.cores, required):
        yield f"more cores than required: {one.cores} for {required}"
    if _count(one) != _count(best):
        yield f"{_count(one)} in place of {_count(best)}"
    usd, before = (bill(each)["nodes"] / each.cores for each in (one, best))
    if f"{usd:.4f}" != f"{before:.4f}" and usd > before:
        yield from _paid_for(one, best, f"a core costs {usd:.4f} against {before:.4f} USD/h")
    yield from _volumes(one, best)


def _paid_for(one: Candidate, best: Candidate, price: str) -> Iterator[str]:
    """The price of a core, and what comes with it that the cheapest nodes do without."""
    yield price
    memory, before = (each.instance.memory_bytes_per_core for each in (one, best))
    if memory > before:
        yield f"{format_bytes(memory)} of memory come with each core against {format_bytes(before)}"
    if one.instance.instance_store and "instance-store" not in one.places.values():
        yield "its instance store is paid for and not used"


def _volumes(one: Candidate, best: Candidate) -> Iterator[str]:
    if one.volumes is None or best.volumes is None:
        return
    mine, theirs = one.volumes.count * one.count, best.volumes.count * best.count
    if mine != theirs:
        yield (
            f"{mine} volumes in all, {one.volumes.count} at each node, "
            f"against {theirs}, {best.volumes.count} at each"
        )


def _count(one: Candidate) -> str:
    nodes = "node" if one.count == 1 else "nodes"
    return f"{one.count} {nodes} of {one.instance.cores} cores"


def _better(one: Candidate, other: Candidate) -> Iterator[tuple[str, str]]:
    """In what one candidate is better than another, whatever it costs: its figure and the other's."""
    if one.bytes_per_s_per_core > other.bytes_per_s_per_core * 1.01:
        mine, theirs = (format_rate(each.bytes_per_s_per_core, True) for each in (one, other))
        yield f"{mine} lasting", theirs
    if one.resilience > other.resilience:
        yield f"resilience {one.resilience} of 4", str(other.resilience)


NEIGHBOURS = 8
"""Most neighbours of the cheapest design that are named."""
OF_A_KIND = 3
"""Most of them that only live in other places, and most of other families."""


def neighbours(result: SearchResult, best: Candidate) -> tuple[Neighbour, ...]:
    """Other placements and sizes of the cheapest design, and other families, and why none is better."""
    near = [*_other_places(result, best)]
    if result.needs.given.instance is None:
        near += [*_other_sizes(result, best), *_next_best_family(result, best)]
    return tuple([*_without_existing(result, best), *near][:NEIGHBOURS])


def _without_existing(result: SearchResult, best: Candidate) -> Iterator[Neighbour]:
    """The cheapest designs without each existing part, which show what it costs or saves."""
    given = result.needs.given
    for part in given.parts:
        one = freed(result, given.without(part))
        if one is not None:
            yield _neighbour(result, f"{part} not kept", one, best)


def _neighbour(result: SearchResult, change: str, one: Candidate, best: Candidate) -> Neighbour:
    why = difference(result, one, best)
    budget = result.needs.requirements.budget
    if budget is not None and one.later_usd_per_hour > budget:
        why = f"over the budget of {hourly(budget, one.later_usd_per_hour)}; {why}"
    return Neighbour(title(one), change, why, one.usd_per_hour)


def _other_places(result: SearchResult, best: Candidate) -> list[Neighbour]:
    """The same nodes, with another place for data, work or util."""
    cheapest: dict[tuple[tuple[str, str], ...], Candidate] = {}
    for one in result.candidates:
        places = tuple(_home(one, name) for name in one.places)
        if one.instance.name != best.instance.name:
            continue
        if (one.places, one.homes) == (best.places, best.homes):
            continue
        if places not in cheapest or one.usd_per_hour < cheapest[places].usd_per_hour:
            cheapest[places] = one
    near = []
    for _, one in sorted(cheapest.items()):
        moved = [name for name in one.places if _home(best, name) != _home(one, name)]
        new = "new " if result.needs.given.filesystems else ""
        change = ", ".join(f"{name} on {one.homes.get(name) or new + one.places[name]}" for name in moved)
        near.append(_neighbour(result, change, one, best))
    return sorted(near, key=lambda each: each.usd_per_hour or math.inf)[:OF_A_KIND]


def _home(one: Candidate, library: str) -> tuple[str, str]:
    """Where a library lives, and the name of the kept file system that it lives on, if so."""
    return one.places[library], one.homes.get(library, "")


def _other_sizes(result: SearchResult, best: Candidate) -> list[Neighbour]:
    """The next smaller and larger types of the same family."""
    family = sorted(
        (one for one, _ in result.market.instances if one.family == best.instance.family),
        key=lambda one: (one.cores, one.name),
    )
    at = [one.name for one in family].index(best.instance.name)
    return [_with_type(result, family[index], best) for index in (at - 1, at + 1) if 0 <= index < len(family)]


def _next_best_family(result: SearchResult, best: Candidate) -> list[Neighbour]:
    """The cheapest designs of the next best families."""
    seen = {best.instance.family}
    near: list[Neighbour] = []
    for one in sorted(result.candidates, key=lambda each: each.usd_per_hour):
        if len(near) == OF_A_KIND:
            break
        if one.instance.family not in seen:
            seen.add(one.instance.family)
            near.append(_neighbour(result, f"nodes {one.instance.name}", one, best))
    return near


def _with_type(result: SearchResult, instance: InstanceType, best: Candidate) -> Neighbour:
    against = held(result, instance)
    change = f"nodes {instance.name}"
    if against.cheapest is not None:
        return _neighbour(result, change, against.cheapest, best)
    return Neighbour(change, change, "; ".join(against.excluded_by), None)


def explain_type(
    result: SearchResult, instance: InstanceType, design: Callable[[Candidate], Design]
) -> DesignExplanation:
    """What a type provides of each requirement, and the cheapest design with it, whatever the budget."""
    against = held(result, instance)
    one = against.cheapest
    verdict = _verdict(result, instance.name, one, against.excluded_by)
    return DesignExplanation(instance.name, against.rows, design(one) if one else None, verdict)


def _verdict(result: SearchResult, name: str, one: Candidate | None, excluded: tuple[str, ...]) -> str:
    if one is None:
        return f"no grid with {name} meets the requirements: {'; '.join(excluded)}"
    best = min(result.candidates, key=lambda each: each.usd_per_hour)
    budget = result.needs.requirements.budget
    over = ""
    if budget is not None and one.usd_per_hour > budget:
        over = f"{hourly(one.usd_per_hour, budget)}, over the budget of {hourly(budget, one.usd_per_hour)}"
    if one.usd_per_hour <= best.usd_per_hour:
        first = f"{name} makes the cheapest grid"
        return f"{first}, but it costs {over}: no type makes one within it" if over else first
    first = f"the cheapest grid with {name} {f'costs {over}' if over else 'meets the requirements'}"
    why = difference(result, one, best)
    return f"{first}; against the cheapest of all, with {best.instance.name}, it {why}"


CHEAPEST = 10
"""Designs listed for their cost."""
SAME_FAMILY = 1
"""Most of these with nodes of one family: others only vary their size, or where work lives."""
FRONT = 12
"""Most designs listed for being on the Pareto front."""


def plan_grids(spec: GridSpec, catalog: Catalog | None = None, *, explain: str | None = None) -> Plan:
    """Find the cheapest grids that meet the requirements of a spec, and those worth their price.

    `explain` names an instance type to hold against every requirement. Raises GridwrightError for a
    spec without requirements, a region without prices, or a type that does not exist.
    """
    needs = read_needs(spec)
    catalog = catalog or load_catalog(spec.file.parent if spec.file else None)
    check_family_names(needs, catalog)
    explained = _explained(explain, spec, catalog) if explain else None
    found = search(needs, catalog)
    budget = needs.requirements.budget
    within = [one for one in found.candidates if budget is None or one.later_usd_per_hour <= budget]
    front = pareto_front(within)
    # Designs whose nodes are given differ in their storage alone.
    alike = CHEAPEST if needs.given.instance else SAME_FAMILY
    chosen = {id(one): one for one in [*cheapest_designs(within, alike), *spread(front, FRONT)]}
    on_front = {id(one) for one in front}
    ranked = sorted(chosen.values(), key=order)
    made = [(one, _design(one, needs, catalog, front=id(one) in on_front)) for one in ranked]
    # What is kept is the user's: predict has the last word on it.
    ranked = [one for one, design in made if design.prediction.met is not False or not needs.given.parts]
    designs = tuple(design for one, design in made if one in ranked)
    region = default_region(catalog, spec)
    return Plan(
        spec.name,
        readings(needs),
        designs,
        neighbours(found, ranked[0]) if ranked else (),
        considered=len(found.candidates),
        seconds=found.seconds,
        impossible=() if designs else impossible(found),
        explanation=explain_type(
            found,
            explained,
            lambda one: _design(one, needs, catalog, front=id(one) in on_front),
        )
        if explained
        else None,
        region=region,
        prices_of=_prices_of(found, ranked),
        without_price=found.without_price,
        basis=found.market.basis,
        findings=_price_findings(found),
        kept=tuple(needs.given.parts),
    )


def _explained(name: str, spec: GridSpec, catalog: Catalog) -> InstanceType:
    """The type to explain: one of the catalogue, or the nodes that the spec describes."""
    described = pricing_provider(spec).described_node(spec)
    if described is not None and described[0].name == name:
        return described[0]
    return catalog.instance(name, spec.provider)


def _prices_of(result: SearchResult, designs: Sequence[Candidate]) -> str:
    """When the prices of these designs were listed; those of managed offers where no type has one."""
    catalog, basis = result.market.catalog, result.market.basis
    region = default_region(catalog, result.needs.spec)
    types = price_dates(catalog, (one.instance.name for one in designs), region)
    return types or " to ".join(dict.fromkeys(basis.storage if basis else ()))


def _price_findings(result: SearchResult) -> tuple[Finding, ...]:
    basis = result.market.basis
    if basis is None:
        return ()
    region = default_region(result.market.catalog, result.needs.spec)
    spec = result.needs.spec
    return tuple(unsilenced((*age_findings(basis), *estimate_findings(basis, region)), spec.silence))


def search(
    needs: Needs,
    catalog: Catalog,
    on_sale: Market | None = None,
    levels: Sequence[float] = LEVELS,
    sizes: Sequence[int] | None = None,
) -> SearchResult:
    """Cost every candidate of the catalogue at so many times the rates.

    `on_sale` is its market for the same spec, if that was made. `sizes` are numbers of cores to plan for, by
    default those that are required.
    """
    started = time.perf_counter()
    check_existing_nodes(needs, catalog)
    result = search_market(needs, on_sale or market(catalog, needs), levels, sizes)
    result.seconds = time.perf_counter() - started
    return result


def order(candidate: Candidate) -> tuple[float, float, int, str]:
    """Cheapest first; among equals the faster and more resilient, then by name, so that ranks are stable."""
    return (
        candidate.usd_per_hour,
        -candidate.bytes_per_s_per_core,
        -candidate.resilience,
        candidate.instance.name,
    )


def cheapest_designs(candidates: Sequence[Candidate], same_family: int = SAME_FAMILY) -> list[Candidate]:
    """The cheapest candidates, at most `same_family` of each family."""
    kept: list[Candidate] = []
    seen: dict[str, int] = {}
    for one in sorted(candidates, key=order):
        if seen.get(one.instance.family, 0) < same_family:
            seen[one.instance.family] = seen.get(one.instance.family, 0) + 1
            kept.append(one)
        if len(kept) == CHEAPEST:
            break
    return kept


def pareto_front(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Those that no other matches in cost, rate and resilience while being better in one; cheapest first."""
    best: dict[int, float] = {}
    front: list[Candidate] = []
    for one in sorted(candidates, key=order):
        highest = max((rate for level, rate in best.items() if level >= one.resilience), default=-1.0)
        if one.bytes_per_s_per_core > highest:
            front.append(one)
            best[one.resilience] = one.bytes_per_s_per_core
    return front


def spread(front: Sequence[Candidate], limit: int) -> list[Candidate]:
    """At most `limit` of the front: both ends, and the others evenly between them."""
    if len(front) <= limit:
        return list(front)
    step = (len(front) - 1) / (limit - 1)
    return [front[round(step * index)] for index in range(limit)]


def _design(candidate: Candidate, needs: Needs, catalog: Catalog, *, front: bool) -> Design:
    """The candidate as a design, with what predict says of its spec."""
    spec = design_spec(candidate, needs)
    prediction = predict(grid_model(spec, catalog))
    return Design(
        title(candidate),
        spec,
        prediction,
        prediction.usd_per_hour if prediction.usd_per_hour is not None else candidate.usd_per_hour,
        min(
            rates.bytes_per_s_per_core for library in prediction.libraries for rates in library.rates.values()
        ),
        candidate.resilience,
        survives(candidate),
        front,
        design_growth(candidate, needs),
    )
