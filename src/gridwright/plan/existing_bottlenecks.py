"""Existing parts of a spec that limit a plan, by how much, and the nearest change that helps."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from gridwright.catalog import InstanceType
from gridwright.plan.candidates import Candidate
from gridwright.plan.existing import ExistingStorage
from gridwright.plan.fits import BUDGET_ROW, STORAGE_ROW, held, hourly
from gridwright.plan.given import NODES, Given
from gridwright.plan.node_side import Place, Placement
from gridwright.plan.search_result import SearchResult, search_market, title


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
    beside = (STORAGE_ROW, BUDGET_ROW, "cores", "price in")
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
        words = list(dict.fromkeys(_short(storage, instance, placement, name, alone.given.count, whole)))
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


def _short(
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
