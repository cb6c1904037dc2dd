"""`gridwright workload import`, `profile` and `replay`: jobs of a site's own."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gridwright.cli.arguments import (
    DEFAULT_RUNS,
    Json,
    Reader,
    RunName,
    RunsDirectory,
    SpecFile,
    read_path,
    typed_command,
)
from gridwright.cli.output import LazyResult, Output
from gridwright.cli.output_file import check_output
from gridwright.cli.prove.workload_running import carry_out, load_with_place, show_workload, write_profiles
from gridwright.errors import ExitStatus, input_error

if TYPE_CHECKING:
    from gridwright.runs.profiles import Profiles
    from gridwright.workload.options import WorkloadOptions


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
    from gridwright.workload.messages import SCALES
    from gridwright.workload.messages import scale as scale_named
    from gridwright.workload.options import replay_options

    reader = Reader()
    if scale not in SCALES:
        reader.choice(scale, SCALES, "--scale")
    reader.finish(not reader.wrong or None)
    recorded = load_profiles(profiles)
    order = streams_of(recorded, streams, where=str(profiles))
    options = replay_options(recorded, order, scale_named(scale), hold_memory=memory, keep=keep)
    return int(_replay(recorded, options, file, runs, json=json))


def _replay(
    recorded: Profiles, options: WorkloadOptions, file: Path | None, runs: Path, *, json: bool
) -> ExitStatus:
    from gridwright.cli.spec_file import make_libraries
    from gridwright.report.terminal.workload import replay_text
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
