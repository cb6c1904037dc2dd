"""What a search found, and its candidates in words."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from gridwright.catalog import InstanceType
from gridwright.plan.candidates import Candidate, Market
from gridwright.plan.needs import Needs


@dataclass
class Found:
    """Everything a search came to, before designs are made of it."""

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


def title(candidate: Candidate) -> str:
    """The candidate in one line."""
    by_place: dict[str, list[str]] = {}
    for name, place in candidate.places.items():
        by_place.setdefault(place, []).append(name)
    words = {
        "shared": candidate.shared.title if candidate.shared else "",
        "scratch": candidate.scratch.title if candidate.scratch else "",
        "instance-store": "instance store",
        "volumes": f"{candidate.volumes} at each node",
    }
    places = "; ".join(f"{'+'.join(names)} on {words[place]}" for place, names in by_place.items())
    return f"{candidate.count} x {candidate.instance.name}; {places}"


def survives(candidate: Candidate) -> str:
    """What survives, in words."""
    if candidate.shared is None:
        data = "no library on shared storage"
    elif candidate.shared.durable:
        data = "data outlive a server" + (", which is replaced" if candidate.shared.managed else "")
    else:
        data = "data are lost with a server"
    lost = [name for name, place in candidate.places.items() if place == "instance-store"]
    return f"{data}; {' and '.join(lost)} lost with a node" if lost else f"{data}; nothing lost with a node"
