"""What an hour of useful work of a core costs: the headline beside the cost of the grid per hour."""

from __future__ import annotations

from dataclasses import dataclass

from gridwright.model.grid import GridModel
from gridwright.model.workload_figures import WorkloadPrediction


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
