"""Since when something is so, and what changed on nodes: jobs, mounts, boots, limits, cards, nodes not seen.

Both out of the histories of nodes, and pure but for what these are asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from gridwright.monitor.frame import Frame
from gridwright.monitor.history.questions import Histories, NodeCourse, RangeQuestion, SeriesCourse
from gridwright.monitor.libraries import WatchedLibrary
from gridwright.spec.hosts import fold_hosts
from gridwright.units import format_rate

SHORTEST_S, LONGEST_S = 10.0, 60.0
"""Width of the looks: less is a moment, and over more, good times and bad ones become one mean."""
FARTHER = 1.3
"""Each look goes so many times as far back as the one before. A pause that falls between two looks is passed
over; to look back over a day, histories are asked some forty times."""
FINE = 0.05
"""What is found is told to so small a part of how long ago it is."""
MOST_LOOKS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """When something began. Times in seconds since 1970."""

    at_s: float | None
    """None where it is not known."""
    within_s: float = 0.0
    """It began at most so long before."""
    at_least: bool = False
    """Whether it may have begun earlier, as nothing is known of the time before."""
    why: str = ""
    """Why it is not known, or nothing before it."""


NO_HISTORY = "no history of the nodes is kept"
_BEGINS = "histories begin then"


def since_when(
    histories: Histories,
    at_s: float,
    seconds: float,
    libraries: tuple[WatchedLibrary, ...],
    is_so: Callable[[Frame], bool | None],
) -> Beginning:
    """The beginning of the spell that lasts at `at_s`: looks go back ever farther, and then between two."""
    reach = histories.reach()
    if reach is None:
        return Beginning(at_s=None, why=NO_HISTORY)
    shortest = max(SHORTEST_S, seconds)

    def width(end: float) -> float:
        return max(shortest, min(LONGEST_S, FINE * (at_s - end)))

    def was_so(end: float) -> bool | None:
        return is_so(histories.frame(end, width(end), libraries))

    now = was_so(at_s)
    if not now:
        why = "histories cannot tell it" if now is None else "histories do not show it yet"
        return Beginning(at_s=None, why=why)
    earliest = reach[0] + width(reach[0])
    high, low, found = at_s, at_s - shortest, None
    for _ in range(MOST_LOOKS):
        if high <= earliest:
            return Beginning(at_s=reach[0], at_least=True, why=_BEGINS)
        low = max(low, earliest)
        found = was_so(low)
        if not found:
            break
        high, low = low, at_s - FARTHER * max(shortest, at_s - low)
    else:
        return Beginning(at_s=high, at_least=True, why="further back was not looked")
    while high - low > max(shortest, FINE * (at_s - high)):
        middle = (low + high) / 2
        if then := was_so(middle):
            high = middle
        else:
            low, found = middle, then
    if found is None:
        return Beginning(at_s=high, at_least=True, why="of the time before, it cannot be told")
    return Beginning(at_s=high, within_s=high - low + width(high))


BEFORE_S = 900.0
"""So long before the beginning changes are looked for."""
_AFTER_S = 30.0
_STEPS = 360
_FINEST_S = 10.0
_MOST = 12
"""Marks that are told; those nearest to the beginning are kept."""
_JOB, _SIZE = "gridwright_job_processes", "node_filesystem_size_bytes"
_CHANGING = {
    "node_network_speed_bytes": ("network", "card {0} of {node} goes at {new} ({old})"),
    "gridwright_network_limit_bytes": ("limit", "the queue of card {0} of {node} lets {new} through ({old})"),
    "gridwright_group_io_limit_bytes": (
        "limit",
        "control group {0} of {node} may {2} {new} at {1} ({old})",
    ),
}
"""Gauges whose steps are changes that somebody made, or that befell the node."""
_METRICS = (_JOB, _SIZE, "node_boot_time_seconds", "node_load1", *_CHANGING)
_OTHER_JOBS = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedEvent:
    """Something that happened; `at_s` in seconds since 1970."""

    at_s: float
    sort: str
    """job, mount, boot, limit, network, node, run, finding or configuration."""
    text: str
    source: str
    nodes: tuple[str, ...] = ()


def changes_before(histories: Histories, begin_s: float) -> list[MarkedEvent]:
    """What changed on nodes shortly before a time, in order of time."""
    start = begin_s - BEFORE_S
    step = max(_FINEST_S, (BEFORE_S + _AFTER_S) / _STEPS)
    courses = histories.courses(RangeQuestion(_METRICS, start, begin_s + _AFTER_S, step))
    marks = [mark for course in courses for mark in _of_node(course)]
    return nearest_marks(_together(marks), begin_s)


def nearest_marks(marks: Sequence[MarkedEvent], begin_s: float) -> list[MarkedEvent]:
    """Those that are told: the nearest to a time, in order."""
    events = sorted(marks, key=lambda each: abs(each.at_s - begin_s))[:_MOST]
    return sorted(events, key=lambda each: each.at_s)


def _together(marks: Sequence[MarkedEvent]) -> list[MarkedEvent]:
    """The same at the same time on several nodes is one mark."""
    found: dict[tuple[float, str, str], list[str]] = {}
    for mark in marks:
        found.setdefault((mark.at_s, mark.sort, mark.text), []).extend(mark.nodes)
    return [
        MarkedEvent(
            at_s=at,
            sort=sort,
            text=text.replace("{node}", fold_hosts(nodes)),
            source="history of the nodes",
            nodes=tuple(nodes),
        )
        for (at, sort, text), nodes in found.items()
    ]


def _of_node(course: NodeCourse) -> Iterator[MarkedEvent]:
    steps = max((len(each.values) for each in course.series), default=0)
    seen = [any(_at(each, step) is not None for each in course.series) for step in range(steps)]

    def mark(step: int, sort: str, text: str) -> MarkedEvent:
        at = course.start_s + step * course.step_s
        return MarkedEvent(at_s=at, sort=sort, text=text, source="", nodes=(course.node,))

    for step in range(1, steps):
        if seen[step] and not seen[step - 1] and any(seen[:step]):
            yield mark(step, "node", "{node} was not seen for a while before")
    for each in course.series:
        if each.metric in {_JOB, _SIZE}:
            yield from _comings(each, seen, mark)
        elif each.metric != "node_load1":
            yield from _steps(each, seen, mark)


def _comings(
    series: SeriesCourse, seen: Sequence[bool], mark: Callable[[int, str, str], MarkedEvent]
) -> Iterator[MarkedEvent]:
    """Where a series begins or ends while its node was seen."""
    name = series.labels[0]
    if name == _OTHER_JOBS:
        return
    for step in range(1, len(series.values)):
        if not (seen[step] and seen[step - 1]):
            continue
        now, before = series.values[step], series.values[step - 1]
        if now is not None and before is None:
            if series.metric == _JOB:
                yield mark(step, "job", f"job {name} began on {{node}}")
            else:
                yield mark(step, "mount", f"{name} ({series.labels[1]}) was mounted on {{node}}")
        if now is None and before is not None and series.metric == _SIZE:
            yield mark(step, "mount", f"{name} was unmounted on {{node}}, or does not answer any more")


def _steps(
    series: SeriesCourse, seen: Sequence[bool], mark: Callable[[int, str, str], MarkedEvent]
) -> Iterator[MarkedEvent]:
    """Where a gauge changes; and where a limit comes or goes while its node was seen."""
    last: float | None = None
    for step, value in enumerate(series.values):
        was_seen = step > 0 and seen[step] and seen[step - 1]
        comes = value is not None and (last is not None and abs(value - last) > 1e-6 * abs(last))
        if series.metric == "node_boot_time_seconds":
            # A clock that is set moves the time of the boot by seconds.
            if value is not None and last is not None and value > last + 60.0:
                yield mark(step, "boot", "{node} was booted")
        elif comes or (value is not None and was_seen and series.values[step - 1] is None):
            sort, text = _CHANGING[series.metric]
            old = "none before" if last is None else f"{format_rate(last)} before"
            yield mark(
                step, sort, text.format(*series.labels, node="{node}", new=format_rate(value or 0.0), old=old)
            )
        last = value if value is not None else last


def boot_marks(booted: Sequence[tuple[str, float | None]], since_s: float) -> list[MarkedEvent]:
    """Nodes that were booted since a time, out of a picture."""
    return [
        replace(each, source="/proc/stat")
        for each in _together(
            [
                MarkedEvent(at_s=at, sort="boot", text="{node} was booted", source="", nodes=(node,))
                for node, at in booted
                if at is not None and at >= since_s
            ]
        )
    ]


def _at(series: SeriesCourse, step: int) -> float | None:
    return series.values[step] if step < len(series.values) else None
