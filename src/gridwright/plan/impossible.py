"""What binds when no grid meets the requirements, and the nearest possible value."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from gridwright.plan.candidates import Search
from gridwright.plan.filters import Filter, node_filters
from gridwright.plan.found import Found
from gridwright.plan.kept_binds import what_binds
from gridwright.plan.needs import Need, Needs
from gridwright.spec.crosscheck import MAX_NODES
from gridwright.units import format_bytes, format_rate

STEPS = 12
"""How often the interval that holds the nearest possible value is halved."""
LEAST = 1e-3
"""The smallest part of a requirement that is tried."""


def impossible(found: Found) -> tuple[str, ...]:
    """Lines that name what binds and the nearest possible value. Call it only where no design was found."""
    if found.needs.given.parts and (lines := what_binds(found)):
        return (*([_over_budget(found)] if found.candidates else []), *lines)
    if found.candidates:
        return (_over_budget(found),)
    if not found.market.instances:
        spec = found.needs.spec
        where = f" in {spec.region}" if spec.region else ""
        return (f"no instance type of {spec.provider} has a known price{where}",)
    if not found.suitable:
        return (_failed_filter(found),)
    return (*_too_much(found), _looked_at(found))


def _over_budget(found: Found) -> str:
    best = min(found.candidates, key=lambda one: one.later_usd_per_hour)
    budget = found.needs.requirements.budget or 0.0
    # Rounded up: what is called possible must be.
    possible = math.ceil(best.later_usd_per_hour * 100) / 100
    return (
        f"requirements.budget: {budget:.2f} USD/h is below the cheapest design that meets the rest; "
        f"the nearest possible is {possible:.2f} USD/h"
    )


def _failed_filter(found: Found) -> str:
    """The first requirement after which no type is left, and the best that those before it still had."""
    left = [one for one, _ in found.market.instances]
    narrowed: list[str] = []
    for each in node_filters(found.needs):
        kept = [one for one in left if each.fits(one)]
        if kept:
            narrowed += [f"{each.field or each.requirement} {each.required}"] if len(kept) < len(left) else []
            left = kept
            continue
        what = f"{each.field or each.requirement}: {_none_of(len(left), narrowed)} {_has(each)}"
        if each.score is not None:
            engine = Search(found.needs, found.market)
            for one in sorted(left, key=each.score, reverse=True):
                if next(engine.candidates(one, found.market.prices[one.name]), None):
                    return f"{what}; the nearest possible is {each.provided(one)} ({one.name})"
        return what
    return "no instance type meets all of these at once"


def _none_of(count: int, narrowed: list[str]) -> str:
    """Which types were looked at: all with a price, or those that the requirements before had left."""
    if not narrowed:
        return "no instance type with a price has"
    return f"none of the {count} instance types with a price that meet {'; '.join(narrowed)} has"


def _has(each: Filter) -> str:
    return each.required if each.field else f"{each.requirement} {each.required}"


def _looked_at(found: Found) -> str:
    """The types that stand behind the other lines, and what left out the rest."""
    spec = found.needs.spec
    if spec.provider_kind.plans_services:
        return f"with {spec.provider_kind.machine_words(spec)} as the spec describes them"
    of, left = len(found.market.instances), len(found.suitable)
    if left == of:
        return f"with any of all {of} instance types with a price"
    by = "; ".join(f"{each.requirement} {each.required}" for each in node_filters(found.needs))
    return f"with any of the {left} instance types looked at: of {of} with a price, those that meet {by}"


def _too_much(found: Found) -> list[str]:
    """The rates or capacities that nothing delivers, each with the most that something does."""
    needs = found.needs
    lines = []
    for name, need in needs.libraries.items():
        part = _largest(found, partial(_scaled, needs, only=name))
        if need.bytes_per_s_per_core and part:
            asked, possible = need.bytes_per_s_per_core, need.bytes_per_s_per_core * part
            lines.append(
                f"libraries.{name}.requires: {format_rate(asked, True)} is out of reach; the rest as it is, "
                f"the nearest possible is {_at_most(possible)}"
            )
    if line := _too_few_nodes(found):
        lines.append(line)
    elif cores := _most_cores(found):
        lines.append(
            f"requirements.cores: {needs.cores} at these rates are out of reach; the nearest "
            f"possible is {cores}{_what_stops(found, cores + 1)}"
        )
    if lines:
        return lines
    if part := _largest(found, partial(_scaled, needs)):
        return [
            f"libraries.*.requires: together they are out of reach for {needs.cores} cores; "
            f"the nearest possible is {math.floor(part * 1000) / 10:g} % of each rate"
        ]
    room = needs.capacity_later(needs.libraries)
    if room and (part := _largest(found, partial(_roomy, needs))):
        return [
            f"libraries.*.capacity: no design holds {format_bytes(room)} at these rates; "
            f"the nearest possible is {math.floor(room * part / 2**40)} TiB in all"
        ]
    what = "the rates and the capacities" if room else "the rates"
    return [f"{what} of the libraries are out of reach: plan several grids"]


def _too_few_nodes(found: Found) -> str:
    """The bound on the number of nodes, where it is what forbids; empty where it is not."""
    requirements = found.needs.requirements
    most = requirements.nodes.count.most
    if most is None or not _feasible(found, _of_at_most(found.needs, MAX_NODES)):
        return ""
    low, high = most, MAX_NODES
    while high - low > 1:
        middle = (low + high) // 2
        fits = _feasible(found, _of_at_most(found.needs, middle))
        low, high = (low, middle) if fits else (middle, high)
    few = "1 node is" if most == 1 else f"{most} nodes are"
    return (
        f"requirements.nodes.count.most: {few} too few for {found.needs.cores} cores at these "
        f"rates; the nearest possible is {high}"
    )


def _of_at_most(needs: Needs, nodes: int) -> Needs:
    """The needs with so many nodes at most."""
    bounds = needs.requirements.nodes
    count = bounds.count.model_copy(update={"most": nodes})
    changed = bounds.model_copy(update={"count": count})
    return replace(needs, requirements=needs.requirements.model_copy(update={"nodes": changed}))


def _what_stops(found: Found, cores: int) -> str:
    """What so many cores run into, where one limit of plans alone does it; else nothing is said."""
    needs = found.needs
    counts = [(math.ceil(cores / one.cores), one.cores) for one, _ in found.suitable]
    # Whole nodes have a few cores more than are asked for, and file systems must serve them, too.
    whole = min((count * each for count, each in counts if count <= MAX_NODES), default=None)
    if whole is None:
        return f" (a plan has at most {MAX_NODES} nodes)"
    if "data" not in needs.libraries:
        return ""
    rate, room = needs.rate(["data"]) * whole, needs.capacity_later(["data"])
    may_lose = needs.requirements.availability.lose_data_with_server
    offers = [offer for _, offer in found.market.offers if offer.durable or may_lose]
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


def _largest(found: Found, needs_of: Callable[[float], Needs]) -> float | None:
    """The largest part of a requirement that some grid meets, found by halving; None when none does."""
    if not _feasible(found, needs_of(LEAST)):
        return None
    low, high = LEAST, 1.0
    for _ in range(STEPS):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if _feasible(found, needs_of(middle)) else (low, middle)
    return low


def _most_cores(found: Found) -> int | None:
    """The most cores that some grid serves at the required rates; None when not even one."""
    low, high = 0, found.needs.cores
    while high - low > 1:
        middle = (low + high) // 2
        fewer = found.needs.requirements.model_copy(update={"cores": middle})
        low, high = (
            (middle, high) if _feasible(found, replace(found.needs, requirements=fewer)) else (low, middle)
        )
    return low or None


def _at_most(bytes_per_s: float) -> str:
    """A rate per core, rounded down: what is called possible must be."""
    return format_rate(math.floor(bytes_per_s / 1e5) * 1e5, per_core=True)


def _feasible(found: Found, needs: Needs) -> bool:
    engine = Search(needs, found.market)
    return any(next(engine.candidates(instance, usd), None) for instance, usd in found.suitable)
