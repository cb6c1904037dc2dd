"""The limits of the model for each file system of a grid, to be held against what is measured."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gridwright.errors import GridwrightError
from gridwright.filesystems.resources import Operation, Resource
from gridwright.model.grid import GridModel, grid_model
from gridwright.model.grid_layouts import AlikeNodes
from gridwright.monitor.causes.measured import StatedLimit
from gridwright.spec.model import GridSpec


def stated_limits(spec: GridSpec) -> dict[str, tuple[StatedLimit, ...]]:
    """By file system; none of those of which nothing is known.

    Where figures of the spec are not on offer there are none at all: `check` and `predict` say why.
    """
    try:
        model = grid_model(spec)
    except GridwrightError:
        return {}
    return {
        name: tuple(each for group in model.groups for each in _of_group(model, group, name))
        for name in dict.fromkeys(library.filesystem for library in model.libraries.values())
    }


def _of_group(model: GridModel, group: AlikeNodes, filesystem: str) -> Iterator[StatedLimit]:
    """What bytes of a file system pass between its servers or disks and the nodes of a group."""
    several = len(model.groups) > 1
    names = tuple(model.spec.nodes[group.name].node_names(group.name)) if several else ()
    routes = [
        group.routes[name]
        for name, library in model.libraries.items()
        if library.filesystem == filesystem and name in group.routes
    ]
    found: dict[str, tuple[Resource, dict[Operation, float]]] = {}
    for operation, route in (each for there in routes for each in there.items()):
        for use in route.uses:
            _, taken = found.setdefault(use.resource.name, (use.resource, {}))
            taken[operation] = max(taken.get(operation, 0.0), use.coefficient)
    first = group is model.groups[0]
    for resource, taken in found.values():
        if resource.scope == "node" or first:
            yield StatedLimit(
                resource=resource.name,
                what=resource.what,
                scope=resource.scope,
                bytes_per_s=resource.bytes_per_s,
                source=resource.source,
                read=taken.get("read", 0.0),
                write=taken.get("write", 0.0),
                burst_bytes_per_s=resource.burst_bytes_per_s,
                nodes=names if resource.scope == "node" else (),
            )
    for operation, route in (each for there in routes[:1] for each in there.items()):
        if math.isfinite(route.stream_bytes_per_s):
            yield StatedLimit(
                resource=f"{filesystem}.stream-{operation}",
                what=route.stream_limit,
                scope="stream",
                bytes_per_s=route.stream_bytes_per_s,
                source="",
                read=float(operation == "read"),
                write=float(operation == "write"),
                nodes=names,
            )
