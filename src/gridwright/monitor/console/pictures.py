"""Pictures for all steps of a range, made of courses, so that what bound then is told as `top` tells it now.

A course has rates, as two snapshots have them together: from there on the same rows are made as of samples.
What nodes are, then and now, is beside them: their machine, and what libraries lie on.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gridwright.monitor.causes.explaining import is_slow
from gridwright.monitor.console.queries import (
    PRESENCE,
    RangeQuery,
    TimeGrid,
    Values,
    grid_of,
    on_grid,
    step_of,
)
from gridwright.monitor.frame import Frame
from gridwright.monitor.history.questions import Histories, NodeCourse, RangeQuestion, SeriesCourse
from gridwright.monitor.libraries import LibraryRow, Standing, WatchedLibrary, library_rows
from gridwright.monitor.readings import LABELS, Figures, Key, MountedPlace, NodeSamples, Snapshot
from gridwright.monitor.rows import SeenNode, disk_rows, node_rows

METRICS = (
    PRESENCE,
    *("node_cpu_seconds_total", "node_pressure_io_waiting_seconds_total"),
    *(
        label
        for label in LABELS
        if label.startswith(("node_network_", "gridwright_network_", "node_disk_", "gridwright_disk_"))
    ),
    *(label for label in LABELS if label.startswith(("gridwright_mount_", "gridwright_group_"))),
)
"""What rows of libraries are made of."""
_MOST_READINGS = 120_000
"""Over all steps: about a second of work. With more nodes there are fewer steps."""
_FEWEST_STEPS = 12
_FRESH = 3
"""Steps at the end that may not be whole yet."""
REMEMBERED_S = 300.0
_MOST_REMEMBERED = 5000


@dataclass(frozen=True, slots=True)
class LibraryCourse:
    """A file system's libraries over time. Rates in bytes per second; NaN is what is not known."""

    filesystem: str
    libraries: tuple[str, ...]
    required_per_core: float | None
    read: Values
    written: Values
    per_core: Values
    standings: tuple[Standing, ...]
    causes: Counter[str] = field(default_factory=Counter)
    """What bound, with the number of steps."""
    first_s: dict[str, float] = field(default_factory=dict)
    last_s: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LibraryCourses:
    """All of them, on one grid."""

    grid: TimeGrid
    courses: tuple[LibraryCourse, ...]


Rows = tuple[LibraryRow, ...]


@dataclass(slots=True)
class StepMemory:
    """Rows of steps that are over, for a while: a page that asks again gets the last steps anew alone.

    For no longer, since a node that was away may tell later what it did.
    """

    clock: Callable[[], float] = time.monotonic
    _rows: dict[tuple[float, float], tuple[float, Rows]] = field(default_factory=dict)

    def get(self, step_s: float, start_s: float) -> Rows | None:
        """The rows of a step, by its width and its begin; None where they have to be made."""
        known = self._rows.get((step_s, start_s))
        return known[1] if known is not None and self.clock() - known[0] < REMEMBERED_S else None

    def remember(self, step_s: float, start_s: float, rows: Rows) -> None:
        """Remember them, without what has room: there is some of that for each node."""
        if len(self._rows) >= _MOST_REMEMBERED:
            self._rows = {}
        slim = tuple(replace(row, uses=tuple(use for use in row.uses if use.binds)) for row in rows)
        self._rows[step_s, start_s] = self.clock(), slim


def library_courses(
    histories: Histories,
    query: RangeQuery,
    libraries: Sequence[WatchedLibrary],
    inventory: Mapping[str, InventoryNode],
    memory: StepMemory,
) -> LibraryCourses:
    """What file systems gave the libraries on them at each step, and what bound."""
    courses = histories.courses(RangeQuestion(METRICS, query.start_s, query.end_s, query.step_s))
    series = sum(len(course.series) for course in courses)
    steps = max(_FEWEST_STEPS, _MOST_READINGS // max(1, series))
    grid = grid_of(courses, query.start_s, query.end_s, max(query.step_s, step_of(query.seconds, steps)))
    rows = _rows_of(courses, grid, inventory, libraries, memory)
    names = dict.fromkeys(library.filesystem for library in libraries)
    return LibraryCourses(grid, tuple(_course(name, rows, grid) for name in names))


def _course(name: str, steps: Sequence[Rows], grid: TimeGrid) -> LibraryCourse:
    rows = [next(row for row in step if row.filesystem == name) for step in steps]
    course = LibraryCourse(
        filesystem=name,
        libraries=rows[0].libraries,
        required_per_core=rows[0].required_per_core,
        read=_numbers([row.read_bytes_per_s for row in rows]),
        written=_numbers([row.written_bytes_per_s for row in rows]),
        per_core=_numbers([row.per_core for row in rows]),
        standings=tuple(row.standing for row in rows),
    )
    for index, row in enumerate(rows):
        for cause in causes_of(row):
            course.causes[cause] += 1
            course.first_s.setdefault(cause, grid.time(index))
            course.last_s[cause] = grid.time(index + 1)
    return course


def causes_of(row: LibraryRow) -> list[str]:
    """What bound while it was slow; alike at whatever part of its limit it was."""
    if not is_slow(row):
        return []
    return [use.name for use in row.uses if use.binds] or ["cannot tell what"]


def _numbers(values: Sequence[float | None]) -> Values:
    return np.array([np.nan if value is None else value for value in values], dtype=float)


def _rows_of(
    courses: Sequence[NodeCourse],
    grid: TimeGrid,
    inventory: Mapping[str, InventoryNode],
    libraries: Sequence[WatchedLibrary],
    memory: StepMemory,
) -> list[Rows]:
    """The rows of each step."""
    laid = [
        (course, [(series, on_grid(course, series.values, grid, series.metric)) for series in course.series])
        for course in courses
    ]
    found = []
    for index in range(grid.count):
        rows = memory.get(grid.step_s, grid.time(index))
        if rows is None:
            rows = _rows(laid, index, grid, inventory, libraries)
            if index < grid.count - _FRESH:
                memory.remember(grid.step_s, grid.time(index), rows)
        found.append(rows)
    return found


def _rows(
    laid: Sequence[tuple[NodeCourse, Sequence[tuple[SeriesCourse, Values]]]],
    index: int,
    grid: TimeGrid,
    inventory: Mapping[str, InventoryNode],
    libraries: Sequence[WatchedLibrary],
) -> Rows:
    """The rows of one step, as `frame_of_seen` makes them, without the other tables."""
    seen: list[SeenNode] = []
    for course, lines in laid:
        told = {
            (series.metric, *series.labels): float(values[index])
            for series, values in lines
            if not np.isnan(values[index])
        }
        if told and course.node in inventory:
            seen.append(_seen(course.node, told, inventory[course.node], grid, index))
    there = {node.name for node in seen}
    samples = [
        NodeSamples(course.node, absent="" if course.node in there else "no samples") for course, _ in laid
    ]
    return tuple(library_rows(libraries, seen, node_rows(samples, seen), disk_rows(seen)))


def _seen(
    node: str,
    told: Mapping[Key, float],
    nature: InventoryNode,
    grid: TimeGrid,
    index: int,
) -> SeenNode:
    """A node as it was in a step."""
    last = Snapshot(
        node=node,
        machine=nature.machine,
        time=grid.time(index + 1),
        at_s=grid.time(index + 1),
        cpus=nature.cpus,
        cores=nature.cores,
        readings=(),
        places=dict(nature.places),
    )
    rates = {key: value for key, value in told.items() if key[0].endswith("_total")}
    gauges = {key: value for key, value in told.items() if not key[0].endswith("_total")}
    return SeenNode(node, last, grid.step_s, Figures(rates, gauges, frozenset(told)))


RECENT_S = 600.0
"""What was known this long ago still holds: mounts are seldom changed."""
_MOST_INVENTORIES = 50


@dataclass(frozen=True, slots=True)
class InventoryNode:
    """A node as a picture had it."""

    machine: str
    cpus: int
    cores: int
    places: Mapping[str, MountedPlace]
    """What directories of libraries lie on."""
    at_s: float
    """The time of that picture, in seconds since 1970."""


def inventory_of(frame: Frame) -> dict[str, InventoryNode]:
    """What nodes are, of a picture in which they are not away."""
    return {
        row.node: InventoryNode(
            row.machine or row.node, row.cpus, row.cores, frame.places.get(row.node, {}), frame.time
        )
        for row in frame.nodes
        if not row.absent
    }


@dataclass(slots=True)
class NodeInventory:
    """Remembers what nodes are, as pictures show it. Any thread may ask."""

    picture: Callable[[float], Frame]
    """The picture of a time, in seconds since 1970."""
    reach: Callable[[], tuple[float, float] | None]
    _now: dict[str, InventoryNode] = field(default_factory=dict)
    _then: dict[float, dict[str, InventoryNode]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def learn(self, frame: Frame) -> None:
        """Take over what a picture shows, unless a later one has shown it: people look back, too."""
        with self._lock:
            for name, node in inventory_of(frame).items():
                if name not in self._now or self._now[name].at_s <= node.at_s:
                    self._now[name] = node

    def at(self, time_s: float) -> Mapping[str, InventoryNode]:
        """What nodes were at a time, those that were away then as they are known else."""
        with self._lock:
            known = dict(self._now)
        if not known:
            reach = self.reach()
            if reach is None:
                return {}
            self.learn(self.picture(reach[1]))
            with self._lock:
                known = dict(self._now)
        if not known or time_s >= max(each.at_s for each in known.values()) - RECENT_S:
            return known
        return known | self._at(time_s // RECENT_S * RECENT_S)

    def _at(self, time_s: float) -> dict[str, InventoryNode]:
        with self._lock:
            nodes = self._then.get(time_s)
        if nodes is None:
            nodes = inventory_of(self.picture(time_s))
            with self._lock:
                if len(self._then) >= _MOST_INVENTORIES:
                    self._then.clear()
                self._then[time_s] = nodes
        return nodes
