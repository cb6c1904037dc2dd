"""Answers to what the page asks: plain values, bounded in size whatever the grid is.

Tables of a picture as the page gets them: those of `top`, bounded, without what a viewer may not know.

The health line: whether all is well, and if not, what is wrong, the gravest first (pure).

When file systems will be full, as a line through the past says, and how evenly targets are used (pure).

The line is that of Theil and Sen: the median of the slopes between all pairs of points. Up to 29 % of the
points may be anything at all, such as a night in which scratch data came and went, without moving it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import median
from typing import Any, Literal

import numpy as np

import gridwright
from gridwright.errors import environment_error, input_error
from gridwright.monitor.causes.explaining import is_slow, why_unknown
from gridwright.monitor.console.pictures import (
    LibraryCourse,
    NodeInventory,
    StepMemory,
    causes_of,
    library_courses,
)
from gridwright.monitor.console.queries import (
    RangeQuery,
    ResampledSeries,
    SeriesQuery,
    SnapshotQuery,
    TimeGrid,
    Values,
    document,
    grid_of,
    on_grid,
    plain,
    question_of,
    resample,
)
from gridwright.monitor.console.watching import (
    JobFacts,
    OpenFinding,
    Viewer,
    Watching,
    by_job,
    facts_of,
    plain_marks,
    seen_by,
    users_seen_by,
)
from gridwright.monitor.frame import Frame
from gridwright.monitor.history.questions import NodeCourse, RangeQuestion
from gridwright.monitor.libraries import LibraryRow
from gridwright.monitor.rows import MountRow
from gridwright.monitor.served_rows import filesystem_of
from gridwright.monitor.views import SERVED_JOBS, binding, megabytes, notes, views
from gridwright.monitor.views import figure as cell_of
from gridwright.report.table import Table, columns_of, keyed_row
from gridwright.spec.hosts import fold_hosts

DAY_S = 86_400.0
_FEWEST_POINTS = 12
_MOST_POINTS = 400
_LONGEST_DAYS = 3650.0
"""Ten years: nobody extrapolates beyond."""
Outlook = Literal["fills", "steady", "empties", "cannot tell"]


@dataclass(frozen=True, slots=True)
class SpaceOutlook:
    """What is to be expected of a file system's space."""

    outlook: Outlook
    days: float | None = None
    """Until it is full, at the rate that the line has; None where it does not fill."""
    soonest: float | None = None
    latest: float | None = None
    """The same at the ends of the 95 % interval of the slope; None for never."""
    bytes_per_day: float | None = None
    why: str = ""
    """Why nothing can be told."""


def outlook_of(times: Sequence[float], used: Values, size: float) -> SpaceOutlook:
    """The outlook of bytes that were used at times (seconds); NaN where nothing is known.

    Slope and interval: Sen (1968), as `scipy.stats.theilslopes` has them.
    """
    from scipy.stats import theilslopes

    at, known = np.asarray(times, dtype=float), ~np.isnan(used)
    at, told = at[known], used[known]
    if len(told) < _FEWEST_POINTS:
        return SpaceOutlook("cannot tell", why=f"{len(told)} points are too few")
    thin = max(1, -(-len(told) // _MOST_POINTS))
    at, told = at[::thin], told[::thin]
    slope, _, low, high = (float(each) for each in theilslopes(told, at / DAY_S, 0.95))
    left = size - float(told[-1])
    if low <= 0 <= high and max(abs(low), abs(high)) * 365 < size / 100:
        return SpaceOutlook("steady", bytes_per_day=slope)
    if low <= 0 <= high:
        return SpaceOutlook("cannot tell", bytes_per_day=slope, why="it goes up and down")
    if slope < 0:
        return SpaceOutlook("empties", bytes_per_day=slope)
    seen = float(at[-1] - at[0]) / DAY_S
    days = max(0.0, left) / slope
    if days > max(20 * seen, 1.0) or days > _LONGEST_DAYS:
        why = f"{_days(seen)} of history tell nothing of the time in {_days(days)}"
        return SpaceOutlook("cannot tell", bytes_per_day=slope, why=why)
    return SpaceOutlook(
        "fills", days, max(0.0, left) / high, max(0.0, left) / low if low > 0 else None, slope
    )


def _days(days: float) -> str:
    if days < 2:
        return f"{days * 24:.0f} hours" if days * 24 >= 2 else f"{days * 1440:.0f} minutes"
    return f"{days:.0f} days" if days < 3650 else "more than ten years"


@dataclass(frozen=True, slots=True)
class TargetBalance:
    """How evenly targets of a file system took what was moved."""

    targets: int
    mean: float
    """Bytes per second of a target."""
    busiest: str
    ratio: float | None
    """Of the busiest to the mean; 1 is even. None where nothing was moved."""


def balance_of(rates: Sequence[tuple[str, float]]) -> TargetBalance | None:
    """The balance of targets with their rates; None for fewer than two."""
    if len(rates) < 2:
        return None
    mean = sum(rate for _, rate in rates) / len(rates)
    busiest, most = max(rates, key=lambda each: each[1])
    return TargetBalance(len(rates), mean, busiest, most / mean if mean > 0 else None)


@dataclass(frozen=True, slots=True)
class TargetRoom:
    """How evenly targets of one kind of a file system are filled. Parts are from 0 to 1."""

    filesystem: str
    component: str
    """Such as `ost`."""
    targets: int
    fullest: str
    fullest_part: float
    emptiest: str
    emptiest_part: float
    median_part: float


def rooms_of(parts: Mapping[tuple[str, str], Sequence[tuple[str, float]]]) -> list[TargetRoom]:
    """By file system and kind of target; those with fewer than two targets are left out."""
    found = []
    for (filesystem, component), told in sorted(parts.items()):
        if len(told) < 2:
            continue
        ranked = sorted(told, key=lambda each: (each[1], each[0]))
        found.append(
            TargetRoom(
                filesystem,
                component,
                len(told),
                fullest=ranked[-1][0],
                fullest_part=ranked[-1][1],
                emptiest=ranked[0][0],
                emptiest_part=ranked[0][1],
                median_part=median(part for _, part in told),
            )
        )
    return found


STALE_S = 30.0
"""From this age on a picture is not what is now."""
FULL_SPACE = 0.95
"""A file system that is fuller slows down, or refuses writes soon."""
HealthState = Literal["well", "warning", "wrong", "unknown"]
_GRAVEST: Sequence[HealthState] = ("wrong", "warning", "unknown", "well")


@dataclass(frozen=True, slots=True)
class HealthPart:
    """One thing that a viewer should know; `view` and `only` say where the page tells more of it."""

    state: HealthState
    text: str
    view: str
    only: str = ""


@dataclass(frozen=True, slots=True)
class HealthLine:
    """The state of all, and the parts that are not well."""

    state: HealthState
    text: str
    parts: tuple[HealthPart, ...]


def health_of(frame: Frame, now_s: float | None) -> HealthLine:
    """The health that a picture shows; `now_s` is None for a picture of the past, which cannot be stale."""
    parts = [*_stale(frame, now_s), *_away(frame), *_silent(frame), *_slow(frame), *_full(frame)]
    parts.sort(key=lambda each: _GRAVEST.index(each.state))
    if not frame.nodes:
        return HealthLine("unknown", "Nothing is known of any node.", ())
    if parts:
        return HealthLine(parts[0].state, _sentence(parts), tuple(parts))
    count = len(frame.nodes)
    nodes = "The node answers" if count == 1 else f"All {count} nodes answer"
    if not frame.libraries:
        return HealthLine("well", f"{nodes}. Without a grid spec nothing is required of it.", ())
    return HealthLine(
        "well", f"{nodes}, and nobody waits for a library that gives less than is required.", ()
    )


def _sentence(parts: Sequence[HealthPart]) -> str:
    first = parts[0].text
    more = len(parts) - 1
    return f"{first}." if not more else f"{first}, and {more} more."


def _stale(frame: Frame, now_s: float | None) -> list[HealthPart]:
    if now_s is None or not frame.time:
        return []
    age = now_s - frame.time
    if age < STALE_S + frame.seconds:
        return []
    return [HealthPart("warning", f"The last sample is {age:.0f} s old: this is not what is now", "nodes")]


def _away(frame: Frame) -> list[HealthPart]:
    away = [row for row in frame.nodes if row.absent]
    if not away:
        return []
    reasons = list(dict.fromkeys(row.absent for row in away))
    names = fold_hosts([row.node for row in away])
    only = away[0].node if len(away) == 1 else ""
    said = reasons[0] if len(reasons) == 1 else f"{len(reasons)} reasons"
    return [HealthPart("wrong", f"{names} {'is' if len(away) == 1 else 'are'} away: {said}", "nodes", only)]


def _silent(frame: Frame) -> list[HealthPart]:
    return [
        HealthPart("wrong", f"{row.mount_point} of {row.node} does not answer: {row.silent}", "storage")
        for row in frame.mounts
        if row.silent
    ][:20]


def _slow(frame: Frame) -> list[HealthPart]:
    """Libraries that are slow, or of which that cannot be told, by the judge of `explain-slow`."""
    return [
        HealthPart(
            "warning" if slow else "unknown",
            f"{', '.join(row.libraries)} on {row.filesystem}: {binding(row) if slow else _unknown_text(row)}",
            "storage",
            row.filesystem,
        )
        for row in frame.libraries
        if (slow := is_slow(row)) is not False
    ]


def _unknown_text(row: LibraryRow) -> str:
    return f"cannot tell {why_unknown(row)}"


def _full(frame: Frame) -> list[HealthPart]:
    """File systems that are nearly full, each with the nodes that say so."""
    rows: dict[tuple[str, str], list[MountRow]] = {}
    for row in frame.mounts:
        if row.used_part is not None and row.used_part >= FULL_SPACE:
            rows.setdefault((row.source, row.mount_point), []).append(row)
    return [
        HealthPart(
            "warning",
            f"{point} of {fold_hosts([row.node for row in rows])} is "
            f"{max(row.used_part or 0.0 for row in rows):.0%} full",
            "space",
        )
        for (_, point), rows in rows.items()
    ][:20]


MOST_ROWS = 1000
"""Of a table: nobody reads more, and a browser with more gets slow."""
MOST_CAUSES = 20


def tables_of(frame: Frame, facts: Mapping[str, JobFacts], viewer: Viewer) -> list[dict[str, Any]]:
    """All tables, as far as the viewer may see them; `facts` is what the scheduler says of jobs."""
    return [
        _table(view)
        for view in (
            *(_seen(view, viewer) for view in views(frame)),
            _users(frame, facts, viewer),
            *_beside_jobs(frame, viewer),
        )
    ]


def _table(view: Table) -> dict[str, Any]:
    """A table as `top` has it, with the figures to sort by."""
    names = [column.title for column in view.columns]
    figures = [place for place, column in enumerate(view.columns) if not column.words]
    first, after = figures[0], figures[-1] + 1
    return {
        "title": view.caption,
        "words": names[:first],
        "figures": names[first:after],
        "last": "".join(names[after:]),
        "rows": [
            {
                "key": row.key,
                "cells": [
                    {"text": cell.text, "value": cell.value, "style": cell.style} for cell in row.cells
                ],
            }
            for row in view.rows[:MOST_ROWS]
        ],
        "leftOut": max(0, len(view.rows) - MOST_ROWS),
    }


def _seen(view: Table, viewer: Viewer) -> Table:
    """The same without names that Lustre gives jobs, which tell programs and users: numbers are for all."""
    if view.caption != SERVED_JOBS or viewer.is_administrator:
        return view
    told = (row for row in view.rows if re.fullmatch(r"[0-9_]+|other", row.cells[0].text))
    return replace(view, rows=tuple(told))


def library_now(row: LibraryRow) -> dict[str, Any]:
    """A row without the uses of all resources, of which there are some for each node."""
    found = asdict(replace(row, uses=(), binds=row.binds[:MOST_CAUSES]))
    return {**found, "causes": causes_of(row)[:MOST_CAUSES]}


def _users(frame: Frame, facts: Mapping[str, JobFacts], viewer: Viewer) -> Table:
    """Users with what their jobs do, as far as the viewer may know them."""
    rows = tuple(
        keyed_row(
            load.user,
            load.user,
            cell_of(float(load.jobs), 0),
            cell_of(load.cpus),
            megabytes(load.read_bytes_per_s),
            megabytes(load.written_bytes_per_s),
        )
        for load in users_seen_by(viewer, frame.users, frame.jobs, facts)
    )
    return Table("Users", columns_of(["user"], ["jobs", "CPUs", "read MB/s", "write MB/s"]), rows)


def _beside_jobs(frame: Frame, viewer: Viewer) -> list[Table]:
    """What of nodes no job accounts for, and the processes of it that the viewer may know."""
    nodes = tuple(
        keyed_row(
            row.node,
            row.node,
            cell_of(row.cpus),
            megabytes(row.read_bytes_per_s),
            megabytes(row.written_bytes_per_s),
        )
        for row in frame.others
    )
    processes = tuple(
        keyed_row(
            f"{row.node} {process.user} {process.process}",
            process.process,
            row.node,
            process.user,
            cell_of(process.cpus),
            megabytes(process.moved_bytes_per_s),
        )
        for row in frame.others
        for process in row.processes
        if viewer.may_see(process.user)
    )
    return [
        Table("Beside jobs", columns_of(["node"], ["CPUs", "read MB/s", "write MB/s"]), nodes),
        Table(
            "Processes of no job", columns_of(["process", "of", "user"], ["CPUs", "moved MB/s"]), processes
        ),
    ]


MOST_NOTES = 50
_NATURE_S = 60.0


@dataclass(slots=True)
class Answers:
    """Answers of one console. Threads may use it at the same time."""

    watching: Watching
    _inventory: NodeInventory = field(init=False)
    _steps: StepMemory = field(default_factory=StepMemory)
    _explaining: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """Know nothing of nodes yet."""
        histories = self.watching.histories
        self._inventory = NodeInventory(lambda at_s: histories.frame(at_s, _NATURE_S), histories.reach)

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
                    "name": library.name,
                    "filesystem": library.filesystem,
                    "directory": library.directory,
                    "required": library.required,
                }
                for library in self.watching.libraries
            ],
            "user": viewer.user,
            "isAdministrator": viewer.is_administrator,
            "explains": viewer.is_administrator and self.watching.explain is not None,
            "cost": asdict(self.watching.cost),
        }

    def picture(self, query: SnapshotQuery, viewer: Viewer) -> dict[str, Any]:
        """All tables at one time, the health line, and what a reader has to know of the figures."""
        now = self.watching.clock()
        at = now if query.at_s is None else min(query.at_s, now)
        frame = self.watching.histories.frame(at, query.seconds, self.watching.libraries)
        if query.at_s is None:
            frame = _with_reasons(frame, self.watching.absences())
        self._inventory.learn(frame)
        health = health_of(frame, now if query.at_s is None else None)
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
            "notes": [note for note in notes(frame) if " is away: " not in note][:MOST_NOTES],
            "findings": [asdict(finding) for finding in self._findings(query)],
            "jobNodes": {row.job: list(row.nodes[:MOST_ROWS]) for row in frame.jobs},
            "jobs": {name: asdict(fact) for name, fact in facts.items()},
        }

    def _findings(self, query: SnapshotQuery) -> Sequence[OpenFinding]:
        """What is wrong now; of another time the marks tell."""
        return () if query.at_s is not None else self.watching.findings()[:MOST_ROWS]

    def series(self, query: SeriesQuery) -> ResampledSeries:
        """Courses of metrics."""
        courses = self.watching.histories.courses(question_of(query))
        inventory = self._inventory.at(query.range.end_s)
        return resample(courses, query, {name: node.machine for name, node in inventory.items()})

    def libraries(self, query: RangeQuery) -> dict[str, Any]:
        """What file systems gave the libraries on them over time, and what bound."""
        if not self.watching.libraries:
            return {"start": query.start_s, "step": query.step_s, "count": 0, "filesystems": []}
        courses = library_courses(
            self.watching.histories,
            query,
            self.watching.libraries,
            self._inventory.at(query.end_s),
            self._steps,
        )
        return {
            "start": courses.grid.start_s,
            "step": courses.grid.step_s,
            "count": courses.grid.count,
            "filesystems": [_library(course) for course in courses.courses],
        }

    def space(self, query: RangeQuery) -> dict[str, Any]:
        """Room of file systems over time, when they will be full, and the balance of targets."""
        metrics = ("node_filesystem_size_bytes", "node_filesystem_avail_bytes")
        courses = self.watching.histories.courses(
            RangeQuestion(metrics, query.start_s, query.end_s, query.step_s)
        )
        grid = grid_of(courses, query.start_s, query.end_s, query.step_s)
        return {
            "start": grid.start_s,
            "step": grid.step_s,
            "count": grid.count,
            "mounts": _spaces(courses, grid)[:MOST_ROWS],
            "balance": self._balance(query),
            "rooms": self._rooms(query),
        }

    def why(self, query: SnapshotQuery, viewer: Viewer) -> dict[str, Any]:
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
            return {"text": explain(query.at_s or self.watching.clock(), query.seconds)}
        finally:
            self._explaining.release()

    def marks(self, query: RangeQuery) -> dict[str, Any]:
        """Runs and proofs within a range."""
        return {"marks": plain_marks(self.watching.marks(query.start_s, query.end_s))}

    def repositories(self) -> dict[str, Any]:
        """Repositories of the spec."""
        return {"repositories": [asdict(repository) for repository in self.watching.repositories[:MOST_ROWS]]}

    def _balance(self, query: RangeQuery) -> list[dict[str, Any]]:
        """The balance of the targets of each file system over the range, by what clients moved."""
        ways = ("gridwright_mount_read_bytes_total", "gridwright_mount_written_bytes_total")
        courses = self.watching.histories.courses(
            RangeQuestion(ways, query.start_s, query.end_s, query.step_s)
        )
        rates: dict[str, dict[str, float]] = {}
        for course in courses:
            for series in course.series:
                point, target = (*series.labels, "", "")[:2]
                known = [value for value in series.values if value is not None]
                if target and known:
                    held = rates.setdefault(point, {})
                    held[target] = held.get(target, 0.0) + sum(known) / len(known)
        found = []
        for point, targets in sorted(rates.items()):
            if (balance := balance_of(sorted(targets.items()))) is not None:
                found.append({"mount": point, **asdict(balance)})
        return found[:MOST_ROWS]

    def _rooms(self, query: RangeQuery) -> list[dict[str, Any]]:
        """How evenly targets are filled at the end of the range, as servers tell it."""
        metrics = ("lustre_capacity_kilobytes", "lustre_available_kilobytes")
        courses = self.watching.histories.courses(
            RangeQuestion(metrics, query.start_s, query.end_s, query.step_s)
        )
        last: dict[tuple[str, ...], dict[str, float]] = {}
        for course in courses:
            for series in course.series:
                known = [value for value in series.values if value is not None]
                if known:
                    last.setdefault(series.labels, {})[series.metric] = known[-1]
        parts: dict[tuple[str, str], list[tuple[str, float]]] = {}
        for (component, target), told in last.items():
            size, free = (told.get(metric) for metric in metrics)
            if size and free is not None:
                kind = filesystem_of(target), component
                parts.setdefault(kind, []).append((target, min(1.0, max(0.0, 1 - free / size))))
        return [asdict(room) for room in rooms_of(parts)][:MOST_ROWS]


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
        "standings": [str(standing) for standing in course.standings],
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


def series_document(series: ResampledSeries, query: SeriesQuery) -> dict[str, Any]:
    """Courses in plain values."""
    return {"metrics": list(query.metrics), "by": query.by, "how": query.how, **document(series)}
