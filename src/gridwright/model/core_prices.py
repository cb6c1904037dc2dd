"""What an hour of a core costs on the nodes of a grid, by their prices in the catalogue or the spec."""

from __future__ import annotations

import re
from collections.abc import Callable

from gridwright.model.grid import node_prices
from gridwright.spec.model import GridSpec


def core_prices(spec: GridSpec) -> Callable[[str | None], float | None] | None:
    """USD per hour of a core of a node, by the node's name: the node's price over its cores.

    It gives None for a node without a price, and for one that no group of the spec has the name of; None in
    its place where no node has a price. Storage, network and machines beside the nodes are not in it. Raises
    GridwrightError as `node_prices` does.
    """
    prices = node_prices(spec)
    if all(each is None for each in prices.values()):
        return None

    def price(node: str | None) -> float | None:
        if len(prices) == 1:
            return next(iter(prices.values()))
        group = re.sub(r"-?[0-9]+$", "", node or "")
        return prices.get(group)

    return price
