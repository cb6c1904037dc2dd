"""`gridwright predict`: what a grid will deliver, and what binds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gridwright.cli.arguments import DEFAULT_RUNS, Json, RunsDirectory, SpecFile

Streams = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", help="Streams on each node, or of the workload.  [default: one per core; its own]"
    ),
]
Explain = Annotated[bool, typer.Option("--explain", help="Show every limit on the way, with its source.")]
Workload = Annotated[
    str | None, typer.Option(metavar="MATRIX", help="Simulate the mixed workload, such as mixed-30.")
]
Profile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Launch profiles of `gridwright workload --profile`.")
]
Scale = Annotated[
    str | None,
    typer.Option(
        metavar="SCALE",
        help="With --workload: the size of its data.  [default: as profiled; paper without --profile]",
    ),
]
Calibrate = Annotated[
    str | None, typer.Option(metavar="RUN", help="Take the rates that this run of iotest measured.")
]
Papers = Annotated[
    bool, typer.Option("--papers", help="Hold the model against every published figure; reads no FILE.")
]
Markdown = Annotated[bool, typer.Option("--markdown", help="With --papers: print docs/papers.md.")]
Html = Annotated[Path | None, typer.Option(metavar="OUT", help="Write a page with charts, too.")]


def predict(  # noqa: PLR0913, PLR0917 - one parameter per flag of the contract
    file: SpecFile = None,
    streams: Streams = None,
    explain: Explain = False,
    workload: Workload = None,
    profile: Profile = None,
    scale: Scale = None,
    calibrate: Calibrate = None,
    papers: Papers = False,
    markdown: Markdown = False,
    html: Html = None,
    runs: RunsDirectory = DEFAULT_RUNS,
    json: Json = False,
) -> None:
    """Predict what each library gives each core, what binds, and what it costs.

    Rates are those that last, with every node busy; bursts are listed apart. Exit status 1 when a
    requirement is missed.

    \b
    Examples:
      gridwright predict grid.yaml
      gridwright predict grid.yaml --explain --html grid.html
      gridwright predict grid.yaml --calibrate last
      gridwright predict grid.yaml --workload mixed-30 --scale small
      gridwright predict --papers
    """  # noqa: D301 - \b keeps typer from filling the lines
    from gridwright.cli.plan.predict_run import PredictFlags, run_predict

    flags = PredictFlags(
        file=file,
        streams=streams,
        explain=explain,
        workload=workload,
        profile=profile,
        scale=scale,
        calibrate=calibrate,
        papers=papers,
        markdown=markdown,
        html=html,
        runs=runs,
        json=json,
    )
    raise typer.Exit(int(run_predict(flags)))
