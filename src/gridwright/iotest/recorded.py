"""A test of libraries, one after the other, that leaves a run directory behind, whatever happens to it.

The command never touches a library itself; see `gridwright.runs.worker_process`.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gridwright.errors import ExitStatus, Problem
from gridwright.iotest.messages import REQUESTS, LibraryRequest, RemoveStale
from gridwright.iotest.options import IotestOptions, LibraryTarget
from gridwright.machine import physical_cores
from gridwright.runs.directory import LOGS, RunDirectory
from gridwright.runs.iotest_events import IOTEST_EVENTS, IotestEvent, LibraryDone, RepeatBegun
from gridwright.runs.journal import is_silenced
from gridwright.runs.phase_record import Status
from gridwright.runs.records import IotestRecord
from gridwright.runs.worker_process import GRACE_S, Observer, WorkerProcess
from gridwright.spec import GridSpec

if TYPE_CHECKING:
    from gridwright.iotest.coordinator.coordinator import Fleet


def library_targets(spec: GridSpec) -> list[LibraryTarget]:
    """All libraries of the spec, in its order, as this node sees them."""
    cores = physical_cores()
    return [
        LibraryTarget(
            library=name,
            path=str(spec.library_directory(name)),
            filesystem=library.filesystem,
            requires_bytes_per_s_per_core=float(library.requires.bytes_per_s) if library.requires else None,
            cores=cores,
        )
        for name, library in spec.libraries.items()
    ]


def directory_target(directory: Path, name: str, requires: float | None) -> LibraryTarget:
    """One directory, required to give `requires` bytes/s per core."""
    return LibraryTarget(
        library=name,
        path=str(directory.absolute()),
        filesystem=None,
        requires_bytes_per_s_per_core=requires,
        cores=physical_cores(),
    )


def in_layouts(targets: Sequence[LibraryTarget], repeat: int) -> list[LibraryTarget]:
    """The tests of one repeat: each library once, and where layouts are compared once in each, side by side.

    The library's own layout comes first in odd repeats, and the chosen one in even ones (ABBA).
    """
    tests: list[LibraryTarget] = []
    for target in targets:
        if target.layout is None:
            tests.append(target)
            continue
        for chosen in (False, True) if repeat % 2 else (True, False):
            tests.append(replace(target, layout=replace(target.layout, chosen=chosen)))
    return tests


class Session:
    """Tests libraries and tells observers; `stop` may be set at any time from a signal handler."""

    def __init__(
        self,
        observers: Sequence[Observer[IotestEvent]],
        logs: Path,
        stop: threading.Event,
        silenced: Collection[str] = (),
        run: str = "",
    ) -> None:
        """Make a session; findings named in `silenced` are told to nobody, unless they are errors."""
        self._observers = observers
        self._logs = logs
        self._stop = stop
        self._silenced = silenced
        self._run = run

    def run(self, targets: Sequence[LibraryTarget], options: IotestOptions) -> ExitStatus:
        """Test each library; returns the worst status, 0 if all could be tested.

        After a failure of one library the others are still tested. Raises GridwrightError if a worker cannot
        be started.
        """
        worst = ExitStatus.DONE
        for target in targets:
            if self._stop.is_set():
                break
            status = self._library(target, options)
            worst = max(worst, status)
        return ExitStatus.INTERRUPTED if self._stop.is_set() else worst

    def _library(self, target: LibraryTarget, options: IotestOptions) -> ExitStatus:
        done: LibraryDone | None = None
        request = REQUESTS.plain(LibraryRequest(target, options, self._run))
        log = self._logs / f"iotest-{target.library}.log"
        with WorkerProcess(_WORKER, request, log) as worker:
            for event in map(IOTEST_EVENTS.read, worker.events(self._stop)):
                if event is None or is_silenced(event, self._silenced):
                    continue
                for observer in self._observers:
                    observer.take(event)
                if isinstance(event, LibraryDone):
                    # Its last word; one whose threads hang says it and does not end.
                    done = event
                    worker.expect_end()
                    break
        if done is None:
            self._lost(target, worker)
            if not worker.hangs:
                _tidy(target)
            return ExitStatus.ENVIRONMENT
        return done.exit

    def _lost(self, target: LibraryTarget, worker: WorkerProcess) -> None:
        for event in (
            Problem(
                what=f"library {target.library}: {worker.end}",
                where=target.path,
                remedy=f"check the mount (`mount`, `dmesg`) and {worker.log}",
            ),
            LibraryDone(status="failed", exit=ExitStatus.ENVIRONMENT),
        ):
            for observer in self._observers:
                observer.take(event)


_WORKER = "gridwright.iotest.worker"


def _tidy(target: LibraryTarget) -> None:
    """Have what a killed worker left removed; what cannot be is removed by the next test."""
    request = REQUESTS.encode(RemoveStale(target.path)) + b"\n"
    with contextlib.suppress(subprocess.SubprocessError, OSError):
        # Not subprocess.run: past its time it would wait for a process that cannot be killed.
        tidier = subprocess.Popen(
            [sys.executable, "-P", "-m", _WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        with contextlib.suppress(subprocess.TimeoutExpired):
            tidier.communicate(request, timeout=GRACE_S)


_STATUS: dict[ExitStatus, Status] = {
    ExitStatus.DONE: "complete",
    ExitStatus.INTERRUPTED: "interrupted",
}


def run_iotest(
    run: RunDirectory,
    targets: Sequence[LibraryTarget],
    options: IotestOptions,
    *,
    observers: Sequence[Observer[IotestEvent]],
    stop: threading.Event,
    silenced: Collection[str] = (),
    fleet: Fleet | None = None,
) -> ExitStatus:
    """Test the libraries and journal every event; returns how that ended, without a judgement.

    With a `fleet`, on all its nodes at once, else on this one. Raises GridwrightError if the run directory
    cannot be written to, or workers cannot be started at all. A test that is to be repeated ends with the
    first repeat that does not end well; what was measured until then stays.
    """
    told = [run, *observers]
    ended = ExitStatus.DONE
    for number in range(1, options.repeat + 1):
        if options.repeat > 1:
            for observer in told:
                observer.take(RepeatBegun(number=number, of=options.repeat))
        # Each repeat has files of its own; those of the last are the ones to be kept.
        once = options if number == options.repeat else replace(options, keep=False)
        ended = _run_once(run, in_layouts(targets, number), once, told, stop, silenced, fleet)
        if ended != ExitStatus.DONE:
            break
    return ended


def _run_once(
    run: RunDirectory,
    targets: Sequence[LibraryTarget],
    options: IotestOptions,
    observers: Sequence[Observer[IotestEvent]],
    stop: threading.Event,
    silenced: Collection[str],
    fleet: Fleet | None,
) -> ExitStatus:
    logs = run.path / LOGS
    if fleet is None:
        return Session(observers, logs, stop, silenced, run.path.name).run(targets, options)
    from gridwright.iotest.coordinator.session import GridSession

    return GridSession(observers, fleet, logs, stop, silenced, run.path.name).run(targets, options)


def record_iotest(
    run: RunDirectory,
    targets: Sequence[LibraryTarget],
    options: IotestOptions,
    *,
    observers: Sequence[Observer[IotestEvent]],
    stop: threading.Event,
    silenced: Collection[str] = (),
    fleet: Fleet | None = None,
) -> tuple[IotestRecord, ExitStatus]:
    """Test the libraries, journal every event, write the results; returns them and the exit status.

    Raises GridwrightError as `run_iotest` does.
    """
    ended = run_iotest(run, targets, options, observers=observers, stop=stop, silenced=silenced, fleet=fleet)
    result = run.finish(run_status(ended)).iotest
    if result is None:
        raise RuntimeError("a run of iotest left no record of it")
    return result, run.exit_status(ended)


def run_status(ended: ExitStatus) -> Status:
    """How a run stands that ended so."""
    return _STATUS.get(ended, "failed")
