"""A test that leaves a run directory behind, whatever happens to it."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence

from gridwright.errors import ExitStatus
from gridwright.iotest.options import IotestOptions, LibraryTarget
from gridwright.iotest.session import Observer, Session
from gridwright.runs.directory import LOGS, RunDirectory
from gridwright.runs.records import IotestRecord, Status

_STATUS: dict[ExitStatus, Status] = {
    ExitStatus.DONE: "complete",
    ExitStatus.INTERRUPTED: "interrupted",
}


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
    session = Session([run, *observers], run.path / LOGS, stop, silenced)
    ended = session.run(targets, options)
    result = run.finish(_STATUS.get(ended, "failed"))
    if ended != ExitStatus.DONE:
        return result, ended
    required = any(library.requires_bytes_per_s_per_core is not None for library in result.libraries)
    missed = result.met is False or (required and result.met is not True)
    return result, ExitStatus.MISSED if missed else ExitStatus.DONE
