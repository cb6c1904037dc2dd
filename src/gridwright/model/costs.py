"""What a grid costs beside its list price: per core, per useful hour, partly on, or bought otherwise."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gridwright.catalog.instances import PURCHASE_OPTIONS, PurchaseOption, purchase_factors
from gridwright.errors import Finding
from gridwright.filesystems.resources import Cost
from gridwright.model.grid import GridModel, grid_model, node_prices
from gridwright.model.workload_figures import WorkloadPrediction
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


@dataclass(frozen=True, slots=True)
class UsefulCost:
    """Costs in USD. `usd_per_hour` is that of the grid; None, and all with it, where a price is missing.

    A core-hour that is paid for is useful by the part CPU/real of the jobs (of their sums): the rest of it,
    the core waits. So `usd_per_useful_core_hour` is `usd_per_core_hour` / (CPU/real), with a job on every
    core. `usd_per_cpu_hour` is that of this very run: all that is paid from its first start to its last
    end, by all CPU time of its launches; cores without a job make it dearer.
    """

    usd_per_hour: float | None
    usd_per_core_hour: float | None
    usd_per_useful_core_hour: float | None
    usd_per_cpu_hour: float | None


def useful_cost(model: GridModel, workload: WorkloadPrediction) -> UsefulCost:
    """The cost of the grid by the work that its cores do in the simulated workload."""
    hourly = model.usd_per_hour
    if hourly is None:
        return UsefulCost(None, None, None, None)
    each, ratio = hourly / model.cores, workload.ratio_of_sums
    return UsefulCost(
        hourly,
        each,
        each / ratio if ratio else None,
        hourly * workload.elapsed_s / workload.cpu_s if workload.cpu_s else None,
    )


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


@dataclass(frozen=True, slots=True)
class Purchase:
    """The whole grid in USD per hour with one way to buy what can be bought so.

    `part` is that by the price on demand. `instances` are types that were counted with their factor, and
    `at_list_price` those of which the source has none, or that may not be taken away; all else (volumes,
    services) stays as it is. `interrupted` says for each spot type how often AWS took some away in a month.
    """

    option: PurchaseOption
    usd_per_hour: float
    part: float
    instances: tuple[str, ...]
    at_list_price: tuple[str, ...]
    interrupted: tuple[str, ...]
    source: str


def purchases(costs: Sequence[Cost]) -> tuple[Purchase, ...]:
    """The same bill by each way to buy that changes it; none where a price is not known."""
    found = (_bought(costs, option) for option in PURCHASE_OPTIONS)
    return tuple(each for each in found if each is not None)


def _bought(costs: Sequence[Cost], option: PurchaseOption) -> Purchase | None:
    known = purchase_factors()
    total, whole = 0.0, 0.0
    counted: dict[str, str] = {}
    left: dict[str, None] = {}
    sources: dict[str, None] = {}
    for cost in costs:
        if cost.usd_per_hour is None:
            return None
        whole += cost.usd_per_hour
        factors = known.get(cost.instance)
        factor = factors.factors.get(option) if factors else None
        if factors is None or factor is None or (option == "spot" and not cost.may_be_spot):
            total += cost.usd_per_hour
            if cost.instance:
                left[cost.instance] = None
            continue
        total += cost.usd_per_hour * factor
        counted[cost.instance] = f"{cost.instance} {factors.spot_interrupted or 'not told'}"
        sources[str(factors.source)] = None
    if not counted:
        return None
    interrupted = tuple(counted.values()) if option == "spot" else ()
    return Purchase(
        option, total, total / whole, tuple(counted), tuple(left), interrupted, "; ".join(sources)
    )
