"""`gridwright workload`: the mixed analytics workload, and the SAS logs of a site's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from gridwright.cli.arguments import DEFAULT_RUNS, Json, RunName, RunsDirectory, SpecFile
from gridwright.cli.verbs import plain_app

Matrix = Annotated[
    str,
    typer.Option(metavar="NAME|FILE", help="quick, mixed-30, mixed-20, or a matrix of your own."),
]
Scale = Annotated[str, typer.Option(metavar="NAME", help="How much data: tiny, small, medium, paper.")]
Streams = Annotated[
    int | None, typer.Option(metavar="N", help="Streams at once.  [default: as the matrix has]")
]
Seed = Annotated[int, typer.Option(metavar="N", help="Seed of the data.")]
Memory = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="Memory of a launch, as MEMSIZE.  [default: as the scale has]"),
]
TimeLimit = Annotated[
    str | None, typer.Option(metavar="TIME", help="Of a launch.  [default: as the scale has]")
]
Threads = Annotated[
    int | None, typer.Option(metavar="N", help="Cores of a threaded test.  [default: 4, or all if fewer]")
]
Keep = Annotated[bool, typer.Option("--keep", help="Leave the launches' directories in work and util.")]
Profile = Annotated[
    Path | None,
    typer.Option(
        "--profile",
        metavar="OUT",
        parser=Path,
        help="Write launch profiles, for `gridwright predict --workload`; best with --streams 1.",
    ),
]


class _RunByDefault(TyperGroup):
    """Has `workload FILE` mean `workload run FILE`: typer has no group with a command of its own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - a class that typer hides
        named = bool(args) and args[0] in self.commands
        return super().parse_args(ctx, args if named else ["run", *args])


workload = plain_app("Run the mixed analytics workload.", cls=_RunByDefault)


@workload.command("run")
def run(  # noqa: PLR0913, PLR0917 - one parameter per flag of the contract
    file: SpecFile = None,
    matrix: Matrix = "quick",
    scale: Scale = "small",
    streams: Streams = None,
    seed: Seed = 1,
    memory: Memory = None,
    time_limit: TimeLimit = None,
    threads: Threads = None,
    keep: Keep = False,
    profile: Profile = None,
    runs: RunsDirectory = DEFAULT_RUNS,
    json: Json = False,
) -> None:
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
    from gridwright.cli.prove.workload_run import WorkloadFlags, run_workload_command

    flags = WorkloadFlags(
        file=file,
        matrix=matrix,
        scale=scale,
        streams=streams,
        seed=seed,
        memory=memory,
        time_limit=time_limit,
        threads=threads,
        keep=keep,
        profile=profile,
        runs=runs,
        json=json,
    )
    raise typer.Exit(run_workload_command(flags))


@workload.command("import")
def import_(
    logs: Annotated[
        list[Path], typer.Argument(metavar="LOG...", parser=Path, help="SAS logs, STIMER or FULLSTIMER.")
    ],
    node: Annotated[str | None, typer.Option(metavar="NAME", help="The node the jobs ran on.")] = None,
    runs: RunsDirectory = DEFAULT_RUNS,
    json: Json = False,
) -> None:
    """Judge SAS jobs of your own by their logs, in the same tables and report.

    \b
    Examples:
      gridwright workload import nightly.log
      gridwright workload import /sas/logs/*.log --node sas01
    """  # noqa: D301 - \b is a control character for click
    from gridwright.cli.prove.workload_import import run_import

    raise typer.Exit(run_import(logs, node=node, runs=runs, json=json))


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
    from gridwright.cli.prove.workload_profile import profile_run

    raise typer.Exit(profile_run(runs, run, out, json=json))


@workload.command("clean")
def clean(file: SpecFile = None, json: Json = False) -> None:
    """Remove the data that the workload made in the library data of a grid."""
    from gridwright.cli.prove.workload_clean import run_clean

    raise typer.Exit(run_clean(file, json=json))
