"""`gridwright prove`: whether the grid gives what its spec requires."""

from __future__ import annotations

from typing import Annotated

import typer

from gridwright.cli.arguments import DEFAULT_RUNS, Json, RunsDirectory, SpecFile

Seconds = Annotated[str, typer.Option(metavar="TIME", help="How long each phase of iotest lasts.")]
Engine = Annotated[str, typer.Option(metavar="buffered|direct", help="Through the page cache, or past it.")]
Phases = Annotated[str, typer.Option(metavar="LIST", help="Phases of iotest, in the order to run them.")]


def prove(
    file: SpecFile = None,
    seconds: Seconds = "10s",
    engine: Engine = "buffered",
    phases: Phases = "write,read,mixed,metadata",
    runs: RunsDirectory = DEFAULT_RUNS,
    json: Json = False,
) -> None:
    """Test and judge a grid, and write it up.

    Runs what the spec calls for, and leaves a run directory with an HTML report.

    \b
    Examples:
      gridwright prove grid.yaml
      gridwright prove grid.yaml --engine direct --seconds 1m
    """  # noqa: D301 - \b is a control character for click
    from gridwright.cli.prove_run import run_prove

    raise typer.Exit(run_prove(file, seconds=seconds, engine=engine, phases=phases, runs=runs, json=json))
