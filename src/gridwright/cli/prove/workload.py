"""`gridwright workload`: the mixed analytics workload, and the SAS logs of a site's own."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from gridwright.cli.arguments import (
    DEFAULT_RUNS,
    Json,
    Reader,
    RunName,
    RunsDirectory,
    SpecFile,
    typed_command,
)
from gridwright.cli.flags import Reads, options_of, read_flags, verb
from gridwright.cli.output import LazyResult, Output, plain
from gridwright.cli.verbs import plain_app
from gridwright.errors import ExitStatus, GridwrightError, Problem, input_error

if TYPE_CHECKING:
    from gridwright.errors import Finding
    from gridwright.runs.directory import RunDirectory
    from gridwright.runs.profiles import Profiles
    from gridwright.runs.records import RunRecord
    from gridwright.runs.workload_record import WorkloadRecord
    from gridwright.spec import GridSpec
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
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the launches' directories in work and util.")
    ] = False
    profile: Annotated[
        Path | None,
        typer.Option(
            "--profile",
            metavar="OUT",
            parser=Path,
            help="Write launch profiles, for `gridwright predict --workload`; best with --streams 1.",
        ),
    ] = None
    runs: RunsDirectory = DEFAULT_RUNS
    json: Json = False


class _RunByDefault(TyperGroup):
    """Has `workload FILE` mean `workload run FILE`: typer has no group with a command of its own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - a class that typer hides
        named = bool(args) and args[0] in self.commands
        return super().parse_args(ctx, args if named else ["run", *args])


workload = plain_app("Run the mixed analytics workload.", cls=_RunByDefault)


def run_workload_command(flags: WorkloadFlags) -> ExitStatus:
    """Run real jobs, many at once, and account for each: CPU/real ratio, memory, I/O by library.

    Makes its data in the library data once (kept, see `gridwright workload clean`), then runs the
    launches of a matrix in their streams. `gridwright workload FILE` is short for this.

    \b
    Examples:
      gridwright workload grid.yaml --scale tiny
      gridwright workload grid.yaml --matrix mixed-30 --scale medium --streams 60
      gridwright workload grid.yaml --matrix my-jobs.yaml
      gridwright workload grid.yaml --streams 1 --profile profiles.json
      gridwright workload profile last profiles.json
      gridwright workload import /sas/logs/*.log
      gridwright workload clean grid.yaml
    """  # noqa: D301 - \b is a control character for click
    from gridwright.runs.directory import RunDirectory
    from gridwright.workload.session import judged

    reader = Reader()
    reader.add(check_place(flags.profile))
    options = reader.finish(read_workload_options(flags, reader))
    spec, place = load_with_place(flags.file)
    run = RunDirectory.create(
        flags.runs,
        spec.name,
        command=typed_command(),
        what=["workload"],
        spec_path=str(spec.file) if spec.file else None,
        spec_text=spec.source_text,
    )
    ended, result = _carry_out(run, options, spec, place)
    _show(run, result, json=flags.json)
    status = judged(ended, result)
    if flags.profile is not None and ended == ExitStatus.DONE:
        status = write_profiles_after_run(flags.profile, run.record, result, status)
    return status


workload.command("run")(verb(run_workload_command))


def _carry_out(
    run: RunDirectory, options: WorkloadOptions, spec: GridSpec, place: OnGrid | None
) -> tuple[ExitStatus, WorkloadRecord]:
    from gridwright.cli.interrupt import stop_on_signals
    from gridwright.cli.prove.workload_progress import workload_display
    from gridwright.iotest.recorded import run_status
    from gridwright.workload.options import library_directories
    from gridwright.workload.session import run_workload

    libraries = library_directories(spec)
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
            result = run.finish(run_status(ended)).workload
    finally:
        display.close()
    if result is None:
        raise RuntimeError("a run of the workload left no record of it")
    return ended, result


def _show(run: RunDirectory, result: WorkloadRecord, *, json: bool) -> None:
    from gridwright.report.write import write_report

    report = write_report(run.path)

    def text() -> str:
        from gridwright.report.terminal.workload import workload_text

        return f"{workload_text(result)}run: {run.path}\nreport: {report}"

    Output("workload", json=json).show(LazyResult(document=lambda: plain(result), text=text))


@workload.command("import")
def import_(
    logs: Annotated[
        list[Path], typer.Argument(metavar="LOG...", parser=Path, help="SAS logs, STIMER or FULLSTIMER.")
    ],
    node: Annotated[str | None, typer.Option(metavar="NAME", help="The node the jobs ran on.")] = None,
    runs: RunsDirectory = DEFAULT_RUNS,
    json: Json = False,
) -> int:
    """Judge SAS jobs of your own by their logs, in the same tables and report.

    \b
    Examples:
      gridwright workload import nightly.log
      gridwright workload import /sas/logs/*.log --node sas01
    """  # noqa: D301 - \b is a control character for click
    import socket

    from gridwright.runs.directory import RunDirectory
    from gridwright.workload.imported import import_logs
    from gridwright.workload.session import judged

    imported = import_logs(logs, node=node or socket.gethostname())
    run = RunDirectory.create(runs, "sas-logs", command=typed_command(), what=["workload import"])
    for event in imported:
        run.take(event)
    result = run.finish("complete").workload
    if result is None:
        raise RuntimeError("an import left no record of it")
    _show(run, result, json=json)
    return int(judged(ExitStatus.DONE, result))


@workload.command("profile")
def profile_(
    run: RunName,
    out: Annotated[Path, typer.Argument(metavar="OUT", parser=Path, help="The file to write.")],
    runs: RunsDirectory = DEFAULT_RUNS,
    json: Json = False,
) -> None:
    """Write the launch profiles of a run that ended, as `--profile` does of a new one.

    \b
    Examples:
      gridwright workload profile last profiles.json
      gridwright workload profile 20261121T050000Z-grid profiles.json
    """  # noqa: D301 - \b is a control character for click
    from gridwright.runs.directory import load_run
    from gridwright.runs.find import find_run

    if problems := check_place(out):
        raise GridwrightError(*problems)
    loaded = load_run(find_run(runs, run), with_samples=False)
    if loaded.workload is None:
        raise input_error(
            "the run has no workload",
            where=str(loaded.path),
            remedy="name a run of `gridwright workload` or `gridwright prove`: gridwright runs list",
        )
    profiles, findings = write_profiles(out, loaded.run, loaded.workload)
    document = {
        "profiles": str(out),
        "tests": list(profiles.profiles),
        "findings": [asdict(finding) for finding in findings],
    }
    # What is printed for people is said on stderr already, as it is after a run.
    Output("workload profile", json=json).show(LazyResult(document=lambda: document, text=str))


@workload.command("clean")
def clean(file: SpecFile = None, json: Json = False) -> None:
    """Remove the data that the workload made in the library data of a grid."""
    from gridwright.cli.interrupt import stop_on_signals
    from gridwright.workload.clean import clean as remove
    from gridwright.workload.options import library_directories

    spec, place = load_with_place(file)
    with stop_on_signals() as stop:
        removed = remove(library_directories(spec), place, stop)
    Output("workload clean", json=json).show(
        LazyResult(
            document=lambda: {"removed": removed},
            text=lambda: "\n".join(f"removed: {path}" for path in removed) or "nothing to remove",
        ),
        indent=None,
    )


def load_with_place(file: Path | None) -> tuple[GridSpec, OnGrid | None]:
    """Load the spec of a grid to run the workload on, and how to run it there. Raises GridwrightError."""
    from gridwright.cli.spec_file import load_placed, note_this_machine
    from gridwright.grid.grid import Grid
    from gridwright.workload.on_grid import on_grid

    spec = load_placed(file)
    place = on_grid(Grid.open(spec))
    if place is None:
        note_this_machine(spec)
    return spec, place


def read_workload_options(flags: WorkloadFlags, reader: Reader) -> WorkloadOptions | None:
    """Check the flags together; None if the reader has found something wrong."""
    from gridwright.workload import scales
    from gridwright.workload.engines import absent_engines
    from gridwright.workload.matrix import load_matrix
    from gridwright.workload.options import WorkloadOptions, check_options

    if flags.scale not in scales.NAMES:
        reader.choice(flags.scale, scales.NAMES, "--scale")
    values = read_flags(flags, reader)
    figures = ("streams", "seed", "memory_bytes", "time_limit_s", "threads")
    reader.add(check_options(**{name: values[name] for name in figures}))
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
    values |= {
        "matrix": matrix.with_streams(flags.streams) if flags.streams else matrix,
        "scale": scales.scale(flags.scale),
    }
    return options_of(WorkloadOptions, values)


def check_place(out: Path | None) -> list[Problem]:
    """What is wrong with the place of the profiles; looked at before the run, which may take hours."""
    if out is None:
        return []
    if out.is_dir():
        return [
            Problem("is a directory", where=f"--profile {out}", remedy=f"name a file: {out}/profiles.json")
        ]
    if not out.absolute().parent.is_dir():
        remedy = f"make it, or name another place: {out.name}"
        return [Problem(f"there is no directory {out.parent}", where=f"--profile {out}", remedy=remedy)]
    return []


def write_profiles(out: Path, run: RunRecord, workload: WorkloadRecord) -> tuple[Profiles, list[Finding]]:
    """Write the profiles of a run and say so on stderr. Raises GridwrightError."""
    from gridwright.runs.profile_record import profiles_of
    from gridwright.runs.profiles import save_profiles
    from gridwright.workload.profile_sizes import data_bytes

    profiles, findings = profiles_of(run, workload, data_bytes=data_bytes())
    save_profiles(out, profiles)
    typer.echo(f"profiles: {out} ({len(profiles.profiles)} tests, scale {profiles.scale})", err=True)
    for finding in findings:
        typer.echo(f"{finding.level} {finding.name}: {finding.text}\n  {finding.remedy}", err=True)
    return profiles, findings


def write_profiles_after_run(
    out: Path, run: RunRecord, workload: WorkloadRecord, status: ExitStatus
) -> ExitStatus:
    """Write the profiles of a run whose results are printed already.

    What goes wrong is said on stderr; returns the exit status, which was `status` so far.
    """
    from gridwright.errors import GridwrightError

    try:
        write_profiles(out, run, workload)
    except GridwrightError as error:
        for problem in error.problems:
            typer.echo(f"error: {problem}", err=True)
        return error.status if status == ExitStatus.DONE else status
    return status
