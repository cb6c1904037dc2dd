"""Snapshots of a node as a page of text; remembers what has to rise from one page to the next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version

from gridwright.monitor.exporter import families
from gridwright.monitor.exporter.exposition import Exposition, SeriesValue, TextFormat
from gridwright.monitor.exporter.families import OF_READINGS, MetricFamily
from gridwright.monitor.exporter.job_series import JobSeries
from gridwright.monitor.readings import Reading, Snapshot
from gridwright.monitor.user_sums import OWNER

_CPU = "node_cpu_seconds_total"


@dataclass(slots=True)
class MetricsPage:
    """The page of one node."""

    _jobs: JobSeries = field(default_factory=JobSeries)
    _boot: str = ""
    _highest: dict[tuple[str, ...], float] = field(default_factory=dict)
    _samples: int = 0
    _cost_s: float = 0.0
    _snapshot: Snapshot | None = None
    _took_s: float = 0.0
    _readings: list[Reading] = field(default_factory=list)

    @property
    def has_sample(self) -> bool:
        """Whether there is anything to tell."""
        return self._snapshot is not None

    def take(self, snapshot: Snapshot, took_s: float) -> None:
        """Have a new snapshot, which took so long."""
        if snapshot.machine != self._boot:
            self._boot, self._highest = snapshot.machine, {}
        self._samples += 1
        self._cost_s += snapshot.cost_s
        self._snapshot, self._took_s = snapshot, took_s
        told = (
            self._risen(each)
            for each in snapshot.readings
            if each.metric in OF_READINGS or each.metric == OWNER
        )
        self._readings = self._jobs.told(told)

    def text(self, format_: TextFormat) -> Iterator[bytes]:
        """The last snapshot in pieces. Nothing where there is none yet."""
        if self._snapshot is None:
            return
        page = Exposition(format_)
        by_metric: dict[str, list[Reading]] = {}
        for each in self._readings:
            by_metric.setdefault(each.metric, []).append(each)
        for metric, family in OF_READINGS.items():
            points = (
                SeriesValue(each.labels, each.value, each.since_s) for each in by_metric.get(metric, ())
            )
            yield from page.family(family, points)
        for family, told in self._own(self._snapshot):
            yield from page.family(family, told)
        yield from page.family(families.LEFT_OUT, [SeriesValue((), page.left_out + self._jobs.left_out)])
        yield page.end()

    def _risen(self, reading: Reading) -> Reading:
        """Linux takes back idle time and iowait at times (proc_stat(5)), which would look like a reboot."""
        if reading.metric != _CPU:
            return reading
        value = self._highest[reading.labels] = max(reading.value, self._highest.get(reading.labels, 0.0))
        if value == reading.value:
            return reading
        return Reading(_CPU, reading.labels, value, reading.at_s, reading.since_s)

    def _own(self, seen: Snapshot) -> Iterator[tuple[MetricFamily, Iterable[SeriesValue]]]:
        """What is told beside readings."""
        yield families.NODE, [SeriesValue((seen.node, seen.machine, _version()), 1)]
        yield families.CORES, [SeriesValue((), seen.cores)]
        yield families.CPUS, [SeriesValue((), seen.cpus)]
        answered = {each.labels[0] for each in seen.readings if each.metric == "node_filesystem_size_bytes"}
        silent = {**dict.fromkeys(sorted(answered), 0), **dict.fromkeys(seen.silent, 1)}
        yield families.SILENT, [SeriesValue((source,), value) for source, value in silent.items()]
        yield (
            families.DIRECTORY,
            [
                SeriesValue((path, place.mount_point, place.kernel_type, place.device), 1)
                for path, place in seen.places.items()
            ],
        )
        yield (
            families.DIRECTORY_DISK,
            [SeriesValue((path, disk), 1) for path, place in seen.places.items() for disk in place.disks],
        )
        yield families.SAMPLES, [SeriesValue((), self._samples)]
        yield families.COST, [SeriesValue((), self._cost_s)]
        yield families.SAMPLED, [SeriesValue((), seen.time)]
        yield families.TOOK, [SeriesValue((), self._took_s)]


def _version() -> str:
    try:
        return version("gridwright")
    except PackageNotFoundError:
        return ""
