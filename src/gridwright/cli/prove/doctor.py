"""`gridwright doctor`: what is wrong with nodes, what it costs, and how to mend it."""

from __future__ import annotations

from typing import Annotated

import typer

from gridwright.cli.arguments import Json, SpecFile

Nodes = Annotated[
    str | None, typer.Option("--nodes", metavar="SET", help="Only these nodes, such as compute[1-4].")
]
Only = Annotated[
    list[str] | None, typer.Option("--only", metavar="CHECK", help="Only this check; may be repeated.")
]
All = Annotated[bool, typer.Option("--all", help="Show also the checks that found nothing wrong.")]


def doctor(
    file: SpecFile = None, nodes: Nodes = None, only: Only = None, everything: All = False, json: Json = False
) -> None:
    """Check this machine, or every node of a grid, and change nothing.

    Compares nodes with the tuning table, looks for what grids fail of, and has pairs of nodes try what they
    share. Without FILE and without ./grid.yaml it looks at this machine alone. Exit status 1 where a check
    of level error fails; the spec can silence a check by its name, with a reason.

    \b
    Examples:
      gridwright doctor
      gridwright doctor grid.yaml --nodes compute[1-4]
      gridwright doctor grid.yaml --only flock-alone --json
    """  # noqa: D301 - \b is a control character for click
    from gridwright.cli.prove.doctor_run import run_doctor

    raise typer.Exit(int(run_doctor(file, nodes=nodes, only=only or [], everything=everything, json=json)))
