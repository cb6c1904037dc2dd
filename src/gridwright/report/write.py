"""Builds the report of a run directory and puts it there."""

from __future__ import annotations

import errno
import os
import shlex
from pathlib import Path

from gridwright.atomic import write_atomically
from gridwright.errors import environment_error
from gridwright.handed_files import open_file
from gridwright.refusals import refusal
from gridwright.report.page import ReportInput, render_report
from gridwright.report.stream_sweep.page import sweep_page
from gridwright.runs.directory import REPORT_FILE, LoadedRun, load_run
from gridwright.runs.record_file import figures_of

_MAY_NOT = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


def write_report(run: Path, out: Path | None = None) -> Path:
    """Write `report.html` into the run directory, or to `out`; returns its path.

    Where this user may write nothing beside a run, as beside one of another user's, the report that is there
    and newer than what was measured is the one. Raises GridwrightError if the run cannot be loaded or the
    file cannot be written.
    """
    loaded = load_run(run)
    path = out if out is not None else run / REPORT_FILE
    with figures_of(run):
        page = _page(loaded)
    try:
        write_atomically(path, page)
    except OSError as error:
        if out is None and error.errno in _MAY_NOT and _is_current(path):
            return path
        why = refusal(path, error, "give another place with --out FILE", writes=True)
        raise environment_error(
            f"the report cannot be written: {why.reason}", where=str(path), remedy=why.remedy
        ) from error
    return path


def _is_current(report: Path) -> bool:
    """Whether a report can be read, and nothing of its run was written after it."""
    try:
        with open_file(report, follows=False) as file:
            written = os.fstat(file.fileno()).st_mtime_ns
        rest = [entry.stat() for entry in report.parent.iterdir() if entry.is_file() and entry != report]
    except OSError:
        return False
    return all(each.st_mtime_ns <= written for each in rest)


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
