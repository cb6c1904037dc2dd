"""Explains why one candidate is no better than another: parts of its cost, and what forces them."""

from __future__ import annotations

from collections.abc import Iterator

from gridwright.plan.candidates import Candidate
from gridwright.plan.found import Found
from gridwright.plan.node_side import NodeSide, Place, listed
from gridwright.units import format_bytes, format_rate

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


def difference(found: Found, one: Candidate, best: Candidate) -> str:
    """What `one` costs more than `best`, by part in USD per hour, and why, in words."""
    more = one.usd_per_hour / best.usd_per_hour - 1
    losses, gains = list(_better(best, one)), list(_better(one, best))
    if abs(more) >= SAME:
        price = f"costs {abs(more):.1%} {'more' if more > 0 else 'less'}"
    else:
        price = "costs the same" if losses else "costs the same and is no worse"
    parts = ", ".join(_parts(one, best))
    reasons = [*_moved(found, one, best), *_nodes(found, one, best)]
    reasons += [f"{theirs} in place of {mine}" for mine, theirs in losses]
    text = "; ".join([f"{price}: {parts}" if parts else price, *reasons])
    return "; in return ".join([text, *(f"{mine} against {theirs}" for mine, theirs in gains)])


def bill(one: Candidate) -> dict[str, float]:
    """The cost of a candidate by part, in USD per hour; the parts add up to the whole."""
    storage = sum(choice.usd_per_hour for choice in (one.shared, one.scratch) if choice)
    volumes = one.volumes.usd_per_hour * one.count if one.volumes else 0.0
    return {
        "nodes": one.usd_per_hour - storage - volumes - one.cloud_usd_per_hour - one.kept_usd_per_hour,
        "shared storage": storage,
        "kept file systems": one.kept_usd_per_hour,
        "volumes": volumes,
        "what the cloud asks for beside": one.cloud_usd_per_hour,
    }


def _parts(one: Candidate, best: Candidate) -> Iterator[str]:
    theirs, unit = bill(best), " USD/h"
    for part, usd in bill(one).items():
        if f"{usd:.2f}" != f"{theirs[part]:.2f}":
            yield f"{part} {usd:.2f} against {theirs[part]:.2f}{unit}"
            unit = ""


def _moved(found: Found, one: Candidate, best: Candidate) -> Iterator[str]:
    """Why libraries live elsewhere, and what the shared file system has to do for it."""
    moves: dict[tuple[Place, Place], list[str]] = {}
    for name, place in one.places.items():
        if best.places[name] != place:
            moves.setdefault((place, best.places[name]), []).append(name)
    obstacle = (
        NodeSide(found.needs, found.market.volumes, one.instance).obstacle(best.places) if moves else None
    )
    if obstacle is not None:
        yield f"{obstacle}, so it takes {' and '.join(_moves(moves))}"
    else:
        yield from _moves(moves)
    if one.shared is None or best.shared is None:
        return
    asked, before = _asked(found, one), _asked(found, best)
    if asked != before:
        yield f"its shared file system must bring {asked} in place of {before}"
    elif one.shared.title != best.shared.title:
        yield f"{one.shared.title} in place of {best.shared.title}"


def _moves(moves: dict[tuple[Place, Place], list[str]]) -> Iterator[str]:
    for (place, before), names in moves.items():
        yield f"{HOMES[place]} for {listed(names)} in place of {HOMES[before]}"


def _asked(found: Found, one: Candidate) -> str:
    """What a candidate asks of its shared file system."""
    names = [name for name, place in one.places.items() if place == "shared"]
    rate = found.needs.rate(names) * one.cores
    return f"{format_rate(rate)} and {format_bytes(found.needs.capacity(names))}"


def _nodes(found: Found, one: Candidate, best: Candidate) -> Iterator[str]:
    """What nodes of another type or number have that costs more, and how they differ."""
    if (one.instance.name, one.count) == (best.instance.name, best.count):
        return
    required = found.needs.cores
    for_cores = NodeSide(found.needs, found.market.volumes, one.instance).nodes({})
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
