"""What `gridwright workload` does with its flags."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from gridwright.cli.arguments import DEFAULT_RUNS, Reader
from gridwright.cli.interrupt import stop_on_signals
from gridwright.cli.prove.iotest_run import typed_command
from gridwright.cli.prove.workload_progress import workload_display
from gridwright.cli.spec_file import load_placed, note_this_machine
from gridwright.errors import ExitStatus, GridwrightError

if TYPE_CHECKING:
    from gridwright.runs.records import Status
    from gridwright.spec import GridSpec
    from gridwright.workload.options import WorkloadOptions
    from gridwright.workload.session import OnGrid


@dataclass(frozen=True, slots=True)
class WorkloadFlags:
    """The flags as typed."""

    file: Path | None = None
    matrix: str = "quick"
    scale: str = "small"
    streams: int | None = None
    seed: int = 1
    memory: str | None = None
    time_limit: str | None = None
    threads: int | None = None
    keep: bool = False
    profile: Path | None = None
    runs: Path = DEFAULT_RUNS
    json: bool = False


def run_workload_command(flags: WorkloadFlags) -> ExitStatus:
    """Run the workload and print its tables; returns the exit status. Raises GridwrightError."""
    from gridwright.cli.prove.workload_profile import check_place, write_profiles_after_run
    from gridwright.report.terminal.workload import print_workload
    from gridwright.report.write import write_report
    from gridwright.runs.directory import RunDirectory
    from gridwright.workload.options import library_directories
    from gridwright.workload.session import judged, run_workload

    reader = Reader()
    reader.add(check_place(flags.profile))
    options = reader.finish(read_workload_options(flags, reader))
    spec, place = load_with_place(flags.file)
    libraries = library_directories(spec)
    run = RunDirectory.create(
        flags.runs,
        spec.name,
        command=typed_command(),
        what=["workload"],
        spec_path=str(spec.file) if spec.file else None,
        spec_text=spec.source_text,
    )
    display = workload_display()
    try:
        with stop_on_signals() as stop:
            ended = run_workload(
                run,
                options,
                libraries,
                observers=[display],
                stop=stop,
                silenced=spec.silence,
                grid=place,
            )
            result = run.finish(status_of(ended)).workload
    finally:
        display.close()
    if result is None:
        raise RuntimeError("a run of the workload left no record of it")
    report = write_report(run.path)
    if flags.json:
        typer.echo(result.model_dump_json(by_alias=True, indent=2))
    else:
        print_workload(result)
        typer.echo(f"run: {run.path}")
        typer.echo(f"report: {report}")
    status = judged(ended, result)
    if flags.profile is not None and ended == ExitStatus.DONE:
        status = write_profiles_after_run(flags.profile, run.record, result, status)
    return status


def load_with_place(file: Path | None) -> tuple[GridSpec, OnGrid | None]:
    """Load the spec of a grid to run the workload on, and how to run it there. Raises GridwrightError."""
    from gridwright.grid.grid import Grid
    from gridwright.workload.on_grid import on_grid

    spec = load_placed(file)
    place = on_grid(Grid.open(spec))
    if place is None:
        note_this_machine(spec)
    return spec, place


def status_of(ended: ExitStatus) -> Status:
    """How a run stands that ended so."""
    from gridwright.iotest.recorded import run_status

    return run_status(ended)


def read_workload_options(flags: WorkloadFlags, reader: Reader) -> WorkloadOptions | None:
    """Check the flags together; None if the reader has found something wrong."""
    from gridwright.workload import scales
    from gridwright.workload.engines import absent_engines
    from gridwright.workload.matrix import load_matrix
    from gridwright.workload.options import WorkloadOptions, check_options

    if flags.scale not in scales.NAMES:
        reader.choice(flags.scale, scales.NAMES, "--scale")
    memory = reader.size("--memory", flags.memory)
    time_limit = reader.seconds("--time-limit", flags.time_limit)
    reader.add(
        check_options(
            streams=flags.streams,
            seed=flags.seed,
            memory_bytes=memory,
            time_limit_s=time_limit,
            threads=flags.threads,
        )
    )
    try:
        matrix = load_matrix(flags.matrix)
    except GridwrightError as error:
        reader.add(error.problems)
        return None
    lacking = absent_engines()
    if lacking and any(entry.test for stream in matrix.streams for entry in stream):
        reader.problem(
            f"the engines of the tests are not installed: {', '.join(lacking)}",
            "this Python",
            "run: pip install 'gridwright[workload]'",
        )
    if reader.wrong:
        return None
    return WorkloadOptions(
        matrix=matrix.with_streams(flags.streams) if flags.streams else matrix,
        scale=scales.scale(flags.scale),
        seed=flags.seed,
        memory_bytes=memory,
        time_limit_s=time_limit,
        threads=flags.threads,
        keep=flags.keep,
    )
