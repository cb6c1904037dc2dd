"""A history of a grid that never was: series by formulas, as long as a year, for the console."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from gridwright.monitor.frame import Frame, frame_of
from gridwright.monitor.history.questions import NodeCourse, RangeQuestion, SeriesCourse
from gridwright.monitor.libraries import WatchedLibrary
from gridwright.monitor.readings import MountedPlace, NodeSamples, Reading, Snapshot

Formula = Callable[[float], float | None]
"""The rate of a counter or the value of a gauge at a time; None where it is not there."""
DAY_S = 86_400.0
END_S = 1_790_000_000.0
"""The end of the history: September 2026."""
MOUNT = "/mnt/scratch"
TARGETS = 4
SIZE = 4e13
CORES = 16
SLOW = 2
"""The target that is slow of late."""
TROUBLE_S = 1500.0


@dataclass
class PretendHistories:
    """A Lustre of four targets and nodes that use it: busy by day.

    For the last TROUBLE_S the first job reads from OST0002, which answers late, and all wait.

    `away` has nodes of which nothing is known from a time on.
    """

    count: int = 3
    seconds: float = 365 * DAY_S
    away: dict[str, float] = field(default_factory=dict)
    jobs: tuple[str, ...] = ("4711", "4712", "4713")
    mount: str = MOUNT

    def nodes(self) -> list[str]:
        return [f"compute{number}" for number in range(1, self.count + 1)]

    def reach(self) -> tuple[float, float] | None:
        return END_S - self.seconds, END_S

    def courses(self, question: RangeQuestion) -> list[NodeCourse]:
        age = END_S - question.start_s
        finest = next(step for step, reach in _RINGS if age <= reach)
        step = max(question.step_s, finest)
        count = math.ceil((question.end_s - question.start_s) / step)
        return [self._course(node, question, step, count) for node in self.nodes()]

    def _course(self, node: str, question: RangeQuestion, step: float, count: int) -> NodeCourse:
        times = [question.start_s + step * (number + 0.5) for number in range(count)]
        series = []
        for metric, labels, formula in self._series(node):
            if metric in question.metrics:
                values = tuple(self._value(node, formula, at) for at in times)
                series.append(SeriesCourse(metric, labels, values, values))
        if all(value is None for each in series for value in each.values):
            return NodeCourse(node, question.start_s, step, (), "no answer in time")
        return NodeCourse(node, question.start_s, step, tuple(series))

    def _value(self, node: str, formula: Formula, at_s: float) -> float | None:
        if not END_S - self.seconds <= at_s <= END_S or at_s >= self.away.get(node, math.inf):
            return None
        return formula(at_s)

    def frame(self, at_s: float, seconds: float, libraries: Sequence[WatchedLibrary] = ()) -> Frame:
        return frame_of([self._samples(node, min(at_s, END_S), seconds) for node in self.nodes()], libraries)

    def _samples(self, node: str, at_s: float, seconds: float) -> NodeSamples:
        if at_s >= self.away.get(node, math.inf):
            return NodeSamples(node, absent="no answer in time")
        before, after = [], []
        for metric, labels, formula in self._series(node):
            value = formula(at_s - seconds / 2)
            if value is not None:
                counter = metric.endswith("_total")
                before.append(Reading(metric, labels, 0.0 if counter else value, 0.0))
                after.append(Reading(metric, labels, value * (seconds if counter else 1.0), seconds))
        first, last = (self._snapshot(node, readings, at_s) for readings in (before, after))
        return NodeSamples(node, first(0.0), last(seconds))

    def _snapshot(self, node: str, readings: list[Reading], time: float) -> Callable[[float], Snapshot]:
        return lambda at_s: Snapshot(
            node=node,
            machine=f"machine of {node}",
            time=time,
            at_s=at_s,
            cpus=2 * CORES,
            cores=CORES,
            readings=tuple(readings),
            places={each.directory: MountedPlace(self.mount, "lustre") for each in LIBRARIES},
            cost_s=0.001,
        )

    def _series(self, node: str) -> Iterator[tuple[str, tuple[str, ...], Formula]]:
        number = int(node.removeprefix("compute"))
        ripple = 1.0 + number
        for mode, before, after in (("user", 8.0, 7.0), ("system", 1.2, 1.0), ("iowait", 0.1, 6.0)):
            yield "node_cpu_seconds_total", (mode,), _changing(before, after, ripple)
        yield "node_load1", (), _changing(CORES * 0.6, CORES * 1.2, ripple)
        yield "node_memory_MemTotal_bytes", (), lambda at: 256e9
        yield "node_memory_MemAvailable_bytes", (), lambda at: 256e9 - 180e9 * _day(at)
        yield "node_pressure_io_waiting_seconds_total", (), _changing(0.02, 0.6, ripple)
        yield "node_network_receive_bytes_total", ("eth0",), _changing(0.8e9, 0.7e9, ripple)
        yield "node_network_transmit_bytes_total", ("eth0",), _changing(0.5e9, 0.3e9, ripple)
        yield "node_network_speed_bytes", ("eth0",), lambda at: 3.125e9
        yield "node_filesystem_size_bytes", (self.mount, "lustre", "10.0.0.1@tcp:/scratch"), lambda at: SIZE
        yield "node_filesystem_avail_bytes", (self.mount, "lustre", "10.0.0.1@tcp:/scratch"), _free
        for index in range(TARGETS):
            yield from self._target(f"scratch-OST000{index}", index, number)
        for index, job in enumerate(self.jobs):
            if index % self.count + 1 == number:
                yield from self._job(job, index, ripple)

    def _target(self, target: str, index: int, number: int) -> Iterator[tuple[str, tuple[str, ...], Formula]]:
        """Requests are of 1 MB. One target gets the reads of the job that came, and answers late."""
        slow, labels = index == SLOW, (self.mount, target)
        if number == 1:
            yield "lustre_capacity_kilobytes", ("ost", target), lambda at: 1e10
            yield "lustre_available_kilobytes", ("ost", target), lambda at: 4e9 - 1e9 * index
        share = 1.0 if not slow else 2.8 if number == 1 else 1.0
        for way, operation, rate in (("read", "reads", 2e8), ("written", "writes", 1.25e8)):
            moved = _changing(rate, rate * 0.75 * share, index + number + len(way))
            yield f"gridwright_mount_{way}_bytes_total", labels, moved
            yield f"gridwright_mount_{operation}_total", labels, _times(moved, 1e-6)
        yield (
            "gridwright_mount_waited_seconds_total",
            labels,
            _changing(325 * 0.004, 243 * share * (0.09 if slow else 0.005), index),
        )

    def _job(self, job: str, index: int, ripple: float) -> Iterator[tuple[str, tuple[str, ...], Formula]]:
        since = END_S - TROUBLE_S if index == 0 else 0.0
        rates = {
            "cpu_seconds_total": 6.0 / (index + 1),
            "resident_bytes": 30e9 / (index + 1),
            "read_bytes_total": 6e8 / (index + 1),
            "written_bytes_total": 1.5e8 / (index + 1),
        }
        yield "gridwright_job_processes", (job,), lambda at: 4.0 if at >= since else None
        for name, rate in rates.items():
            formula = _changing(rate, rate, ripple + index)
            yield f"gridwright_job_{name}", (job,), _since(formula, since)


_RINGS = ((1.0, 3600.0), (10.0, 2 * DAY_S), (60.0, 30 * DAY_S), (600.0, math.inf))
"""Steps of the history, and how far back each reaches."""
LIBRARIES = (
    WatchedLibrary("data", "scratch", f"{MOUNT}/data", 100e6),
    WatchedLibrary("work", "scratch", f"{MOUNT}/work", 125e6),
)


def _day(at_s: float) -> float:
    """Part of the load: most at the last moment of the history, least half a day before."""
    return 0.6 + 0.4 * math.cos((at_s - END_S) / DAY_S * 2 * math.pi)


def _changing(before: float, after: float, ripple: float) -> Formula:
    """A figure with the course of a day and some ripple, and another one while there is trouble."""
    return lambda at: (
        (after if at >= END_S - TROUBLE_S else before)
        * _day(at)
        * (1.0 + 0.05 * math.sin(at / (40.0 + 7.0 * ripple)) + 0.03 * math.sin(at / (11.0 + ripple)))
    )


def _times(formula: Formula, factor: float) -> Formula:
    return lambda at: None if (value := formula(at)) is None else value * factor


def _since(formula: Formula, since: float) -> Formula:
    return lambda at: formula(at) if at >= since else None


def _free(at_s: float) -> float:
    """It fills by 40 GB a day, and has 2 TB left at the end."""
    return 2e12 + 4e10 * (END_S - at_s) / DAY_S
