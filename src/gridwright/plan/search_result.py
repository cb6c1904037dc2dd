"""The result of a search, and its candidates in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from gridwright.catalog import InstanceType
from gridwright.plan.candidates import LEVELS, Candidate, Market, Search
from gridwright.plan.filters import node_filters
from gridwright.plan.needs import Needs


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
