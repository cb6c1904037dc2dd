"""A test that leaves a run directory behind, whatever happens to it."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gridwright.errors import ExitStatus
from gridwright.iotest.options import IotestOptions, LibraryTarget
from gridwright.iotest.session import Session
from gridwright.iotest.targets import in_layouts
from gridwright.runs.directory import LOGS, RunDirectory
from gridwright.runs.iotest_events import IotestEvent, RepeatBegun
from gridwright.runs.phase_record import Status
from gridwright.runs.records import IotestRecord
from gridwright.runs.worker_process import Observer

if TYPE_CHECKING:
    from gridwright.iotest.coordinator.coordinator import Fleet

_NODE_FAILURES = frozenset({"node-lost", "node-failed"})
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
    return result, judged(ended, result)


def run_status(ended: ExitStatus) -> Status:
    """How a run stands that ended so."""
    return _STATUS.get(ended, "failed")


def judged(ended: ExitStatus, result: IotestRecord) -> ExitStatus:
    """The exit status of a test: missed also where something was required and nothing counts.

    A node that failed while the others went on is a failure of the environment, whatever these measured.
    """
    if ended != ExitStatus.DONE:
        return ended
    if any(finding.name in _NODE_FAILURES for finding in result.findings):
        return ExitStatus.ENVIRONMENT
    missed = result.met is False or (result.requires_something and result.met is not True)
    return ExitStatus.MISSED if missed else ExitStatus.DONE
