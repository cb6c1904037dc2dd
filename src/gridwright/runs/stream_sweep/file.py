"""Writes and loads `sweep.json`, the record of a sweep in its run directory."""

from __future__ import annotations

from pathlib import Path

from gridwright.atomic import write_atomically
from gridwright.errors import environment_error
from gridwright.runs.phase_record import Status
from gridwright.runs.record_file import load_record
from gridwright.runs.stream_sweep.drive import at_end
from gridwright.runs.stream_sweep.record import StreamSweepRecord

SWEEP_FILE = "sweep.json"
STEPS = "steps"
"""Directory of the steps' own run directories."""


def write_sweep(run: Path, record: StreamSweepRecord) -> None:
    """Write the record as it stands. Raises GridwrightError."""
    try:
        write_atomically(run / SWEEP_FILE, record.model_dump_json(by_alias=True, indent=1) + "\n")
    except OSError as error:
        raise environment_error(
            f"the sweep's record cannot be written: {error.strerror}",
            where=str(run / SWEEP_FILE),
            remedy=f"the steps so far are in {run / STEPS}; free space, and run it again",
        ) from error


def load_sweep(run: Path, status: Status) -> StreamSweepRecord | None:
    """Load the sweep of a run whose status is known; None if it holds none.

    Raises GridwrightError if it is damaged.
    """
    found = load_record(run / SWEEP_FILE, StreamSweepRecord)
    return None if found is None else at_end(found, status)
