"""Pictures for all steps of a range, made of courses, so that what bound then is told as `top` tells it now.

A course has rates, as two snapshots have them together: from there on the same rows are made as of samples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gridwright.monitor.console.asked import AskedRange
from gridwright.monitor.console.laid import PRESENCE, TimeGrid, Values, grid_of, on_grid
from gridwright.monitor.frame import Frame, frame_of_seen
from gridwright.monitor.history.questions import Histories, NodeCourse, RangeQuestion
from gridwright.monitor.libraries import LibraryRow, Standing, WatchedLibrary
from gridwright.monitor.rates import Figures, Key
from gridwright.monitor.readings import LABELS, MountedPlace, NodeSamples, Snapshot
from gridwright.monitor.rows import SeenNode

METRICS = (
    PRESENCE,
    *("node_cpu_seconds_total", "node_pressure_io_waiting_seconds_total"),
    *(
        each
        for each in LABELS
        if each.startswith(("node_network_", "gridwright_network_", "node_disk_", "gridwright_disk_"))
    ),
    *(each for each in LABELS if each.startswith(("gridwright_mount_", "gridwright_group_"))),
)
"""What rows of libraries are made of."""
_MOST_READINGS = 120_000
"""Over all steps: about a second of work. With more nodes there are fewer steps."""
_FEWEST_STEPS = 12
Places = Mapping[str, Mapping[str, MountedPlace]]
"""What directories of libraries lie on: by node, and by directory."""


@dataclass(frozen=True, slots=True)
class NodeNature:
    """What a node is, beside what it does."""

    machine: str
    cpus: int
    cores: int


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


def natures_of(frame: Frame) -> dict[str, NodeNature]:
    """What nodes are, of a picture in which they are not away."""
    return {
        row.node: NodeNature(row.machine or row.node, row.cpus, row.cores)
        for row in frame.nodes
        if not row.absent
    }


def library_courses(
    histories: Histories,
    asked: AskedRange,
    libraries: Sequence[WatchedLibrary],
    natures: Mapping[str, NodeNature],
    places: Places,
) -> LibraryCourses:
    """What file systems gave the libraries on them at each step, and what bound."""
    courses = histories.courses(RangeQuestion(METRICS, asked.start_s, asked.end_s, asked.step_s))
    series = sum(len(each.series) for each in courses)
    steps = max(_FEWEST_STEPS, _MOST_READINGS // max(1, series))
    grid = grid_of(courses, asked.start_s, asked.end_s, max(asked.step_s, asked.seconds / steps))
    frames = _frames(courses, grid, natures, places, libraries)
    names = dict.fromkeys(each.filesystem for each in libraries)
    return LibraryCourses(grid, tuple(_course(name, frames, grid) for name in names))


def _course(name: str, frames: Sequence[Frame], grid: TimeGrid) -> LibraryCourse:
    rows = [next(row for row in frame.libraries if row.filesystem == name) for frame in frames]
    found = LibraryCourse(
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
            found.causes[cause] += 1
            found.first_s.setdefault(cause, grid.time(index))
            found.last_s[cause] = grid.time(index + 1)
    return found


def causes_of(row: LibraryRow) -> list[str]:
    """What bound while less was delivered than is required; alike at whatever part of its limit it was."""
    if row.standing is not Standing.BELOW:
        return []
    return [each.name for each in row.uses if each.binds] or ["cannot tell what"]


def _numbers(values: Sequence[float | None]) -> Values:
    return np.array([np.nan if each is None else each for each in values], dtype=float)


def _frames(
    courses: Sequence[NodeCourse],
    grid: TimeGrid,
    natures: Mapping[str, NodeNature],
    places: Places,
    libraries: Sequence[WatchedLibrary],
) -> list[Frame]:
    """A picture for each step."""
    laid = [
        (each, [(series, on_grid(each, series.values, grid)) for series in each.series]) for each in courses
    ]
    found = []
    for index in range(grid.count):
        seen: list[SeenNode] = []
        for course, rows in laid:
            told = {
                (series.metric, *series.labels): float(values[index])
                for series, values in rows
                if not np.isnan(values[index])
            }
            if told and course.node in natures:
                place = places.get(course.node, {})
                seen.append(_seen(course.node, told, natures[course.node], place, grid, index))
        there = {each.name for each in seen}
        asked = [
            NodeSamples(each.node, absent="" if each.node in there else "no samples") for each in courses
        ]
        found.append(frame_of_seen(asked, seen, libraries))
    return found


def _seen(
    node: str,
    told: Mapping[Key, float],
    nature: NodeNature,
    places: Mapping[str, MountedPlace],
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
        places=dict(places),
    )
    rates = {key: value for key, value in told.items() if key[0].endswith("_total")}
    gauges = {key: value for key, value in told.items() if not key[0].endswith("_total")}
    return SeenNode(node, last, grid.step_s, Figures(rates, gauges, frozenset(told)))
