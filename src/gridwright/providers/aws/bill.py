"""What a grid on AWS costs by the hour: the whole grid, or what remains while no machine runs."""

from __future__ import annotations

from gridwright.catalog import load_catalog
from gridwright.model import powered
from gridwright.model.grid import grid_model
from gridwright.providers.aws.changes import holders
from gridwright.providers.aws.cost_lines import CostLine
from gridwright.providers.aws.costs import costs_while_stopped
from gridwright.providers.aws.layout import AwsLayout, Role, fsx_file_systems
from gridwright.spec.model import GridSpec


def bill(spec: GridSpec, layout: AwsLayout, *, running: bool) -> tuple[CostLine, ...]:
    """The bill of a grid: all of it where machines run, else that of the file systems that are kept."""
    if running:
        return tuple(CostLine(each.what, each.usd_per_hour) for each in grid_model(spec).costs)
    names = sorted(retained_file_systems(spec, layout))
    return tuple(line for name in names for line in retained_costs(spec, name))


def least_usd_per_hour(spec: GridSpec) -> float | None:
    """What the whole grid costs with the nodes alone that are always on; None where all are."""
    return powered.least_usd_per_hour(grid_model(spec)) if spec.powered_nodes() else None


def retained_file_systems(spec: GridSpec, layout: AwsLayout) -> frozenset[str]:
    """File systems that hold data and outlive machines."""
    return frozenset(holders(spec, layout).values())


def retained_costs(spec: GridSpec, name: str) -> tuple[CostLine, ...]:
    """Costs of a file system while no machine runs: FSx as ever, of a Lustre its volumes alone."""
    costs = grid_model(spec).contributions[name].costs
    managed = name in fsx_file_systems(spec)
    return tuple(
        CostLine(each.what, each.usd_per_hour) for each in costs if managed or " at each " in each.what
    )


def stopped_bill(spec: GridSpec, layout: AwsLayout) -> tuple[CostLine, ...]:
    """The bill of a grid that is stopped: file systems, disks of machines that are kept, and the network."""
    catalog = load_catalog(spec.file.parent if spec.file else None)
    # Machines beside the nodes have lines of their own.
    retained_machines = [
        each for each in layout.machines if not each.replaced and each.role is not Role.MACHINE
    ]
    plain_nodes = [each for each in retained_machines if each.role is Role.COMPUTE]
    nodes = (
        CostLine(each.what, each.usd_per_hour)
        for name, filesystem in spec.filesystems.items()
        if plain_nodes and filesystem.node_disks is not None
        for each in grid_model(spec).contributions[name].costs
    )
    beside = costs_while_stopped(spec, catalog, len(retained_machines))
    return (
        *bill(spec, layout, running=False),
        *nodes,
        *(CostLine(each.what, each.usd_per_hour) for each in beside),
    )
