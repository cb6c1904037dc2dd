"""`gridwright down`: takes the nodes of a grid away."""

from __future__ import annotations

from typing import Annotated

import typer

from gridwright.cli.arguments import Json, SpecFile
from gridwright.cli.verbosity import say


def down(
    file: SpecFile = None,
    yes: Annotated[
        bool,
        typer.Option("--yes", help="Do not ask. For a lab whose spec is named nothing is asked anyway."),
    ] = False,
    delete_data: Annotated[
        list[str] | None,
        typer.Option(
            "--delete-data",
            metavar="NAME",
            help="A file system of a cloud that goes with all its data; without it, it stays, and is billed. "
            "May be given several times.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Take a grid down: all its nodes with their processes, jobs and logs.

    A lab goes with its file systems, whether it is up or stopped; without FILE and without a ./grid.yaml,
    the only lab there is, and it is asked first. The node image is kept. In a cloud, file systems that hold
    data stay unless --delete-data names them, and it is asked first. What is left is looked for and named;
    exit status 3 then.

    Example: gridwright down lab.yaml
    """
    from gridwright.cli.build.resolved_grid import resolve_grid
    from gridwright.cli.confirm import confirm
    from gridwright.cli.interrupt import stop_on_signals
    from gridwright.cli.output import Output
    from gridwright.providers.provider import Caller

    removal = resolve_grid(file).removal(frozenset(delete_data or ()))
    if removal.question is not None:
        confirm(removal.question, yes=yes)
    if removal.is_long:
        with stop_on_signals() as stop:
            result = removal.carry_out(Caller(say, stop))
    else:
        result = removal.carry_out(Caller())
    Output("down", json).show(result)
