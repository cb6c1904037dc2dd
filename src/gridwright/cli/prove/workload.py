"""`gridwright workload`: the mixed analytics workload, and jobs of a site's own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from gridwright.cli.arguments import (
    DEFAULT_RUNS,
    AllowDisturbed,
    Json,
    Reader,
    Repeat,
    RunsDirectory,
    SpecFile,
    read_path,
    typed_command,
)
from gridwright.cli.flags import Reads, options_of, read_flags, verb
from gridwright.cli.output import LazyResult, Output
from gridwright.cli.output_file import check_output
from gridwright.cli.prove.own_jobs import import_, profile_, replay_
from gridwright.cli.prove.workload_running import (
    carry_out,
    load_with_place,
    show_workload,
    write_profiles_after_run,
)
from gridwright.cli.prove.workload_sweep import read_sweep_limits, run_sweep
from gridwright.cli.verbs import plain_app
from gridwright.errors import ExitStatus, GridwrightError

if TYPE_CHECKING:
    from gridwright.workload.options import WorkloadOptions
    from gridwright.workload.session import OnGrid


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadFlags:
    """The flags of `gridwright workload run`, as they were typed."""

    file: SpecFile = None
    matrix: Annotated[
        str, typer.Option(metavar="NAME|FILE", help="quick, mixed-30, mixed-20, or a matrix of your own.")
    ] = "quick"
    scale: Annotated[str, typer.Option(metavar="NAME", help="How much data: tiny, small, medium, paper.")] = (
        "small"
    )
    streams: Annotated[
        int | None, typer.Option(metavar="N", help="Streams at once.  [default: as the matrix has]")
    ] = None
    sweep: Annotated[
        bool,
        typer.Option(
            "--sweep", help="Raise the streams 1, 2, 4 ... until too many; find how many jobs it carries."
        ),
    ] = False
    up_to: Annotated[
        int | None, typer.Option(metavar="N", help="With --sweep: try no more streams.  [default: 4096]")
    ] = None
    within: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="With --sweep: begin no step that would end later.  [default: 2h]"),
    ] = None
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the data.")] = 1
    memory: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Memory of a launch, as MEMSIZE.  [default: as the scale has]"),
        Reads(Reader.size, "memory_bytes"),
    ] = None
    time_limit: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Of a launch.  [default: as the scale has]"),
        Reads(Reader.seconds, "time_limit_s"),
    ] = None
    threads: Annotated[
        int | None,
        typer.Option(metavar="N", help="Cores of a threaded test.  [default: 4, or all if fewer]"),
    ] = None
    block: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="What tests read and write at once.  [default: as the matrix has, else 64 KiB]",
        ),
        Reads(Reader.size, "block_bytes"),
    ] = None
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the launches' directories in work and util.")
    ] = False
    profile: Annotated[
        Path | None,
        typer.Option(
            "--profile",
            metavar="OUT",
            parser=read_path,
            help="Write launch profiles, for `gridwright predict --workload`; best with --streams 1.",
        ),
    ] = None
    repeat: Repeat = 1
    allow_disturbed: AllowDisturbed = False
    runs: RunsDirectory = DEFAULT_RUNS
    json: Json = False


class _RunByDefault(TyperGroup):
    """Has `workload FILE` mean `workload run FILE`: typer has no group with a command of its own."""

    default = "run"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - a class that typer hides
        named = args[0] in self.commands if args else ctx.resilient_parsing
        return super().parse_args(ctx, args if named else [self.default, *args])


workload = plain_app("Run the mixed analytics workload.", cls=_RunByDefault)


def run_workload_command(flags: WorkloadFlags) -> ExitStatus:
    """Run real jobs, many at once, and account for each: CPU/real ratio, memory, I/O by library.

    Makes its data in the library data once (kept, see `gridwright workload clean`), then runs the
    launches of a matrix in their streams. `gridwright workload FILE` is short for this. --sweep finds how
    many jobs the grid carries at once: it raises the streams until the CPU/real ratio falls below what
    the grid spec requires, or below 0.9 of what one stream reaches alone.

    \b
    Examples:
      gridwright workload grid.yaml --scale tiny
      gridwright workload grid.yaml --matrix mixed-30 --scale medium --streams 60
      gridwright workload grid.yaml --matrix my-jobs.yaml
      gridwright workload grid.yaml --sweep --within 1h
      gridwright workload grid.yaml --streams 1 --profile profiles.json
      gridwright workload grid.yaml --repeat 5
      gridwright workload profile last profiles.json
      gridwright workload import /sas/logs/*.log
      gridwright workload clean grid.yaml
    """  # noqa: D301 - \b is a control character for click
    from gridwright.cli.spec_file import make_libraries
    from gridwright.runs.directory import RunDirectory
    from gridwright.workload.options import library_directories

    reader = Reader()
    check_output(reader, "--profile", flags.profile)
    limits = read_sweep_limits(flags, reader)
    options = reader.finish(read_workload_options(flags, reader))
    spec, place = load_with_place(flags.file, options.matrix)
    refuse_wide_launches(flags.matrix, options, place)
    libraries = library_directories(spec)
    make_libraries(spec)
    if limits is not None:
        return run_sweep(flags.runs, options, limits, spec, libraries, place, json=flags.json)
    run = RunDirectory.of_spec(flags.runs, spec, command=typed_command(), what=["workload"])
    ended, result = carry_out(run, options, spec, libraries, place)
    show_workload(run, result, json=flags.json)
    status = run.exit_status(ended)
    if flags.profile is not None and ended == ExitStatus.DONE:
        status = write_profiles_after_run(flags.profile, run.record, result, status)
    return status


workload.command("run")(verb(run_workload_command))
workload.command("import")(import_)
workload.command("profile")(profile_)
workload.command("replay")(replay_)


@workload.command("clean")
def clean(file: SpecFile = None, json: Json = False) -> None:
    """Remove the data that the workload made in the library data of a grid."""
    from gridwright.cli.interrupt import stop_on_signals
    from gridwright.workload.data_set import clean as remove
    from gridwright.workload.options import library_directories

    spec, place = load_with_place(file, None)
    with stop_on_signals() as stop:
        removed = remove(library_directories(spec), place, stop)
    Output("workload clean", json=json).show(
        LazyResult(
            document=lambda: {"removed": removed},
            text=lambda: "\n".join(f"removed: {path}" for path in removed) or "nothing to remove",
        ),
        indent=None,
    )


def refuse_wide_launches(matrix: str, options: WorkloadOptions, place: OnGrid | None) -> None:
    """Raise GridwrightError for launches that no node has the cores for; `matrix` is what it was called."""
    from gridwright.machine import physical_cores
    from gridwright.workload.options import check_cores

    cores = physical_cores() if place is None else place.most_cores or place.cores
    if problems := check_cores(options.matrix, cores, matrix):
        raise GridwrightError(*problems)


def read_workload_options(flags: WorkloadFlags, reader: Reader) -> WorkloadOptions | None:
    """Check the flags together; None if the reader has found something wrong."""
    from gridwright.workload.matrix import load_matrix
    from gridwright.workload.messages import SCALES
    from gridwright.workload.messages import scale as scale_named
    from gridwright.workload.options import WorkloadOptions, check_options

    if flags.scale not in SCALES:
        reader.choice(flags.scale, SCALES, "--scale")
    values = read_flags(flags, reader)
    figures = ("streams", "seed", "memory_bytes", "time_limit_s", "threads", "block_bytes", "repeat")
    reader.add(check_options(**{name: values[name] for name in figures}))
    try:
        matrix = load_matrix(flags.matrix)
    except GridwrightError as error:
        reader.add(error.problems)
        return None
    if reader.wrong:
        return None
    values |= {
        "matrix": matrix.with_streams(flags.streams) if flags.streams else matrix,
        "scale": scale_named(flags.scale),
    }
    return options_of(WorkloadOptions, values)
