"""Answers to what the page asks: plain values, bounded in size whatever the grid is."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

import gridwright
from gridwright.errors import environment_error, input_error
from gridwright.monitor.console.asked import AskedPicture, AskedRange, AskedSeries
from gridwright.monitor.console.health import health_of
from gridwright.monitor.console.laid import (
    LaidSeries,
    TimeGrid,
    document,
    grid_of,
    laid,
    on_grid,
    plain,
    question_of,
)
from gridwright.monitor.console.marks import plain_marks
from gridwright.monitor.console.natures import NodeNatures
from gridwright.monitor.console.picture_tables import MOST_CAUSES, MOST_ROWS, library_now, tables_of
from gridwright.monitor.console.pictures import (
    LibraryCourse,
    StepMemory,
    library_courses,
)
from gridwright.monitor.console.space import balance_of, outlook_of, rooms_of
from gridwright.monitor.console.viewers import Viewer, facts_of, seen_by
from gridwright.monitor.console.watching import OpenFinding, Watching, by_job
from gridwright.monitor.frame import Frame
from gridwright.monitor.history.questions import NodeCourse, RangeQuestion
from gridwright.monitor.served_rows import filesystem_of
from gridwright.monitor.views import notes

MOST_NOTES = 50
_NATURE_S = 60.0


@dataclass(slots=True)
class Answers:
    """Answers of one console. Threads may use it at the same time."""

    watching: Watching
    _natures: NodeNatures = field(init=False)
    _steps: StepMemory = field(default_factory=StepMemory)
    _explaining: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """Know nothing of nodes yet."""
        histories = self.watching.histories
        self._natures = NodeNatures(lambda at_s: histories.frame(at_s, _NATURE_S), histories.reach)

    def about(self, viewer: Viewer) -> dict[str, Any]:
        """What is shown, since when there is a history, and who looks."""
        reach = self.watching.histories.reach()
        return {
            "name": self.watching.name,
            "isMachine": self.watching.is_machine,
            "version": gridwright.__version__,
            "now": self.watching.clock(),
            "refresh": self.watching.refresh_s,
            "reach": None if reach is None else list(reach),
            "nodes": self.watching.histories.nodes()[:MOST_ROWS],
            "libraries": [
                {
                    "name": each.name,
                    "filesystem": each.filesystem,
                    "directory": each.directory,
                    "required": each.required,
                }
                for each in self.watching.libraries
            ],
            "user": viewer.user,
            "isAdministrator": viewer.is_administrator,
            "explains": viewer.is_administrator and self.watching.explain is not None,
            "cost": asdict(self.watching.cost),
        }

    def picture(self, asked: AskedPicture, viewer: Viewer) -> dict[str, Any]:
        """All tables at one time, the health line, and what a reader has to know of the figures."""
        now = self.watching.clock()
        at = now if asked.at_s is None else min(asked.at_s, now)
        frame = self.watching.histories.frame(at, asked.seconds, self.watching.libraries)
        if asked.at_s is None:
            frame = _with_reasons(frame, self.watching.absences())
        self._natures.learn(frame)
        health = health_of(frame, now if asked.at_s is None else None)
        told = by_job(self.watching.jobs())
        facts = by_job(seen_by(viewer, facts_of(frame.jobs, told)))
        return {
            "time": frame.time,
            "asked": at,
            "seconds": frame.seconds,
            "age": max(0.0, now - frame.time) if frame.time else None,
            "health": asdict(health),
            "tables": tables_of(frame, told, viewer),
            "libraries": [library_now(row) for row in frame.libraries[:MOST_ROWS]],
            "away": {row.node: row.absent for row in frame.nodes if row.absent},
            # Who is away is in the health line.
            "notes": [each for each in notes(frame) if " is away: " not in each][:MOST_NOTES],
            "findings": [asdict(each) for each in self._findings(asked)],
            "jobNodes": {row.job: list(row.nodes[:MOST_ROWS]) for row in frame.jobs},
            "jobs": {name: asdict(each) for name, each in facts.items()},
        }

    def _findings(self, asked: AskedPicture) -> Sequence[OpenFinding]:
        """What is wrong now; of another time the marks tell."""
        return () if asked.at_s is not None else self.watching.findings()[:MOST_ROWS]

    def series(self, asked: AskedSeries) -> LaidSeries:
        """Courses of metrics."""
        courses = self.watching.histories.courses(question_of(asked))
        natures = self._natures.at(asked.range.end_s)
        return laid(courses, asked, {name: each.machine for name, each in natures.items()})

    def libraries(self, asked: AskedRange) -> dict[str, Any]:
        """What file systems gave the libraries on them over time, and what bound."""
        if not self.watching.libraries:
            return {"start": asked.start_s, "step": asked.step_s, "count": 0, "filesystems": []}
        found = library_courses(
            self.watching.histories,
            asked,
            self.watching.libraries,
            self._natures.at(asked.end_s),
            self._steps,
        )
        return {
            "start": found.grid.start_s,
            "step": found.grid.step_s,
            "count": found.grid.count,
            "filesystems": [_library(each) for each in found.courses],
        }

    def space(self, asked: AskedRange) -> dict[str, Any]:
        """Room of file systems over time, when they will be full, and the balance of targets."""
        metrics = ("node_filesystem_size_bytes", "node_filesystem_avail_bytes")
        courses = self.watching.histories.courses(
            RangeQuestion(metrics, asked.start_s, asked.end_s, asked.step_s)
        )
        grid = grid_of(courses, asked.start_s, asked.end_s, asked.step_s)
        return {
            "start": grid.start_s,
            "step": grid.step_s,
            "count": grid.count,
            "mounts": _spaces(courses, grid)[:MOST_ROWS],
            "balance": self._balance(asked),
            "rooms": self._rooms(asked),
        }

    def why(self, asked: AskedPicture, viewer: Viewer) -> dict[str, Any]:
        """Why it is slow, in words, for administrators; one at a time, since histories are asked many times.

        Raises GridwrightError: INPUT for who may not know, ENVIRONMENT while another one is asked for.
        """
        explain = self.watching.explain
        if explain is None or not viewer.is_administrator:
            raise input_error(
                "reasons name users and programs, and are for administrators",
                where="why",
                remedy="run gridwright explain-slow yourself",
            )
        if not self._explaining.acquire(blocking=False):
            raise environment_error(
                "another reason is looked for", where="why", remedy="ask again in a moment"
            )
        try:
            return {"text": explain(asked.at_s or self.watching.clock(), asked.seconds)}
        finally:
            self._explaining.release()

    def marks(self, asked: AskedRange) -> dict[str, Any]:
        """Runs and proofs within a range."""
        return {"marks": plain_marks(self.watching.marks(asked.start_s, asked.end_s))}

    def repositories(self) -> dict[str, Any]:
        """Repositories of the spec."""
        return {"repositories": [asdict(each) for each in self.watching.repositories[:MOST_ROWS]]}

    def _balance(self, asked: AskedRange) -> list[dict[str, Any]]:
        """The balance of the targets of each file system over the range, by what clients moved."""
        ways = ("gridwright_mount_read_bytes_total", "gridwright_mount_written_bytes_total")
        courses = self.watching.histories.courses(
            RangeQuestion(ways, asked.start_s, asked.end_s, asked.step_s)
        )
        rates: dict[str, dict[str, float]] = {}
        for course in courses:
            for series in course.series:
                point, target = (*series.labels, "", "")[:2]
                known = [each for each in series.values if each is not None]
                if target and known:
                    held = rates.setdefault(point, {})
                    held[target] = held.get(target, 0.0) + sum(known) / len(known)
        found = []
        for point, targets in sorted(rates.items()):
            if (balance := balance_of(sorted(targets.items()))) is not None:
                found.append({"mount": point, **asdict(balance)})
        return found[:MOST_ROWS]

    def _rooms(self, asked: AskedRange) -> list[dict[str, Any]]:
        """How evenly targets are filled at the end of the range, as servers tell it."""
        metrics = ("lustre_capacity_kilobytes", "lustre_available_kilobytes")
        courses = self.watching.histories.courses(
            RangeQuestion(metrics, asked.start_s, asked.end_s, asked.step_s)
        )
        last: dict[tuple[str, ...], dict[str, float]] = {}
        for course in courses:
            for series in course.series:
                known = [each for each in series.values if each is not None]
                if known:
                    last.setdefault(series.labels, {})[series.metric] = known[-1]
        parts: dict[tuple[str, str], list[tuple[str, float]]] = {}
        for (component, target), told in last.items():
            size, free = (told.get(each) for each in metrics)
            if size and free is not None:
                kind = filesystem_of(target), component
                parts.setdefault(kind, []).append((target, min(1.0, max(0.0, 1 - free / size))))
        return [asdict(each) for each in rooms_of(parts)][:MOST_ROWS]


def _with_reasons(frame: Frame, absences: Mapping[str, str]) -> Frame:
    """The same; of nodes that are away, why, as whoever samples them knows it."""
    rows = tuple(
        replace(row, absent=absences[row.node]) if row.absent and absences.get(row.node) else row
        for row in frame.nodes
    )
    return replace(frame, nodes=rows)


def _library(course: LibraryCourse) -> dict[str, Any]:
    steps = len(course.standings)
    return {
        "filesystem": course.filesystem,
        "libraries": list(course.libraries),
        "required": course.required_per_core,
        "read": plain(course.read),
        "written": plain(course.written),
        "perCore": plain(course.per_core),
        "standings": [str(each) for each in course.standings],
        "causes": [
            {
                "text": cause,
                "part": count / steps,
                "first": course.first_s[cause],
                "last": course.last_s[cause],
            }
            for cause, count in course.causes.most_common(MOST_CAUSES)
        ],
    }


def _spaces(courses: Sequence[NodeCourse], grid: TimeGrid) -> list[dict[str, Any]]:
    """One entry for each file system: mounts of one source on several nodes are one."""
    held: dict[tuple[str, ...], dict[str, Any]] = {}
    for course in courses:
        told: dict[tuple[str, ...], dict[str, Any]] = {}
        for series in course.series:
            told.setdefault(series.labels, {})[series.metric] = on_grid(course, series.values, grid)
        for labels, values in told.items():
            size = values.get("node_filesystem_size_bytes")
            free = values.get("node_filesystem_avail_bytes")
            if size is None or free is None or len(labels) != 3 or np.isnan(size).all():
                continue
            point, kind, source = labels
            # What has a path of this machine as its source is another file system on each node.
            key = (
                (point, source)
                if not source.startswith("/") and ":" in source
                else (point, source, course.node)
            )
            if key in held:
                held[key]["nodes"].append(course.node)
                continue
            last = float(size[~np.isnan(size)][-1])
            used = size - free
            times = [grid.time(index) for index in range(grid.count)]
            held[key] = {
                "mount": point,
                "type": kind,
                "source": source,
                "nodes": [course.node],
                "size": last,
                "used": plain(used),
                "usedNow": float(used[~np.isnan(used)][-1]) if not np.isnan(used).all() else None,
                **asdict(outlook_of(times, used, last)),
            }
    for each in held.values():
        each["nodes"] = each["nodes"][:MOST_ROWS]
    return sorted(held.values(), key=lambda each: (each["mount"], each["nodes"][0]))


def series_document(found: LaidSeries, asked: AskedSeries) -> dict[str, Any]:
    """Courses in plain values."""
    return {"metrics": list(asked.metrics), "by": asked.by, "how": asked.how, **document(found)}
