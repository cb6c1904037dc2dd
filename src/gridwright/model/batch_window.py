"""A batch window, the jobs of a night, on a grid that may not exist: its end, and a lower bound of that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from math import inf

from gridwright.filesystems.resources import Operation, Route
from gridwright.model.grid import GridModel
from gridwright.model.workload import (
    AS_RECORDED,
    Replay,
    Variants,
    WorkloadEnds,
    WorkloadMatrix,
    simulate_workload,
)
from gridwright.model.workload_figures import LaunchPrediction, WorkloadPrediction
from gridwright.runs.profiles import PhaseProfile, Profiles

CORE_BYTES_PER_S = 150e6
"""The most that papers 002 and 4632-2020 say that a core of SAS asks of a library: 100 to 150 MB/s."""

Amounts = dict[tuple[str, Operation], float]
"""Bytes by library and operation."""


@dataclass(frozen=True, slots=True)
class _Work:
    """A phase: core seconds, threads that it computes with, and bytes."""

    cpu_s: float
    threads: float
    moved: Amounts


@dataclass(frozen=True)
class BatchWindow:
    """The jobs of a night; `where` names their profiles in errors.

    Simulations of it are exact (tolerance 0), so that the same grid always ends at the same time.
    """

    matrix: WorkloadMatrix
    profiles: Profiles
    replay: Replay = AS_RECORDED
    where: str = "requirements.jobs"

    @property
    def jobs(self) -> int:
        """Launches of all streams; where each node runs every stream, those of one node."""
        return sum(map(len, self.matrix.streams))

    @property
    def most_nodes(self) -> float:
        """More nodes than these find no job."""
        return float("inf") if self.matrix.every_node else float(len(self.matrix.streams))

    @property
    def most_cores(self) -> float:
        """More cores than these in all find no job: each stream has its threads at most."""
        if self.matrix.every_node:
            return float("inf")
        most = (max(phase.threads for phase in self._phases((stream,))) for stream in self.matrix.streams)
        return float(sum(most))

    @property
    def floor_s(self) -> float:
        """Seconds below which the night cannot end on any grid: the longest stream, only computing."""
        spread = self.replay.spread
        return (1.0 - spread) * max(
            sum(self._cpu_s(phase) / phase.threads for phase in self._phases((stream,)))
            for stream in self.matrix.streams
        )

    @cached_property
    def cpu_s(self) -> float:
        """Core seconds of all streams; where each node runs every stream, those of one node."""
        return sum(self._cpu_s(phase) for phase in self._phases(self.matrix.streams))

    @cached_property
    def least_cpu_s(self) -> float:
        """The same of launches that do as much less than their profiles as they may, by the spread."""
        return self.cpu_s * (1.0 - self.replay.spread)

    @cached_property
    def moved_bytes(self) -> dict[str, float]:
        """What these jobs read and write of each library."""
        found: dict[str, float] = {}
        for (library, _), size in self._bytes(self.matrix.streams).items():
            found[library] = found.get(library, 0.0) + size
        return found

    def bytes_per_core_s(self) -> dict[str, float]:
        """What jobs read and write of each library in a second in which a core computes without a pause.

        Of jobs that hardly compute it is CORE_BYTES_PER_S.
        """
        cpu_s, most = self.cpu_s, CORE_BYTES_PER_S
        moved = self.moved_bytes.items()
        return {name: min(size / cpu_s, most) if cpu_s > 0 else most for name, size in moved if size}

    def run_on(self, grid: GridModel) -> WorkloadPrediction:
        """Simulate the night. Raises GridwrightError as `simulate_workload` does."""
        exact = replace(self.replay, tolerance=0.0)
        return simulate_workload(
            grid, self.matrix, self.profiles, exact, where=self.where, variants=self._variants
        )

    def end_s(self, grid: GridModel, until_s: float = inf) -> tuple[float | None, int]:
        """When the night ends, as `run_on` has it, and how many activities ended until that was known.

        None where it ends after `until_s`. Raises GridwrightError as `simulate_workload` does.
        """
        return self._ends.end_s(grid, until_s)

    @cached_property
    def _ends(self) -> WorkloadEnds:
        return WorkloadEnds(self.matrix, self.profiles, self.replay, self.where, self._variants)

    @cached_property
    def _variants(self) -> Variants:
        return {}

    def least_s(self, grid: GridModel) -> float:
        """Seconds below which the night cannot end there: each resource busy without a pause.

        The larger of two: the longest stream with every resource to itself, and all work of a node, or
        of the grid, over the capacity that it shares. Steady rates say so much; jobs that overlap
        unevenly end later. A launch may do less than its profile, by the spread; the bound allows for it.
        """
        nodes = grid.nodes if self.matrix.every_node else min(grid.nodes, len(self.matrix.streams))
        each_s = {test: sum(_alone_s(work, grid) for work in several) for test, several in self._work.items()}
        alone = max(sum(each_s[test] for test in stream) for stream in self.matrix.streams)
        shared = max(self._node_s(grid, node, nodes) for node in range(min(nodes, len(self.matrix.streams))))
        repeats = nodes if self.matrix.every_node else 1
        together = self._busiest_s(grid, self._bytes(self.matrix.streams), "grid", repeats)
        return max(alone, shared, together) * (1.0 - self.replay.spread)

    def _node_s(self, grid: GridModel, node: int, nodes: int) -> float:
        streams = self.matrix.streams if self.matrix.every_node else self.matrix.streams[node::nodes]
        cpu = sum(work.cpu_s for stream in streams for test in stream for work in self._work[test])
        return max(cpu / grid.alike.cores_per_node, self._busiest_s(grid, self._bytes(streams), "node", 1))

    @cached_property
    def _work(self) -> dict[str, list[_Work]]:
        """What each test does, phase by phase."""
        return {
            test: [
                _Work(self._cpu_s(phase), phase.threads, self._moved(phase))
                for phase in self.profiles.profiles[test].phases
            ]
            for test in {test for stream in self.matrix.streams for test in stream}
        }

    def _phases(self, streams: Sequence[Sequence[str]]) -> list[PhaseProfile]:
        known = self.profiles.profiles
        return [phase for stream in streams for test in stream for phase in known[test].phases]

    def _bytes(self, streams: Sequence[Sequence[str]]) -> Amounts:
        amounts: Amounts = {}
        for stream in streams:
            for test in stream:
                for way, size in self._moved_by_test[test].items():
                    amounts[way] = amounts.get(way, 0.0) + size
        return amounts

    @cached_property
    def _moved_by_test(self) -> dict[str, Amounts]:
        found: dict[str, Amounts] = {}
        for test, several in self._work.items():
            amounts = found.setdefault(test, {})
            for work in several:
                for way, size in work.moved.items():
                    amounts[way] = amounts.get(way, 0.0) + size
        return found

    @staticmethod
    def _busiest_s(grid: GridModel, amounts: Amounts, scope: str, repeats: int) -> float:
        """Seconds that the busiest resource of a scope needs for these bytes, each moved `repeats` times."""
        used: dict[str, float] = {}
        for (library, operation), size in amounts.items():
            route = grid.alike.routes.get(library, {}).get(operation)
            for use in route.uses if route is not None else ():
                if (use.resource.scope == "node") == (scope == "node"):
                    seconds = repeats * size * use.coefficient / use.resource.bytes_per_s
                    used[use.resource.name] = used.get(use.resource.name, 0.0) + seconds
        return max(used.values(), default=0.0)

    def _cpu_s(self, phase: PhaseProfile) -> float:
        return phase.cpu_s * self._factor(phase) / self.replay.cpu_speed

    def _moved(self, phase: PhaseProfile) -> Amounts:
        """Bytes that a phase moves to and from file systems; what the page cache serves is not among them."""
        cached = phase.cached_bytes if self.replay.page_cache == "profile" else None
        factor = self._factor(phase)
        amounts: Amounts = {}
        for library, size in phase.read_bytes.items():
            amounts[library, "read"] = (size - min(size, (cached or {}).get(library, 0))) * factor
        for library, size in phase.written_bytes.items():
            amounts[library, "write"] = size * factor
        return amounts

    def _factor(self, phase: PhaseProfile) -> float:
        return 1.0 if phase.fixed else self._scaled

    @cached_property
    def _scaled(self) -> float:
        return self.profiles.scaled_by(self.replay.scale, where=self.where)


@dataclass(frozen=True, slots=True)
class CriticalJob:
    """Jobs of one test that follow each other on the critical path. Times in seconds since the start.

    `waits` has the seconds by cause, the longest first: `cpu` computing, `core` computing with fewer
    cores than it could use, or a library and operation.
    """

    test: str
    count: int
    start_s: float
    end_s: float
    waits: dict[str, float]


def critical_path(prediction: WorkloadPrediction) -> tuple[CriticalJob, ...]:
    """The chain of jobs that determines the end: those of the stream that ends last, in their order.

    Each begins where the one before it ends, so their waits add up to the whole night.
    """
    last = max(prediction.launches, key=lambda each: each.end_s).stream
    chain = [launch for launch in prediction.launches if launch.stream == last]
    return tuple(_critical(test, list(same)) for test, same in groupby(chain, key=lambda each: each.test))


def _critical(test: str, launches: list[LaunchPrediction]) -> CriticalJob:
    waits: dict[str, float] = {}
    for launch in launches:
        for cause, share in launch.shares.items():
            waits[cause] = waits.get(cause, 0.0) + share * launch.real_s
    ordered = dict(sorted(waits.items(), key=lambda item: -item[1]))
    return CriticalJob(test, len(launches), launches[0].start_s, launches[-1].end_s, ordered)


def _alone_s(work: _Work, grid: GridModel) -> float:
    """A phase with the whole grid to itself: its slowest activity alone."""
    found = work.cpu_s / min(work.threads, grid.alike.cores_per_node)
    for (library, operation), size in work.moved.items():
        route = grid.alike.routes.get(library, {}).get(operation)
        if route is not None:
            found = max(found, size / _alone_bytes_per_s(route))
    return found


def _alone_bytes_per_s(route: Route) -> float:
    """The rate of one activity that has everything on its way to itself."""
    ways = [use.resource.bytes_per_s / use.coefficient for use in route.uses if use.coefficient > 0.0]
    return min([route.stream_bytes_per_s, *ways])
