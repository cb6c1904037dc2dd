"""What limits a managed file system that moves files itself, without any node."""

from __future__ import annotations

from gridwright.errors import GridwrightError
from gridwright.filesystems.resources import OPERATIONS, Operation, Use
from gridwright.model.grid import GridModel
from gridwright.model.node_alone import NodeLimit
from gridwright.spec.locate import problem_at
from gridwright.units import format_rate


def limits_of_service(model: GridModel, filesystem: str) -> dict[Operation, list[NodeLimit]]:
    """What lasts of a file system while the grid is idle, in bytes per second; bursts are only named.

    Raises GridwrightError for a file system of which nothing is known.
    """
    contribution = model.contributions[filesystem]
    if contribution.unknown or not contribution.routes:
        raise GridwrightError(
            problem_at(
                model.spec,
                ("filesystems", filesystem),
                f"rates of {filesystem} cannot be predicted: {contribution.unknown or 'none is on file'}",
                "Write a capacity and a throughput that are on offer",
            )
        )
    return {
        operation: [
            NodeLimit(_what(use), use.resource.bytes_per_s / use.coefficient, use.resource.source)
            for use in contribution.routes[operation].uses
            if use.resource.scope == "grid"
        ]
        for operation in OPERATIONS
    }


def _what(use: Use) -> str:
    burst = use.resource.burst_bytes_per_s
    if burst is None:
        return use.resource.what
    return f"{use.resource.what}, without bursts of up to {format_rate(burst / use.coefficient)}"
