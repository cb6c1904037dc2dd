"""Samples this node and writes pages: `python -m gridwright.monitor.exporter.page_program`, by the exporter.

Stdin: a `PageOrder` as one line of JSON, then a letter for each page that is wanted: one of LETTERS for the
last sample again, a capital one for a new sample. Stdout: each page in pieces, with the length of each before
it, and a length of 0 at its end. It ends with its input.

It is a process of its own because one of whose threads hangs on a mount cannot end: the exporter ends in
time all the same, and leaves this one behind until the mount answers.

Snapshots of a node as a page of text; remembers what has to rise from one page to the next.

Which jobs have series of their own: those that moved most of each user, in turns, and one has all others.

What keeps series pays for each job for hours, so their number is bounded. The sum over all series rises as
the sum over all jobs does: a job that gets a series, or loses it, takes nothing with it. A user can have any
number of jobs by what processes say of themselves; their series take none of another user's.
"""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version

from gridwright.messages import MessageError, decode
from gridwright.monitor.exporter import metric_families
from gridwright.monitor.exporter.metric_families import (
    OF_READINGS,
    Exposition,
    MetricFamily,
    SeriesValue,
    TextFormat,
)
from gridwright.monitor.job_rows import OWNER, by_turns
from gridwright.monitor.readings import Reading, Snapshot
from gridwright.monitor.sampler import Sampler

MOST_JOBS = 100
OTHER = "other"
_JOB = "gridwright_job_"
_MOVED = ("gridwright_job_read_bytes_total", "gridwright_job_written_bytes_total")
_MUCH_MORE = 2.0
"""How much more a job has to have moved than the least of those with a series, to take its place."""


@dataclass(slots=True)
class JobSeries:
    """Remembers which jobs have a series, and what the others have done so far."""

    most: int = MOST_JOBS
    _own: set[str] = field(default_factory=set)
    _before: dict[tuple[str, ...], float] = field(default_factory=dict)
    """Counters of all jobs in the sample before."""
    _others: dict[tuple[str, ...], float] = field(default_factory=dict)
    """What counters of jobs without a series have risen by."""
    _began: bool = False
    left_out: int = 0
    """Readings of the last sample that are in the sum alone."""

    def bounded_series(self, readings: Iterable[Reading]) -> list[Reading]:
        """The same readings, with jobs that have no series of their own put together."""
        jobs: dict[str, list[Reading]] = {}
        users: dict[str, str] = {}
        found = []
        for reading in readings:
            if reading.metric == OWNER:
                users[reading.labels[0]] = reading.labels[1]
            elif reading.metric.startswith(_JOB):
                jobs.setdefault(reading.labels[0], []).append(reading)
            else:
                found.append(reading)
        self._choose(jobs, users)
        self.left_out = sum(len(those) for job, those in jobs.items() if job not in self._own)
        return [*found, *self._summed_jobs(jobs)]

    def _choose(self, jobs: dict[str, list[Reading]], users: dict[str, str]) -> None:
        def rank(job: str) -> tuple[float, bool, str]:
            moved = sum(reading.value for reading in jobs[job] if reading.metric in _MOVED)
            has_series = job in self._own
            return -moved * (_MUCH_MORE if has_series else 1.0), not has_series, job

        # A user may call a job as the sum is called.
        ranked = sorted(jobs.keys() - {OTHER}, key=rank)
        self._own = set(by_turns(ranked, lambda job: users.get(job, ""))[: self.most])

    def _summed_jobs(self, jobs: dict[str, list[Reading]]) -> Iterator[Reading]:
        before, self._before = self._before, {}
        sums: dict[tuple[str, ...], float] = {}
        at = 0.0
        for job, those in jobs.items():
            for reading in those:
                if reading.is_counter:
                    self._before[reading.key] = reading.value
                if job in self._own:
                    yield reading
                    continue
                at = max(at, reading.at_s)
                of = (reading.metric, *reading.labels[1:])
                if reading.is_counter:
                    # What a job did before it was first seen here is not known to be new.
                    last = before.get(reading.key, 0.0 if self._began else reading.value)
                    self._others[of] = self._others.get(of, 0.0) + max(0.0, reading.value - last)
                else:
                    sums[of] = sums.get(of, 0.0) + reading.value
        self._began = True
        for (metric, *more), value in {**self._others, **sums}.items():
            yield Reading(metric, (OTHER, *more), value, at)


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
        readings = (
            self._risen(reading)
            for reading in snapshot.readings
            if reading.metric in OF_READINGS or reading.metric == OWNER
        )
        self._readings = self._jobs.bounded_series(readings)

    def text(self, format_: TextFormat) -> Iterator[bytes]:
        """The last snapshot in pieces. Nothing where there is none yet."""
        if self._snapshot is None:
            return
        page = Exposition(format_)
        by_metric: dict[str, list[Reading]] = {}
        for reading in self._readings:
            by_metric.setdefault(reading.metric, []).append(reading)
        for metric, family in OF_READINGS.items():
            points = (
                SeriesValue(each.labels, each.value, each.since_s) for each in by_metric.get(metric, ())
            )
            yield from page.family(family, points)
        for family, told in self._own(self._snapshot):
            yield from page.family(family, told)
        yield from page.family(
            metric_families.LEFT_OUT, [SeriesValue((), page.left_out + self._jobs.left_out)]
        )
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
        yield metric_families.NODE, [SeriesValue((seen.node, seen.machine, _version()), 1)]
        yield metric_families.CORES, [SeriesValue((), seen.cores)]
        yield metric_families.CPUS, [SeriesValue((), seen.cpus)]
        answered = {
            reading.labels[0] for reading in seen.readings if reading.metric == "node_filesystem_size_bytes"
        }
        silent = {**dict.fromkeys(sorted(answered), 0), **dict.fromkeys(seen.silent, 1)}
        yield metric_families.SILENT, [SeriesValue((source,), value) for source, value in silent.items()]
        yield (
            metric_families.DIRECTORY,
            [
                SeriesValue((path, place.mount_point, place.kernel_type, place.device), 1)
                for path, place in seen.places.items()
            ],
        )
        yield (
            metric_families.DIRECTORY_DISK,
            [SeriesValue((path, disk), 1) for path, place in seen.places.items() for disk in place.disks],
        )
        yield metric_families.SAMPLES, [SeriesValue((), self._samples)]
        yield metric_families.COST, [SeriesValue((), self._cost_s)]
        yield metric_families.SAMPLED, [SeriesValue((), seen.time)]
        yield metric_families.TOOK, [SeriesValue((), self._took_s)]


def _version() -> str:
    try:
        return version("gridwright")
    except PackageNotFoundError:
        return ""


LETTERS = {b"o": TextFormat.OPENMETRICS, b"p": TextFormat.PLAIN}
HEAD = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class PageOrder:
    """What pages are wanted."""

    directories: tuple[str, ...] = ()
    """Paths of libraries."""


@dataclass(slots=True)
class _Pages:
    """The page, with a new sample where that is asked for, or where there is none yet."""

    sampler: Sampler
    page: MetricsPage = field(default_factory=MetricsPage)

    def pieces(self, format_: TextFormat, *, new: bool) -> Iterable[bytes]:
        if new or not self.page.has_sample:
            began = time.monotonic()
            snapshot = self.sampler.sample()
            self.page.take(snapshot, time.monotonic() - began)
        return self.page.text(format_)


def main() -> int:
    """Answer what is asked on stdin."""
    # The exporter ends it: what a terminal sends to both is for the exporter alone.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        order = decode(sys.stdin.buffer.readline(), PageOrder)
    except MessageError as error:
        print(f"the order cannot be read: {error}", file=sys.stderr)  # noqa: T201 - for who asked
        return 2
    pages = _Pages(Sampler(order.directories))
    while letter := sys.stdin.buffer.read(1):
        for piece in pages.pieces(LETTERS[letter.lower()], new=letter.isupper()):
            if piece:
                _write(HEAD.pack(len(piece)) + piece)
        _write(HEAD.pack(0))
    return 0


def _write(data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(1, left) :]


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        # Threads that hang would hold up an orderly end.
        os._exit(main())
    os._exit(1)
