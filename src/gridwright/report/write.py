"""Builds the report of a run directory and puts it there."""

from __future__ import annotations

import shlex
from pathlib import Path

from gridwright.atomic import write_atomically
from gridwright.errors import environment_error
from gridwright.report.page import ReportInput, render_report
from gridwright.report.stream_sweep.page import sweep_page
from gridwright.runs.directory import REPORT_FILE, LoadedRun, load_run
from gridwright.runs.record_file import figures_of


def write_report(run: Path, out: Path | None = None) -> Path:
    """Write `report.html` into the run directory, or to `out`; returns its path.

    Raises GridwrightError if the run cannot be loaded or the file cannot be written.
    """
    loaded = load_run(run)
    path = out if out is not None else run / REPORT_FILE
    with figures_of(run):
        page = _page(loaded)
    try:
        write_atomically(path, page)
    except OSError as error:
        raise environment_error(
            f"the report cannot be written: {error.strerror}",
            where=str(path),
            remedy="give another place with --out FILE",
        ) from error
    return path


def _page(loaded: LoadedRun) -> str:
    command = shlex.join(loaded.run.command)
    if loaded.sweep is not None:
        return sweep_page(loaded.sweep, loaded.run, command)
    return render_report(
        ReportInput(
            run=loaded.run,
            iotest=loaded.iotest,
            samples=loaded.samples,
            repeat_command=command,
            workload=loaded.workload,
        )
    )
