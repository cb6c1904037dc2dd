"""`gridwright workload`: the mixed workload, and jobs of a site's own (`import`, `profile`, `replay`)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from gridwright.cli.arguments import (
    DEFAULT_RUNS,
    AllowDisturbed,
    Json,
    Reader,
    Reads,
    Repeat,
    RunName,
    RunsDirectory,
    SpecFile,
    options_of,
    read_flags,
    read_path,
    typed_command,
    verb,
)
from gridwright.cli.output import LazyResult, Output
from gridwright.cli.output_file import check_output
from gridwright.cli.prove.workload_running import (
    carry_out,
    load_with_place,
    read_sweep_limits,
    run_sweep,
    show_workload,
    write_profiles,
    write_profiles_after_run,
)
from gridwright.cli.verbs import plain_app
from gridwright.errors import ExitStatus, GridwrightError, input_error

if TYPE_CHECKING:
    from gridwright.runs.profiles import Profiles
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


def import_(
    logs: Annotated[
        list[Path],
        typer.Argument(
            metavar="LOG...",
            parser=read_path,
            help="SAS logs (STIMER or FULLSTIMER), directories of them, accounting of Slurm or LSF.",
        ),
    ],
    node: Annotated[str | None, typer.Option(metavar="NAME", help="The node the jobs ran on.")] = None,
    runs: RunsDirectory = DEFAULT_RUNS,
    json: Json = False,
) -> int:
    """Judge jobs of your own by their SAS logs, or by Slurm's or LSF's accounting, in the same report.

    Accounting is what `sacct --parsable2`, `sacct --json` or `bacct -l` printed, or LSF's lsb.acct. What
    cannot be read is named with the reason; the rest is imported, and the exit status is 1.

    \b
    Examples:
      gridwright workload import nightly.log
      gridwright workload import /sas/logs/ --node sas01
      gridwright workload import sacct.json
    """  # noqa: D301 - \b is a control character for click
    import socket

    from gridwright.runs.directory import RunDirectory
    from gridwright.workload.imports.imported import import_logs, name_of_import

    imported = import_logs(logs, node=node or socket.gethostname())
    run = RunDirectory.create(
        runs, name_of_import(imported), command=typed_command(), what=["workload import"]
    )
    for event in imported:
        run.take(event)
    result = run.finish("complete").workload
    if result is None:
        raise RuntimeError("an import left no record of it")
    show_workload(run, result, json=json)
    return int(run.exit_status(ExitStatus.DONE))


def profile_(
    run: RunName,
    out: Annotated[Path, typer.Argument(metavar="OUT", parser=read_path, help="The file to write.")],
    runs: RunsDirectory = DEFAULT_RUNS,
    json: Json = False,
    io_rate: Annotated[
        str,
        typer.Option(
            metavar="RATE", help="Of imported jobs of whose I/O nothing is counted: how fast they moved it."
        ),
    ] = "100MB/s",
) -> None:
    """Write the launch profiles of a run that ended, or of an import; `--profile` does so of a new run.

    \b
    Examples:
      gridwright workload profile last profiles.json
      gridwright workload profile 20261121T050000Z-grid profiles.json
    """  # noqa: D301 - \b is a control character for click
    from gridwright.runs.directory import load_run
    from gridwright.runs.place import find_run
    from gridwright.runs.records import figures_of

    reader = Reader()
    check_output(reader, "OUT", out)
    rate = reader.finish(reader.rate("--io-rate", io_rate))
    loaded = load_run(find_run(runs, run), with_samples=False)
    if loaded.workload is None:
        raise input_error(
            "the run has no workload",
            where=str(loaded.path),
            remedy="name a run of `gridwright workload` or `gridwright prove`: gridwright runs list",
        )
    with figures_of(loaded.path):
        profiles, findings = write_profiles(out, loaded.run, loaded.workload, rate=rate)
    document = {
        "profiles": str(out),
        "tests": list(profiles.profiles),
        "findings": [asdict(finding) for finding in findings],
    }
    # What is printed for people is said on stderr already, as it is after a run.
    Output("workload profile", json=json).show(LazyResult(document=lambda: document, text=str))


def replay_(
    profiles: Annotated[
        Path,
        typer.Argument(
            metavar="PROFILES", parser=read_path, help="As `gridwright workload profile` wrote them."
        ),
    ],
    file: SpecFile = None,
    streams: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Streams at once.  [default: as the jobs ran]")
    ] = None,
    scale: Annotated[
        str,
        typer.Option(metavar="NAME", help="Of the tables that launches read: tiny, small, medium, paper."),
    ] = "small",
    memory: Annotated[bool, typer.Option(help="Hold as much memory as the jobs did.")] = True,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the launches' directories in work and util.")
    ] = False,
    runs: RunsDirectory = DEFAULT_RUNS,
    json: Json = False,
) -> int:
    """Run synthetic launches that compute, read, write and hold memory as jobs of your own did.

    They follow each other as the imported jobs did, and are accounted for as tests are. A core burns as many
    seconds here as it did there.

    \b
    Examples:
      gridwright workload import sacct.json
      gridwright workload profile last jobs-profiles.json
      gridwright workload replay jobs-profiles.json grid.yaml
      gridwright predict other.yaml --workload jobs-profiles.json
    """  # noqa: D301 - \b is a control character for click
    from gridwright.runs.profiles import load_profiles, streams_of
    from gridwright.workload import messages
    from gridwright.workload.options import replay_options

    reader = Reader()
    if scale not in messages.NAMES:
        reader.choice(scale, messages.NAMES, "--scale")
    reader.finish(not reader.wrong or None)
    recorded = load_profiles(profiles)
    order = streams_of(recorded, streams, where=str(profiles))
    options = replay_options(recorded, order, messages.scale(scale), hold_memory=memory, keep=keep)
    return int(_replay(recorded, options, file, runs, json=json))


def _replay(
    recorded: Profiles, options: WorkloadOptions, file: Path | None, runs: Path, *, json: bool
) -> ExitStatus:
    from gridwright.cli.spec_file import make_libraries
    from gridwright.report.terminal.run import replay_text
    from gridwright.runs.directory import RunDirectory
    from gridwright.runs.profiles import replayed_jobs
    from gridwright.workload.options import library_directories

    spec, place = load_with_place(file, options.matrix)
    libraries = library_directories(spec)
    make_libraries(spec)
    run = RunDirectory.of_spec(runs, spec, command=typed_command(), what=["workload"])
    ended, result = carry_out(run, options, spec, libraries, place)
    jobs = replayed_jobs(recorded, result.launches)
    show_workload(
        run,
        result,
        json=json,
        more={"replayed": [asdict(job) for job in jobs]},
        ending=lambda: replay_text(jobs),
    )
    return run.exit_status(ended)


workload.command("run")(verb(run_workload_command))
workload.command("import")(import_)
workload.command("profile")(profile_)
workload.command("replay")(replay_)
