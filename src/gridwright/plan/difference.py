"""Why one candidate is no better than another: parts of its cost, and what forces them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gridwright.plan.candidates import Candidate, Place
from gridwright.plan.node_side import NodeSide, listed
from gridwright.units import format_bytes, format_rate

if TYPE_CHECKING:
    from gridwright.plan.search import Found

SAME = 0.0005
"""Costs that differ by less, as a part of the whole, are called the same: in print they would be."""
HOMES: dict[Place, str] = {
    "shared": "room on the shared file system",
    "scratch": "room on a shared scratch file system",
    "instance-store": "the instance store of each node",
    "volumes": "volumes at each node",
}


def difference(found: Found, one: Candidate, best: Candidate) -> str:
    """What `one` costs more than `best`, by part in USD per hour, and why, in words."""
    more = one.usd_per_hour / best.usd_per_hour - 1
    price = "costs the same" if abs(more) < SAME else f"costs {_percent(more)}"
    reasons = [*_forced(found, one, best), *_moved(found, one, best), *_nodes(found, one, best)]
    parts = ", ".join(_parts(one, best))
    text = "; ".join([f"{price}: {parts}" if parts else price, *reasons])
    gains = ", ".join(_gains(one, best))
    return f"{text}; in return {gains}" if gains else text


def _percent(more: float) -> str:
    return f"{abs(more):.1%} {'more' if more > 0 else 'less'}"


def bill(one: Candidate) -> dict[str, float]:
    """The cost of a candidate by part, in USD per hour; the parts add up to the whole."""
    storage = sum(choice.usd_per_hour for choice in (one.shared, one.scratch) if choice)
    volumes = one.volumes.usd_per_hour * one.count if one.volumes else 0.0
    return {
        "nodes": one.usd_per_hour - storage - volumes,
        "shared storage": storage,
        "volumes": volumes,
    }


def _parts(one: Candidate, best: Candidate) -> Iterator[str]:
    theirs = bill(best)
    for part, usd in bill(one).items():
        if round(usd, 2) != round(theirs[part], 2):
            unit = " USD/h" if part == "nodes" else ""
            yield f"{part} {usd:.2f} against {theirs[part]:.2f}{unit}"


def _forced(found: Found, one: Candidate, best: Candidate) -> Iterator[str]:
    """Why the libraries cannot live with these nodes as they do with the best ones."""
    if one.instance.name == best.instance.name or one.places == best.places:
        return
    obstacle = NodeSide(found.needs, found.market, one.instance).obstacle(best.places)
    if obstacle is not None:
        moved = [name for name in one.places if one.places[name] != best.places[name]]
        homes = listed(dict.fromkeys(HOMES[one.places[name]] for name in moved))
        yield f"{obstacle}, so {listed(moved)} take {homes}"


def _moved(found: Found, one: Candidate, best: Candidate) -> Iterator[str]:
    """What libraries that live elsewhere need there, and what the shared file system has to do for it."""
    moves: dict[tuple[Place, Place], list[str]] = {}
    for name, place in one.places.items():
        if best.places[name] != place:
            moves.setdefault((place, best.places[name]), []).append(name)
    for (place, before), names in moves.items():
        yield f"{HOMES[place]} for {listed(names)} in place of {HOMES[before]}"
    asked, before_asked = _asked(found, one), _asked(found, best)
    if asked != before_asked and one.shared and best.shared:
        yield f"its shared file system must bring {asked} in place of {before_asked}"
    elif one.shared and best.shared and one.shared.title != best.shared.title:
        yield f"{one.shared.title} in place of {best.shared.title}"


def _asked(found: Found, one: Candidate) -> str:
    """What a candidate asks of its shared file system."""
    names = [name for name, place in one.places.items() if place == "shared"]
    rate = found.needs.rate(names) * one.cores
    return f"{format_rate(rate)} and {format_bytes(found.needs.capacity(names))}"


def _nodes(found: Found, one: Candidate, best: Candidate) -> Iterator[str]:
    """What the nodes of another type or number cost more for."""
    if (one.instance.name, one.count) == (best.instance.name, best.count):
        return
    required = found.needs.requirements.cores
    if one.cores != best.cores:
        more = "more" if one.cores > required else "as many"
        yield f"{more} cores {'than' if more == 'more' else 'as'} required: {one.cores} for {required}"
    for_cores = NodeSide(found.needs, found.market, one.instance).nodes({})
    if one.count > for_cores:
        yield f"{one.count} nodes for the room on their instance stores, where {for_cores} have the cores"
    elif one.instance.name != best.instance.name:
        yield f"{_count(one)} in place of {_count(best)}"
    mine, theirs = _per_core(one), _per_core(best)
    if round(mine, 4) > round(theirs, 4):
        yield f"a core costs {mine:.4f} against {theirs:.4f} USD/h"
    stores = [each.instance.instance_store for each in (one, best)]
    if stores[0] and not stores[1] and "instance-store" not in one.places.values():
        yield "its instance store is paid for and not used"
    sets = [each.volumes.count * each.count if each.volumes else 0 for each in (one, best)]
    if all(sets) and sets[0] != sets[1]:
        yield f"{sets[0]} volumes in all against {sets[1]}"


def _per_core(one: Candidate) -> float:
    return bill(one)["nodes"] / one.cores


def _count(one: Candidate) -> str:
    nodes = "node" if one.count == 1 else "nodes"
    return f"{one.count} {nodes} of {one.instance.cores} cores"


def _gains(one: Candidate, best: Candidate) -> Iterator[str]:
    """What is better about a candidate, whatever it costs."""
    if one.bytes_per_s_per_core > best.bytes_per_s_per_core * 1.01:
        mine, theirs = (format_rate(each.bytes_per_s_per_core, True) for each in (one, best))
        yield f"{mine} last against {theirs}"
    if one.resilience > best.resilience:
        yield f"resilience {one.resilience} of 4 against {best.resilience}"
