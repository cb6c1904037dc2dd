"""`gridwright prove`: whether the grid gives what its spec requires."""

from __future__ import annotations

from typing import Annotated

import typer

from gridwright.cli.arguments import DEFAULT_RUNS, Json, RunsDirectory, SpecFile

Seconds = Annotated[str, typer.Option(metavar="TIME", help="How long each phase of iotest lasts.")]
Engine = Annotated[str, typer.Option(metavar="buffered|direct", help="Through the page cache, or past it.")]
Phases = Annotated[str, typer.Option(metavar="LIST", help="Phases of iotest, in the order to run them.")]
Skip = Annotated[
    list[str] | None, typer.Option("--skip", metavar="PART", help="Leave out doctor, iotest or workload.")
]
Matrix = Annotated[str, typer.Option(metavar="NAME|FILE", help="Matrix of the workload.")]
Scale = Annotated[str, typer.Option(metavar="NAME", help="Scale of the workload: tiny to paper.")]


def prove(  # noqa: PLR0913, PLR0917 - one parameter per flag of the contract
    file: SpecFile = None,
    seconds: Seconds = "10s",
    engine: Engine = "buffered",
    phases: Phases = "write,read,mixed,metadata",
    matrix: Matrix = "quick",
    scale: Scale = "small",
    skip: Skip = None,
    runs: RunsDirectory = DEFAULT_RUNS,
    json: Json = False,
) -> None:
    """Test and judge a grid, and write it up.

    Runs iotest on every library, then the mixed workload, and leaves a run directory with an
    HTML report.

    \b
    Examples:
      gridwright prove grid.yaml
      gridwright prove grid.yaml --engine direct --seconds 1m
      gridwright prove grid.yaml --matrix mixed-30 --scale medium
      gridwright prove grid.yaml --skip workload
    """  # noqa: D301 - \b is a control character for click
    from gridwright.cli.prove.iotest_run import IotestFlags
    from gridwright.cli.prove.prove_run import run_prove
    from gridwright.cli.prove.workload_run import WorkloadFlags

    iotest = IotestFlags(file=file, seconds=seconds, engine=engine, phases=phases, runs=runs)
    workload = WorkloadFlags(file=file, matrix=matrix, scale=scale)
    raise typer.Exit(run_prove(file, iotest, workload, skip=skip or [], runs=runs, json=json))
