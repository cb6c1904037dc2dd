"""A grid with rates that iotest measured, in place of those that the catalogue lists."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

from gridwright.errors import input_error
from gridwright.filesystems.resources import OPERATIONS, Operation, Resource, Route, Use
from gridwright.model.grid import GridModel
from gridwright.runs.directory import LoadedRun
from gridwright.runs.phase_record import PhaseRecord
from gridwright.runs.records import LibraryRecord
from gridwright.units import format_rate


def calibrated(model: GridModel, run: LoadedRun) -> GridModel:
    """The grid with what `run` measured on each node in place of the node's own resources.

    What serves all nodes together (servers, a managed file system) stays as listed: one node cannot
    measure it. Libraries on one file system share what was measured.
    Raises GridwrightError where the run measured none of the grid's libraries, and for a grid with several
    groups of nodes: what a run says of a node is the mean of all.
    """
    if len(model.groups) > 1:
        raise input_error(
            "a run has one figure for all nodes, and this grid has several groups of them",
            where="nodes",
            remedy="keep one group of nodes in a copy of the spec, and measure that group alone",
        )
    group = model.alike
    found = {record.library: record for record in _records(run)}
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
        name: {**group.routes.get(name, {}), **_measured_routes(model, name, measured, run)}
        for name in model.libraries
    }
    unknown = {name: why for name, why in model.unknown.items() if len(routes[name]) < len(OPERATIONS)}
    kept = {name: route for name, route in routes.items() if name not in unknown}
    group = replace(group, routes=kept)
    if not model.spec.is_cloud:
        host = run.run.host
        group = replace(group, cores_per_node=host.physical_cores, memory_bytes_per_node=host.memory_bytes)
    return replace(model, groups=(group,), unknown=unknown)


def node_rates(library: LibraryRecord) -> dict[Operation, float]:
    """What one node got of a library, in bytes/s: the best complete figure, of repeats the median."""
    return {
        operation: (median(rates) if library.repeats else max(rates)) * library.cores
        for operation in OPERATIONS
        if (
            rates := [
                record.per_core_bytes_per_s
                for record in _counting(library, operation)
                if record.per_core_bytes_per_s
            ]
        )
    }


def _counting(library: LibraryRecord, op: str) -> list[PhaseRecord]:
    """The phases of one kind that ended and did not come from a cache."""
    return [
        phase
        for phase in library.phases
        if phase.op == op and phase.status == "complete" and not phase.cached
    ]


def _both_at_once(library: LibraryRecord) -> float:
    """What one node wrote and read together in the phase `mixed`, in bytes/s; 0 without one."""
    found = [
        (phase.read_bytes_per_s or 0.0) + (phase.write_bytes_per_s or 0.0)
        for phase in _counting(library, "mixed")
    ]
    if library.repeats and found:
        return median(found) / library.nodes
    return max(found, default=0.0) / library.nodes


def _measured_routes(
    model: GridModel, name: str, measured: dict[str, dict[Operation, float]], run: LoadedRun
) -> dict[Operation, Route]:
    """The routes of a library over what was measured of its file system.

    A phase `mixed` tells what both directions get together; without one they are taken to share what
    the better of them got.
    """
    filesystem = model.libraries[name].filesystem
    there = {
        other: rates for other, rates in measured.items() if model.libraries[other].filesystem == filesystem
    }
    both = max(_both_at_once(record) for record in _records(run) if record.library in there)
    best = max(rate for rates in there.values() for rate in rates.values())
    source = f"run {run.run.name}"
    routes: dict[Operation, Route] = {}
    for operation, rate in measured.get(name, {}).items():
        what = f"what a node got of {filesystem} ({name} {operation} {format_rate(rate)})"
        one_way = max(rates.get(operation, 0.0) for rates in there.values())
        # A slower library takes more of the same disks for each byte.
        uses = [
            Use(Resource(f"{filesystem}.measured-{operation}", what, "node", one_way, source), one_way / rate)
        ]
        total = max(both, best)
        what = f"what a node got of {filesystem} in both directions ({format_rate(total)})"
        shared = Resource(f"{filesystem}.measured", what, "node", total, source)
        uses.append(Use(shared, 1.0 if both else total / rate))
        listed = model.alike.routes.get(name, {}).get(operation)
        of_all = tuple(use for use in listed.uses if use.resource.scope == "grid") if listed else ()
        routes[operation] = Route((*uses, *of_all))
    return routes


def _records(run: LoadedRun) -> list[LibraryRecord]:
    return run.iotest.libraries if run.iotest else []
