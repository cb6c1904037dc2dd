"""What a grid costs while only those of its nodes are on that always are."""

from __future__ import annotations

from collections.abc import Iterator

from gridwright.errors import Finding
from gridwright.model.grid import GridModel, grid_model
from gridwright.spec.model import GridSpec


def least_usd_per_hour(model: GridModel) -> float | None:
    """USD per hour with the nodes that are always on alone; None where all are, or a price is missing.

    Each node that is off saves what one node more would cost: its instance, and its volumes.
    """
    spec, whole = model.spec, model.usd_per_hour
    if whole is None or not spec.powered_nodes():
        return None
    for name, group in spec.nodes.items():
        off = len(group.powered_names(name))
        if off:
            other = _with_one_more(spec, name).usd_per_hour
            if other is None or model.usd_per_hour is None:
                return None
            whole -= off * (other - model.usd_per_hour)
    return whole


def powered_findings(model: GridModel) -> Iterator[Finding]:
    """What the costs of a grid are between, where nodes come and go."""
    least, most = least_usd_per_hour(model), model.usd_per_hour
    if least is not None and most is not None:
        yield Finding(
            "info",
            "nodes-come-and-go",
            f"{most:.2f} USD/h is with all {model.spec.node_count()} nodes on; while no job needs more than "
            f"those {model.spec.node_count() - len(model.spec.powered_nodes())} that are always on, it is "
            f"{least:.2f} USD/h",
            "Look at a day of yours with gridwright predict --day",
        )


def _with_one_more(spec: GridSpec, name: str) -> GridModel:
    group = spec.nodes[name]
    more = group.model_copy(update={"count": group.count + 1})
    changed = spec.model_copy(update={"nodes": {**spec.nodes, name: more}})
    return grid_model(changed)
