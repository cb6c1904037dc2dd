"""One instance type held against every requirement, as rows, and what excludes it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from gridwright.catalog import InstanceType
from gridwright.plan.candidates import Candidate
from gridwright.plan.design import Fit, Fits
from gridwright.plan.filters import node_filters
from gridwright.plan.node_side import NodeSide, Place, listed
from gridwright.plan.search_result import SearchResult, title
from gridwright.spec.crosscheck import MAX_NODES
from gridwright.units import format_bytes, format_rate

PLACES: dict[Place, str] = {
    "shared": "over the network",
    "instance-store": "on its instance store",
    "volumes": "on volumes",
}
"""Where work and util may live, as far as a node is concerned: scratch is over the network, too."""
STORAGE_ROW = "storage for the libraries"
BUDGET_ROW = "budget for the cheapest grid with it"


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
        return Fit(STORAGE_ROW, provided, required, "yes")
    if excluded:
        return Fit(STORAGE_ROW, "not looked for", required, "open")
    return Fit(STORAGE_ROW, "nothing on sale delivers and holds it", required, "no")


def _budget_row(result: SearchResult, cheapest: Candidate | None) -> Fit:
    budget = result.needs.requirements.budget
    required = "no budget is stated"
    if budget is not None:
        required = f"at most {hourly(budget, cheapest.usd_per_hour if cheapest else None)}"
    if cheapest is None:
        return Fit(BUDGET_ROW, "no grid to cost", required, "open")
    over = budget is not None and cheapest.usd_per_hour > budget
    return Fit(BUDGET_ROW, hourly(cheapest.usd_per_hour, budget), required, "no" if over else "yes")


def hourly(usd: float, beside: float | None = None) -> str:
    """USD per hour in words, so fine that it does not look the same as what it is held against."""
    hidden = beside is not None and usd != beside and f"{usd:.2f}" == f"{beside:.2f}"
    return f"{usd:.6f} USD/h" if hidden else f"{usd:.2f} USD/h"
