"""Pictures for all steps of a range, made of courses, so that what bound then is told as `top` tells it now.

A course has rates. For each step two snapshots are made that have just these rates between them, and from
there on the same rows are made as of samples.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gridwright.monitor.console.asked import AskedRange
from gridwright.monitor.console.laid import PRESENCE, TimeGrid, Values, grid_of, on_grid
from gridwright.monitor.frame import Frame, frame_of
from gridwright.monitor.history.questions import Histories, NodeCourse, RangeQuestion
from gridwright.monitor.libraries import FULL, LibraryRow, Standing, WatchedLibrary
from gridwright.monitor.readings import MountedPlace, NodeSamples, Reading, Snapshot

METRICS = (
    *("node_cpu_seconds_total", "node_pressure_io_waiting_seconds_total", PRESENCE),
    *("node_network_receive_bytes_total", "node_network_transmit_bytes_total", "node_network_speed_bytes"),
    *("node_disk_read_bytes_total", "node_disk_written_bytes_total", "node_disk_io_time_seconds_total"),
    *("gridwright_mount_read_bytes_total", "gridwright_mount_written_bytes_total"),
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
    frames = [frame_of(samples, libraries) for samples in _samples(courses, grid, natures, places)]
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
    at_least = f"{FULL:.0%} or more"
    return [re.sub(r"\d+%", at_least, each, count=1) for each in row.binds] or ["cannot tell what"]


def _numbers(values: Sequence[float | None]) -> Values:
    return np.array([np.nan if each is None else each for each in values], dtype=float)


def _samples(
    courses: Sequence[NodeCourse], grid: TimeGrid, natures: Mapping[str, NodeNature], places: Places
) -> list[list[NodeSamples]]:
    """For each step the samples of all nodes."""
    laid = [
        (each, [(series, on_grid(each, series.values, grid)) for series in each.series]) for each in courses
    ]
    return [
        [
            _node_samples(course, rows, index, grid, natures.get(course.node), places.get(course.node, {}))
            for course, rows in laid
        ]
        for index in range(grid.count)
    ]


def _node_samples(
    course: NodeCourse,
    rows: Sequence[tuple[Any, Values]],
    index: int,
    grid: TimeGrid,
    nature: NodeNature | None,
    places: Mapping[str, MountedPlace],
) -> NodeSamples:
    known = [(series, float(values[index])) for series, values in rows if not np.isnan(values[index])]
    if not known or nature is None:
        return NodeSamples(course.node, absent=course.absent or "no samples")
    before, after = [], []
    for series, value in known:
        counter = series.metric.endswith("_total")
        before.append(Reading(series.metric, series.labels, 0.0 if counter else value, 0.0))
        after.append(
            Reading(series.metric, series.labels, value * (grid.step_s if counter else 1.0), grid.step_s)
        )

    def snapshot(readings: Sequence[Reading], at_s: float) -> Snapshot:
        return Snapshot(
            node=course.node,
            machine=nature.machine,
            time=grid.time(index) + at_s,
            at_s=at_s,
            cpus=nature.cpus,
            cores=nature.cores,
            readings=tuple(readings),
            places=dict(places),
        )

    return NodeSamples(course.node, snapshot(before, 0.0), snapshot(after, grid.step_s))
