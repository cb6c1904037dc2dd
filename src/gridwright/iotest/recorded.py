"""A test that leaves a run directory behind, whatever happens to it."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence

from gridwright.errors import ExitStatus
from gridwright.iotest.options import IotestOptions, LibraryTarget
from gridwright.iotest.session import Session
from gridwright.runs.directory import LOGS, RunDirectory
from gridwright.runs.records import IotestRecord, Status
from gridwright.runs.worker_process import Observer

_STATUS: dict[ExitStatus, Status] = {
    ExitStatus.DONE: "complete",
    ExitStatus.INTERRUPTED: "interrupted",
}


def run_iotest(
    run: RunDirectory,
    targets: Sequence[LibraryTarget],
    options: IotestOptions,
    *,
    observers: Sequence[Observer],
    stop: threading.Event,
    silenced: Collection[str] = (),
) -> ExitStatus:
    """Test the libraries and journal every event; returns how that ended, without a judgement.

    Raises GridwrightError if the run directory cannot be written to.
    """
    return Session([run, *observers], run.path / LOGS, stop, silenced).run(targets, options)


def record_iotest(
    run: RunDirectory,
    targets: Sequence[LibraryTarget],
    options: IotestOptions,
    *,
    observers: Sequence[Observer],
    stop: threading.Event,
    silenced: Collection[str] = (),
) -> tuple[IotestRecord, ExitStatus]:
    """Test the libraries, journal every event, write the results; returns them and the exit status.

    Raises GridwrightError if the run directory cannot be written to.
    """
    ended = run_iotest(run, targets, options, observers=observers, stop=stop, silenced=silenced)
    result = run.finish(run_status(ended)).iotest
    if result is None:
        raise RuntimeError("a run of iotest left no record of it")
    return result, judged(ended, result)


def run_status(ended: ExitStatus) -> Status:
    """How a run stands that ended so."""
    return _STATUS.get(ended, "failed")


def judged(ended: ExitStatus, result: IotestRecord) -> ExitStatus:
    """The exit status of a test: missed also where something was required and nothing counts."""
    if ended != ExitStatus.DONE:
        return ended
    required = any(library.requires_bytes_per_s_per_core is not None for library in result.libraries)
    missed = result.met is False or (required and result.met is not True)
    return ExitStatus.MISSED if missed else ExitStatus.DONE
