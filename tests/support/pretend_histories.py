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


@dataclass
class PretendHistories:
    """A Lustre of four targets and nodes that use it: busy by day. Job 4711 alone reads from OST0002 of late.

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
        yield "node_cpu_seconds_total", ("user",), lambda at: 0.5 * CORES * _day(at)
        yield "node_cpu_seconds_total", ("system",), lambda at: 0.1 * CORES * _day(at)
        yield "node_cpu_seconds_total", ("iowait",), lambda at: 0.3 * CORES * _day(at)
        yield "node_load1", (), lambda at: CORES * _day(at)
        yield "node_memory_MemTotal_bytes", (), lambda at: 256e9
        yield "node_memory_MemAvailable_bytes", (), lambda at: 256e9 - 180e9 * _day(at)
        yield "node_pressure_io_waiting_seconds_total", (), lambda at: 0.4 * _day(at)
        yield "node_network_receive_bytes_total", ("eth0",), lambda at: 0.92 * 3.125e9 * _day(at)
        yield "node_network_transmit_bytes_total", ("eth0",), lambda at: 0.2 * 3.125e9 * _day(at)
        yield "node_network_speed_bytes", ("eth0",), lambda at: 3.125e9
        yield "node_filesystem_size_bytes", (self.mount, "lustre", "10.0.0.1@tcp:/scratch"), lambda at: SIZE
        yield "node_filesystem_avail_bytes", (self.mount, "lustre", "10.0.0.1@tcp:/scratch"), _free
        for index in range(TARGETS):
            target = f"scratch-OST000{index}"
            share = 2.5 if index == 2 else 0.5
            for way in ("read", "written"):
                yield (
                    f"gridwright_mount_{way}_bytes_total",
                    (self.mount, target),
                    _scaled(3e8 * share / number),
                )
        for index, job in enumerate(self.jobs):
            if index % self.count + 1 == number:
                yield "gridwright_job_processes", (job,), lambda at: 4.0
                yield "gridwright_job_cpu_seconds_total", (job,), lambda at: 4.0 * _day(at)
                yield "gridwright_job_resident_bytes", (job,), lambda at: 3e10
                for way in ("read", "written"):
                    yield (
                        f"gridwright_job_{way}_bytes_total",
                        (job,),
                        _scaled(5e8 / (index + 1)),
                    )


_RINGS = ((1.0, 3600.0), (10.0, 2 * DAY_S), (60.0, 30 * DAY_S), (600.0, math.inf))
"""Steps of the history, and how far back each reaches."""
LIBRARIES = (
    WatchedLibrary("data", "scratch", f"{MOUNT}/data", 100e6),
    WatchedLibrary("work", "scratch", f"{MOUNT}/work", 125e6),
)


def _day(at_s: float) -> float:
    """Part of the load: most at the last moment of the history, least half a day before."""
    return 0.6 + 0.4 * math.cos((at_s - END_S) / DAY_S * 2 * math.pi)


def _scaled(most: float) -> Formula:
    return lambda at: most * _day(at)


def _free(at_s: float) -> float:
    """It fills by 40 GB a day, and has 2 TB left at the end."""
    return 2e12 + 4e10 * (END_S - at_s) / DAY_S
