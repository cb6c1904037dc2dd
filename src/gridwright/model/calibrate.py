"""A grid with rates that iotest measured, in place of those that the catalogue lists."""

from __future__ import annotations

from dataclasses import replace

from gridwright.errors import input_error
from gridwright.filesystems.resources import OPERATIONS, Operation, Resource, Route, Use
from gridwright.model.grid import GridModel
from gridwright.runs.directory import LoadedRun
from gridwright.runs.records import LibraryRecord
from gridwright.units import format_rate


def calibrated(model: GridModel, run: LoadedRun) -> GridModel:
    """The grid with what `run` measured on each node in place of the node's own resources.

    What serves all nodes together (servers, a managed file system) stays as listed: one node cannot
    measure it. Libraries on one file system share what was measured, and so do writes and reads.
    Raises GridwrightError where the run measured none of the grid's libraries.
    """
    found = {each.library: each for each in run.iotest.libraries} if run.iotest else {}
    measured = {
        name: rates for name in model.libraries if name in found and (rates := node_rates(found[name]))
    }
    if not measured:
        has = f"libraries {', '.join(found)}" if found else "no iotest"
        raise input_error(
            f"the run has no write or read rate of the grid's libraries: it has {has}",
            where=str(run.path),
            remedy=f"Measure {', '.join(model.spec.libraries)} with gridwright iotest, and name that run",
        )
    routes = {
        name: {**model.routes.get(name, {}), **_measured_routes(model, name, measured, run)}
        for name in model.libraries
    }
    unknown = {name: why for name, why in model.unknown.items() if len(routes[name]) < len(OPERATIONS)}
    kept = {name: each for name, each in routes.items() if name not in unknown}
    model = replace(model, routes=kept, unknown=unknown)
    if model.spec.provider != "local":
        return model
    host = run.run.host
    return replace(model, cores_per_node=host.physical_cores, memory_bytes_per_node=host.memory_bytes)


def node_rates(library: LibraryRecord) -> dict[Operation, float]:
    """What one node got of a library, in bytes/s: the best complete figure of each direction that counts."""
    rates: dict[Operation, float] = {}
    for operation in OPERATIONS:
        figures = [
            phase.per_core_bytes_per_s * library.cores
            for phase in library.phases
            if phase.op == operation
            and phase.status == "complete"
            and not phase.cached
            and phase.per_core_bytes_per_s
        ]
        if figures:
            rates[operation] = max(figures)
    return rates


def _measured_routes(
    model: GridModel, name: str, measured: dict[str, dict[Operation, float]], run: LoadedRun
) -> dict[Operation, Route]:
    """The routes of a library over what was measured of its file system."""
    filesystem = model.libraries[name].filesystem
    together = [
        rate
        for other, rates in measured.items()
        if model.libraries[other].filesystem == filesystem
        for rate in rates.values()
    ]
    routes: dict[Operation, Route] = {}
    for operation, rate in measured.get(name, {}).items():
        best = max(together)
        resource = Resource(
            f"{filesystem}.measured",
            f"what a node got of {filesystem} ({name} {operation} {format_rate(rate)})",
            "node",
            best,
            f"run {run.run.name}",
        )
        listed = model.routes.get(name, {}).get(operation)
        of_all = tuple(use for use in listed.uses if use.resource.scope == "grid") if listed else ()
        # A slower library takes more of the same disks for each byte.
        routes[operation] = Route((Use(resource, best / rate), *of_all))
    return routes
