"""Why a type, a neighbour or the whole catalogue does not do."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from gridwright.catalog import InstanceType
from gridwright.filesystems.disks import store_rates
from gridwright.filesystems.site import steady_network, volume_limit
from gridwright.plan.candidates import Candidate
from gridwright.plan.design import Design, Explanation, Fit, Neighbour
from gridwright.plan.filters import node_filters
from gridwright.units import format_rate

if TYPE_CHECKING:
    from gridwright.plan.search import Found

NEIGHBOURS = 8


def neighbours(found: Found, best: Candidate) -> tuple[Neighbour, ...]:
    """Other sizes of the cheapest design's family, and its other placements, each with why it is worse."""
    near = [*_other_places(found, best), *_other_sizes(found, best), *_other_families(found, best)]
    return tuple(near[:NEIGHBOURS])


def _dearer(candidate: Candidate, best: Candidate) -> str:
    more = candidate.usd_per_hour / best.usd_per_hour - 1
    price = f"costs {more:.1%} more" if more >= 0.0005 else "costs the same"
    spare = candidate.cores - best.cores
    cores = f", with {spare} more cores" if spare > 0 else f", with {-spare} fewer cores" if spare < 0 else ""
    return f"{price}{cores}"


def _cheapest(found: Found, keep: Callable[[Candidate], bool]) -> Candidate | None:
    fitting = [one for one in found.candidates if keep(one)]
    return min(fitting, key=lambda one: one.usd_per_hour, default=None)


def _neighbour(change: str, candidate: Candidate, best: Candidate) -> Neighbour:
    from gridwright.plan.search import title

    return Neighbour(title(candidate), change, _dearer(candidate, best), candidate.usd_per_hour)


def _other_places(found: Found, best: Candidate) -> list[Neighbour]:
    """The same nodes, with another place for data, work or util."""
    near = []
    placements = {
        tuple(one.places.values()) for one in found.candidates if one.instance.name == best.instance.name
    }
    for places in sorted(placements):
        if places == tuple(best.places.values()):
            continue
        moved = [name for name, place in zip(best.places, places, strict=True) if best.places[name] != place]
        same = [
            each
            for each in found.candidates
            if each.instance.name == best.instance.name and tuple(each.places.values()) == places
        ]
        one = min(same, key=lambda each: each.usd_per_hour, default=None)
        if one is not None:
            change = ", ".join(f"{name} on {one.places[name]}" for name in moved)
            near.append(_neighbour(change, one, best))
    return sorted(near, key=lambda each: each.usd_per_hour or math.inf)[:3]


def _other_sizes(found: Found, best: Candidate) -> list[Neighbour]:
    """The next smaller and larger types of the same family."""
    family = sorted(
        (one for one, _ in found.market.instances if one.family == best.instance.family),
        key=lambda one: (one.cores, one.name),
    )
    names = [one.name for one in family]
    at = names.index(best.instance.name)
    near = []
    for index in (at - 1, at + 1):
        if 0 <= index < len(family):
            near.append(_with_type(found, family[index], best))
    return near


def _other_families(found: Found, best: Candidate) -> list[Neighbour]:
    """The cheapest designs of the next best families."""
    seen = {best.instance.family}
    near = []
    for one in sorted(found.candidates, key=lambda each: each.usd_per_hour):
        if one.instance.family not in seen:
            seen.add(one.instance.family)
            near.append(_neighbour(f"nodes {one.instance.name}", one, best))
        if len(near) == 3:
            break
    return near


def _with_type(found: Found, instance: InstanceType, best: Candidate) -> Neighbour:
    one = _cheapest(found, lambda each: each.instance.name == instance.name)
    change = f"nodes {instance.name}"
    if one is not None:
        return _neighbour(change, one, best)
    failing = [fit for fit in fits(found, instance) if fit.fits == "no"]
    why = "; ".join(f"{fit.requirement}: {fit.provided}, {fit.required} required" for fit in failing)
    return Neighbour(change, change, why or "no placement of the libraries reaches the rates", None)


def fits(found: Found, instance: InstanceType) -> list[Fit]:
    """An instance type held against every requirement."""
    needs = found.needs
    rows = [each.fit(instance) for each in node_filters(needs)]
    price = {one.name: usd for one, usd in found.market.instances}.get(instance.name)
    region = needs.region or needs.spec.provider
    rows.append(
        Fit(
            f"price in {region}",
            "none known" if price is None else f"{price:.4g} USD/h",
            "known",
            "no" if price is None else "yes",
        )
    )
    count = math.ceil(needs.requirements.cores / instance.cores)
    rows.append(
        Fit(
            "cores",
            f"{count} x {instance.cores} = {count * instance.cores}",
            str(needs.requirements.cores),
            "yes",
        )
    )
    network = steady_network(instance) / instance.cores
    for name, need in needs.libraries.items():
        rows.append(_rate_row(f"{name} over the network, per core", network, need.bytes_per_s_per_core))
    rows.append(_rate_row("all at once over the network, per core", network, needs.rate(needs.libraries)))
    own = [name for name in needs.libraries if name != "data"]
    store = instance.instance_store
    rates = store_rates(store) if store else None
    if own and rates:
        rate = min(rates.values()) / instance.cores
        rows.append(_rate_row(f"{' and '.join(own)} on its instance store, per core", rate, needs.rate(own)))
    elif own:
        provided = "none" if store is None else "rates not known"
        rows.append(
            Fit(
                f"{' and '.join(own)} on its instance store",
                provided,
                format_rate(needs.rate(own), True),
                "open",
            )
        )
    if own and (limit := volume_limit(instance)) is not None:
        rate = limit / instance.cores
        rows.append(_rate_row(f"{' and '.join(own)} on volumes, per core", rate, needs.rate(own)))
    return rows


def _rate_row(what: str, provided: float, required: float) -> Fit:
    return Fit(
        what,
        format_rate(provided, True),
        format_rate(required, True),
        "yes" if provided >= required else "no",
    )


def explain_type(found: Found, instance: InstanceType, design: Callable[[Candidate], Design]) -> Explanation:
    """What a type provides of each requirement, and the cheapest design with it."""
    rows = tuple(fits(found, instance))
    one = _cheapest(found, lambda each: each.instance.name == instance.name)
    best = _cheapest(found, lambda _: True)
    if one is None or best is None:
        wanting = [fit.requirement for fit in rows if fit.fits == "no"]
        why = f"no grid with {instance.name} meets the requirements"
        return Explanation(instance.name, rows, None, f"{why}: {'; '.join(wanting)}" if wanting else why)
    if one.instance.name == best.instance.name:
        return Explanation(instance.name, rows, design(one), f"{instance.name} makes the cheapest grid")
    verdict = f"the cheapest grid with {instance.name} {_dearer(one, best)} than with {best.instance.name}"
    return Explanation(instance.name, rows, design(one), verdict)
