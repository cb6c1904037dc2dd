"""What a grid on AWS costs by the hour: the whole grid, or what remains while no machine runs."""

from __future__ import annotations

from gridwright.model.grid import grid_model
from gridwright.providers.aws.changes import holders
from gridwright.providers.aws.cost_lines import CostLine
from gridwright.providers.aws.layout import AwsLayout, fsx_file_systems
from gridwright.spec.model import GridSpec


def bill(spec: GridSpec, layout: AwsLayout, *, running: bool) -> tuple[CostLine, ...]:
    """The bill of a grid: all of it where machines run, else that of the file systems that are kept."""
    if running:
        return tuple(CostLine(each.what, each.usd_per_hour) for each in grid_model(spec).costs)
    return tuple(line for name in sorted(kept_names(spec, layout)) for line in kept_bill(spec, name))


def kept_names(spec: GridSpec, layout: AwsLayout) -> frozenset[str]:
    """File systems that hold data and outlive machines."""
    return frozenset(holders(spec, layout).values())


def kept_bill(spec: GridSpec, name: str) -> tuple[CostLine, ...]:
    """What a file system costs while no machine runs: FSx as ever, of a Lustre its volumes alone."""
    costs = grid_model(spec).contributions[name].costs
    managed = name in fsx_file_systems(spec)
    return tuple(
        CostLine(each.what, each.usd_per_hour) for each in costs if managed or " at each " in each.what
    )
