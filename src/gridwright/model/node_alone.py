"""What limits one mover of a library's files: a node while others are idle, or the file system itself."""

from __future__ import annotations

from dataclasses import dataclass

from gridwright.errors import GridwrightError
from gridwright.filesystems.resources import OPERATIONS, Operation, Use
from gridwright.filesystems.site import ComputeNodes
from gridwright.model.grid import GridModel
from gridwright.model.pricing_provider import pricing_provider
from gridwright.spec.load import problem_at
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


@dataclass(frozen=True, slots=True)
class NodeLimit:
    """Something that every byte passes, what it lets through in bytes per second, and where that stands."""

    what: str
    bytes_per_s: float
    source: str


def limits_of_one_node(model: GridModel, library: str) -> dict[Operation, list[NodeLimit]]:
    """Limits of a node of the first group, with the way between it and what is outside of the grid.

    What is read of the library leaves through the network of the node, and the other way round. Raises
    GridwrightError for a library of which nothing is known.
    """
    if library in model.unknown:
        filesystem = model.libraries[library].filesystem
        raise GridwrightError(
            problem_at(
                model.spec,
                ("filesystems", filesystem),
                f"rates on {filesystem} ({library}) cannot be predicted: {model.unknown[library]}",
                "Measure it with gridwright iotest, and name the run with --calibrate",
            )
        )
    group = model.groups[0]
    network = pricing_provider(model.spec).node_network(model.spec)
    node = ComputeNodes(
        1, group.cores_per_node, None, group.instance, None if group.instance is not None else network
    )
    outside: dict[Operation, Operation] = {"read": "write", "write": "read"}
    return {
        operation: [
            NodeLimit(use.resource.what, use.resource.bytes_per_s / use.coefficient, use.resource.source)
            for use in (*group.routes[library][operation].uses, *node.network(outside[operation]))
        ]
        for operation in OPERATIONS
    }
