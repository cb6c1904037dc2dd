"""Explains why a type does not fit, and why the neighbours of the cheapest design are no better than it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from gridwright.catalog import InstanceType
from gridwright.plan.candidates import Candidate
from gridwright.plan.design import Design, DesignExplanation, Neighbour
from gridwright.plan.difference import difference
from gridwright.plan.fits import held, hourly
from gridwright.plan.found import Found, title
from gridwright.plan.kept_binds import freed

NEIGHBOURS = 8
"""Most neighbours of the cheapest design that are named."""
OF_A_KIND = 3
"""Most of them that only live in other places, and most of other families."""


def neighbours(found: Found, best: Candidate) -> tuple[Neighbour, ...]:
    """Other placements and sizes of the cheapest design, and other families, and why none is better."""
    near = [*_other_places(found, best)]
    if found.needs.given.instance is None:
        near += [*_other_sizes(found, best), *_other_families(found, best)]
    return tuple([*_nothing_kept(found, best), *near][:NEIGHBOURS])


def _nothing_kept(found: Found, best: Candidate) -> Iterator[Neighbour]:
    """The cheapest design without each kept part: what keeping it costs or saves."""
    given = found.needs.given
    for part in given.parts:
        one = freed(found, given.without(part))
        if one is not None:
            yield _neighbour(found, f"{part} not kept", one, best)


def _neighbour(found: Found, change: str, one: Candidate, best: Candidate) -> Neighbour:
    why = difference(found, one, best)
    budget = found.needs.requirements.budget
    if budget is not None and one.later_usd_per_hour > budget:
        why = f"over the budget of {hourly(budget, one.later_usd_per_hour)}; {why}"
    return Neighbour(title(one), change, why, one.usd_per_hour)


def _other_places(found: Found, best: Candidate) -> list[Neighbour]:
    """The same nodes, with another place for data, work or util."""
    cheapest: dict[tuple[tuple[str, str], ...], Candidate] = {}
    for one in found.candidates:
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
        new = "new " if found.needs.given.filesystems else ""
        change = ", ".join(f"{name} on {one.homes.get(name) or new + one.places[name]}" for name in moved)
        near.append(_neighbour(found, change, one, best))
    return sorted(near, key=lambda each: each.usd_per_hour or math.inf)[:OF_A_KIND]


def _home(one: Candidate, library: str) -> tuple[str, str]:
    """Where a library lives, and the name of the kept file system that it lives on, if so."""
    return one.places[library], one.homes.get(library, "")


def _other_sizes(found: Found, best: Candidate) -> list[Neighbour]:
    """The next smaller and larger types of the same family."""
    family = sorted(
        (one for one, _ in found.market.instances if one.family == best.instance.family),
        key=lambda one: (one.cores, one.name),
    )
    at = [one.name for one in family].index(best.instance.name)
    return [_with_type(found, family[index], best) for index in (at - 1, at + 1) if 0 <= index < len(family)]


def _other_families(found: Found, best: Candidate) -> list[Neighbour]:
    """The cheapest designs of the next best families."""
    seen = {best.instance.family}
    near: list[Neighbour] = []
    for one in sorted(found.candidates, key=lambda each: each.usd_per_hour):
        if len(near) == OF_A_KIND:
            break
        if one.instance.family not in seen:
            seen.add(one.instance.family)
            near.append(_neighbour(found, f"nodes {one.instance.name}", one, best))
    return near


def _with_type(found: Found, instance: InstanceType, best: Candidate) -> Neighbour:
    against = held(found, instance)
    change = f"nodes {instance.name}"
    if against.cheapest is not None:
        return _neighbour(found, change, against.cheapest, best)
    return Neighbour(change, change, "; ".join(against.excluded_by), None)


def explain_type(
    found: Found, instance: InstanceType, design: Callable[[Candidate], Design]
) -> DesignExplanation:
    """What a type provides of each requirement, and the cheapest design with it, whatever the budget."""
    against = held(found, instance)
    one = against.cheapest
    verdict = _verdict(found, instance.name, one, against.excluded_by)
    return DesignExplanation(instance.name, against.rows, design(one) if one else None, verdict)


def _verdict(found: Found, name: str, one: Candidate | None, excluded: tuple[str, ...]) -> str:
    if one is None:
        return f"no grid with {name} meets the requirements: {'; '.join(excluded)}"
    best = min(found.candidates, key=lambda each: each.usd_per_hour)
    budget = found.needs.requirements.budget
    over = ""
    if budget is not None and one.usd_per_hour > budget:
        over = f"{hourly(one.usd_per_hour, budget)}, over the budget of {hourly(budget, one.usd_per_hour)}"
    if one.usd_per_hour <= best.usd_per_hour:
        first = f"{name} makes the cheapest grid"
        return f"{first}, but it costs {over}: no type makes one within it" if over else first
    first = f"the cheapest grid with {name} {f'costs {over}' if over else 'meets the requirements'}"
    why = difference(found, one, best)
    return f"{first}; against the cheapest of all, with {best.instance.name}, it {why}"
