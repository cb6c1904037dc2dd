"""`gridwright down`: takes the nodes of a grid away."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from gridwright.cli.arguments import Json, SpecFile


def down(
    file: SpecFile = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask. For a lab nothing is asked anyway.")
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

    A lab goes with its file systems; without FILE and without a ./grid.yaml, the only lab there is. The
    node image is kept. In a cloud, file systems that hold data stay unless --delete-data names them, and
    it is asked first. What is left is looked for and named; exit status 3 then.

    Example: gridwright down examples/lab.yaml
    """
    from gridwright.cli.build.found_grid import asked_grid
    from gridwright.cli.interrupt import stop_on_signals
    from gridwright.cli.output import Output
    from gridwright.providers.caller import Caller

    grid = asked_grid(file)
    if grid.spec is not None:
        removal = grid.provider.removal(grid.spec, delete_data=frozenset(delete_data or ()))
    else:
        removal = grid.provider.removal_of(grid.name)
    if removal.question is not None:
        _ask(removal.question, yes=yes)
    if removal.is_long:
        with stop_on_signals() as stop:
            result = removal.carry_out(Caller(lambda text: typer.echo(text, err=True), stop))
    else:
        result = removal.carry_out(Caller())
    Output("down", json).show(result)


def _ask(question: str, *, yes: bool) -> None:
    """Show what would be done, and go on only where that is wanted. Raises GridwrightError."""
    from gridwright.errors import input_error

    typer.echo(question, err=True)
    if yes:
        return
    if not sys.stdin.isatty():
        raise input_error(
            "this removes what cannot be brought back, and nobody is there to be asked",
            where="--yes",
            remedy="add --yes",
        )
    try:
        wanted = typer.confirm("Do it?", err=True)
    except typer.Abort:
        raise KeyboardInterrupt from None
    if not wanted:
        raise input_error("nothing is removed", remedy="run it again when it is wanted")
