"""`gridwright plan`: the cheapest grids that meet the requirements."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gridwright.cli.arguments import Json, SpecFile

Write = Annotated[Path | None, typer.Option(metavar="OUT", help="Save a design as a grid spec.")]
Choose = Annotated[
    int, typer.Option(min=1, metavar="RANK", help="With --write: which design, by its rank.  [default: 1]")
]
Explain = Annotated[
    str | None, typer.Option(metavar="TYPE", help="Hold an instance type against every requirement.")
]
Html = Annotated[Path | None, typer.Option(metavar="OUT", help="Write a page with charts, too.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="With --write: replace a file that is there.")]


def plan(
    file: SpecFile = None,
    write: Write = None,
    choose: Choose = 1,
    overwrite: Overwrite = False,
    explain: Explain = None,
    html: Html = None,
    json: Json = False,
) -> None:
    """Search the catalogue for the cheapest grids that meet the requirements of FILE.

    Designs are listed by cost: the cheapest, and those on the Pareto front of cost, MB/s per core and
    resilience. Exit status 1 when no grid meets the requirements.

    \b
    Examples:
      gridwright plan requirements.yaml
      gridwright plan requirements.yaml --write grid.yaml
      gridwright plan requirements.yaml --explain m5.8xlarge
      gridwright plan requirements.yaml --html plan.html
    """  # noqa: D301 - \b keeps typer from filling the lines
    from gridwright.cli.plan.plan_run import PlanFlags, run_plan

    flags = PlanFlags(
        file=file, write=write, choose=choose, overwrite=overwrite, explain=explain, html=html, json=json
    )
    raise typer.Exit(int(run_plan(flags)))
