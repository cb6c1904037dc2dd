"""Drives one phase in the worker: samples, progress, steadiness, stalls, and the order to stop.

What the file system's client says of the phase beside the engine is read here, too.
"""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import psutil

from gridwright.commands import run_here
from gridwright.errors import GridwrightError
from gridwright.filesystems.counters import Counts, ReadCounts, traffic
from gridwright.filesystems.health import UNREACHED, Run
from gridwright.filesystems.kind import TargetReports
from gridwright.filesystems.mounts import LibraryMount
from gridwright.filesystems.watching import kind_mounted_as, watcher_of
from gridwright.interference.watch import LoadWatch
from gridwright.iotest.engine import Phase, PhasePlan, Sample
from gridwright.iotest.options import IotestOptions
from gridwright.iotest.outcome import Outcome
from gridwright.iotest.steadiness import FlushForecast, StallWatch, Steadiness, unflushed_bytes
from gridwright.runs.iotest_events import Progress
from gridwright.runs.load_record import NodeLoad
from gridwright.runs.phase_record import Steady
from gridwright.runs.samples import Measured


@dataclass(slots=True)
class ClientView:
    """Asks the client of a mounted file system; says nothing where its kind cannot be asked."""

    mount_point: str
    run: Run = run_here
    filesystem_type: str = ""
    """As the kernel has it."""
    _reports: TargetReports | None = field(init=False, default=None)
    _counts: ReadCounts | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        """Find what counts, and what knows its targets."""
        kind = kind_mounted_as(self.filesystem_type)
        self._reports = kind if isinstance(kind, TargetReports) else None
        watcher = watcher_of(self.filesystem_type)
        self._counts = watcher.mount_counters(self.run, self.mount_point) if watcher else None

    @classmethod
    def of(cls, mount: LibraryMount) -> ClientView:
        """That of a library's file system."""
        return cls(mount.mount_point, filesystem_type=mount.filesystem_type)

    def counts(self) -> Counts | None:
        """What it has moved until now; None where it does not tell, as without root."""
        try:
            return self._counts() if self._counts else None
        except GridwrightError:
            return None

    def with_client_counts(self, outcome: Outcome, before: Counts | None) -> Outcome:
        """The outcome of a phase with what the client adds; `before`: what it had moved until then."""
        outcome = replace(outcome, cached_fraction=self._cached(outcome, before))
        failure = outcome.failure
        if failure is None or self._reports is None:
            return outcome
        if failure.errno == errno.ENOSPC:
            detail = self._reports.no_space(self.run, self.mount_point, failure.path)
        else:
            detail = self.unreached() if failure.errno in UNREACHED else None
        return replace(outcome, failure=replace(failure, detail=detail or ""))

    def unreached(self) -> str | None:
        """Which parts of the file system the client does not reach now; None where it tells of none."""
        return self._reports.unreached(self.run, self.mount_point) if self._reports else None

    def _cached(self, outcome: Outcome, before: Counts | None) -> float | None:
        """The part of the reads that no server delivered meanwhile, or whose pages were in memory before.

        Other readers of the node make it too small, never too large; so the larger one counts.
        """
        after = self.counts() if before is not None and outcome.read_bytes else None
        if before is None or after is None:
            return outcome.cached_fraction
        fetched = fetched_bytes(before, after)
        if fetched is None:
            return outcome.cached_fraction
        return max(outcome.cached_fraction or 0.0, 1.0 - min(1.0, fetched / outcome.read_bytes))


def fetched_bytes(before: Mapping[str, Any], after: Mapping[str, Any]) -> int | None:
    """Bytes that were read from servers between two readings; None where a count was cleared meanwhile."""
    moved = traffic(before, after)
    return sum(each.read_bytes for each in moved) if len(moved) == len(after) and after else None


Live = Callable[[Measured | Progress], None]
"""Hears what is measured while a phase runs."""
Gate = Callable[[Phase], None]
"""Lets a phase that is held go, or stops it. Raises Stalled where it is never ready."""

_POLL_S = 0.05
_PROGRESS_S = 0.25
_STOP_S = 10.0
"""A stream that has not stopped after this time hangs in the kernel."""
_STILL_S = 2.0
"""So does one of whose file, which was emptied, no page goes away."""


class Stalled(Exception):
    """No byte moved for a long time; `hung` if the streams cannot even be stopped."""

    def __init__(self, seconds: float, *, hung: bool) -> None:
        super().__init__(f"no byte moved for {seconds:.0f} s")
        self.seconds = seconds
        self.hung = hung


@dataclass(frozen=True, slots=True)
class Driven:
    """What came of a phase."""

    outcome: Outcome
    load: NodeLoad | None
    """Of the node, meanwhile."""
    steady: Steady | None
    history: Sequence[Sample]
    """What had been done by each sample."""


def drive(
    plan: PhasePlan,
    options: IotestOptions,
    *,
    device: str | None,
    live: Live,
    stop: threading.Event,
    watch: LoadWatch | None = None,
    gate: Gate | None = None,
    client: ClientView | None = None,
) -> Driven:
    """Run a phase to its end, or until `stop` is set. Raises Stalled, and OSError at its start.

    With a `gate` the streams are held, prepared, until it lets them go. A `client` adds what it knows.
    """
    moved = client.counts() if client else None
    begin = watch.look() if watch else None
    phase = Phase(plan, options, held=gate is not None)
    if gate is not None:
        gate(phase)
        begin = watch.now() if watch else None
    reporter = _Reporter(phase, device, live)
    steadiness = Steadiness(options.until_steady_s)
    stall = StallWatch()
    while not phase.wait(_POLL_S):
        reporter.report()
        if watch:
            watch.tick()
        if steadiness.reached(reporter.history, syncing=phase.syncing()):
            phase.finish()
        if stop.is_set():
            _stop(phase)
            break
        flushed = phase.unwritten_pages if phase.syncing() else None
        quiet = stall.quiet_s(phase.progress(), flushed)
        if quiet > options.stall_s:
            phase.stop(discard=False)
            raise Stalled(quiet, hung=not phase.wait(_STOP_S / 5))
    reporter.report()
    load = watch.between(begin, watch.look()) if watch and begin else None
    outcome = phase.result()
    return Driven(
        client.with_client_counts(outcome, moved) if client else outcome,
        load,
        steadiness.result(reporter.history),
        reporter.history,
    )


def _stop(phase: Phase) -> None:
    phase.stop(discard=True)
    began = moved = time.monotonic()
    left: int | None = None
    while not phase.wait(_POLL_S):
        # An fsync that began after the first order is emptied by the next.
        phase.stop(discard=True)
        now = time.monotonic()
        pages = phase.unwritten_pages()
        if pages is None or left is None or pages < left:
            left, moved = pages, now
        if now - began > _STOP_S or now - moved > _STILL_S:
            raise Stalled(now - began, hung=True)


@dataclass(slots=True)
class _Reporter:
    phase: Phase
    device: str | None
    live: Live
    history: list[Sample] = field(default_factory=list)
    forecast: FlushForecast = field(default_factory=FlushForecast)
    _shown: float = 0.0
    _machine: _Machine | None = None

    def report(self) -> None:
        self._machine = self._machine or _Machine(self.device)
        for sample in self.phase.new_samples():
            before = self.history[-1] if self.history else Sample(0.0, 0, 0, 0)
            self.history.append(sample)
            self.live(
                Measured(
                    elapsed_s=sample.elapsed_s,
                    interval_s=sample.elapsed_s - before.elapsed_s,
                    read_bytes=sample.read_bytes - before.read_bytes,
                    written_bytes=sample.written_bytes - before.written_bytes,
                    operations=sample.operations - before.operations,
                    **self._machine.sample(),
                )
            )
        now = time.monotonic()
        if now - self._shown >= _PROGRESS_S:
            self._shown = now
            self.live(self._progress(now))

    def _progress(self, now: float) -> Progress:
        done = self.phase.progress()
        # Of a file system without a device here, nobody knows what its client holds back.
        unflushed = unflushed_bytes() if self.device and done.written_bytes else None
        if unflushed is not None:
            self.forecast.see(now, done.written_bytes, unflushed)
        return Progress(self.phase.syncing(), *done, unflushed_bytes=unflushed, flush_s=self.forecast.seconds)


class _Machine:
    """What the node as a whole does meanwhile."""

    def __init__(self, device: str | None) -> None:
        self._device = device
        self._counters = self._read()
        psutil.cpu_percent()

    def sample(self) -> dict[str, Any]:
        before, self._counters = self._counters, self._read()
        memory = psutil.virtual_memory()
        read, written = (
            (self._counters[0] - before[0], self._counters[1] - before[1])
            if before is not None and self._counters is not None
            else (None, None)
        )
        return {
            "cpu_percent": psutil.cpu_percent(),
            "memory_used_bytes": memory.total - memory.available,
            "device": self._device,
            "device_read_bytes": read,
            "device_written_bytes": written,
        }

    def _read(self) -> tuple[int, int] | None:
        if self._device is None:
            return None
        counters = psutil.disk_io_counters(perdisk=True).get(self._device)
        return (counters.read_bytes, counters.write_bytes) if counters else None
