"""Runs the workload for its verbs: on the grid of a spec, recorded, and shown; launch profiles of a run."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from gridwright.cli.output import LazyResult, Output, plain
from gridwright.cli.verbosity import say
from gridwright.errors import ExitStatus, GridwrightError

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping

    from gridwright.errors import Finding
    from gridwright.runs.directory import RunDirectory
    from gridwright.runs.profiles import Profiles
    from gridwright.runs.records import RunRecord
    from gridwright.runs.workload_record import WorkloadRecord
    from gridwright.spec import GridSpec
    from gridwright.workload.matrix import Matrix
    from gridwright.workload.options import WorkloadOptions
    from gridwright.workload.session import OnGrid


def load_with_place(file: Path | None, matrix: Matrix | None) -> tuple[GridSpec, OnGrid | None]:
    """Load the spec of a grid to run a matrix on, and how to run it there; see on_grid."""
    from gridwright.cli.spec_file import load_placed, note_this_machine
    from gridwright.grid.grid import Grid
    from gridwright.workload.session import on_grid

    spec = load_placed(file)
    place = on_grid(Grid.open(spec), matrix)
    if place is None:
        note_this_machine(spec)
    return spec, place


def carry_out(
    run: RunDirectory,
    options: WorkloadOptions,
    spec: GridSpec,
    libraries: Mapping[str, Path],
    place: OnGrid | None,
    stop: threading.Event | None = None,
) -> tuple[ExitStatus, WorkloadRecord]:
    """Run the workload on the grid with its display; returns how it ended, and the record it left.

    `stop` is set by orders to stop; None has them looked for here.
    """
    from gridwright.cli.interrupt import stop_on_signals
    from gridwright.cli.prove.workload_progress import workload_display
    from gridwright.iotest.recorded import run_status
    from gridwright.workload.options import needs_of
    from gridwright.workload.session import run_workload

    display = workload_display()
    try:
        with nullcontext(stop) if stop else stop_on_signals() as stopped:
            ended = run_workload(
                run,
                options,
                libraries,
                observers=[display],
                stop=stopped,
                silenced=spec.silence,
                grid=place,
                needs=needs_of(spec),
            )
            result = run.finish(run_status(ended)).workload
    finally:
        display.close()
    if result is None:
        raise RuntimeError("a run of the workload left no record of it")
    return ended, result


def show_workload(
    run: RunDirectory,
    result: WorkloadRecord,
    *,
    json: bool,
    more: Mapping[str, object] | None = None,
    ending: Callable[[], str] = str,
) -> None:
    """Write the report of a run, and print its record.

    `more` are further keys of the JSON document, `ending` makes the text that stands below the tables.
    """
    from gridwright.report.page import write_report

    report = write_report(run.path)

    def text() -> str:
        from gridwright.report.terminal.workload import workload_text

        return f"{workload_text(result)}{ending()}run: {run.path}\nreport: {report}"

    document = LazyResult(document=lambda: plain(result) | dict(more or {}), text=text)
    Output("workload", json=json).show(document)


def write_profiles(
    out: Path, run: RunRecord, workload: WorkloadRecord, *, rate: float | None = None
) -> tuple[Profiles, list[Finding]]:
    """Write the profiles of a run and say so on stderr. Raises GridwrightError."""
    from gridwright.runs.profiles import DEFAULT_RATE, profiles_of, save_profiles
    from gridwright.workload.datasets.catalogue import data_bytes

    profiles, findings = profiles_of(run, workload, data_bytes=data_bytes(), rate=rate or DEFAULT_RATE)
    save_profiles(out, profiles)
    say(f"profiles: {out} ({len(profiles.profiles)} tests, scale {profiles.scale})")
    for finding in findings:
        typer.echo(str(finding), err=True)
    return profiles, findings


def write_profiles_after_run(
    out: Path, run: RunRecord, workload: WorkloadRecord, status: ExitStatus
) -> ExitStatus:
    """Write the profiles of a run whose results are printed already.

    What goes wrong is said on stderr; returns the exit status, which was `status` so far.
    """
    try:
        write_profiles(out, run, workload)
    except GridwrightError as error:
        for problem in error.problems:
            typer.echo(f"error: {problem}", err=True)
        return error.status if status == ExitStatus.DONE else status
    return status
