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
    from gridwright.cli.build.down_show import document, lines, question
    from gridwright.cli.build.lab_choice import chosen_spec, only_lab
    from gridwright.cli.interrupt import stop_on_signals
    from gridwright.providers.caller import Caller
    from gridwright.providers.registry import provider_of

    spec = chosen_spec(file)
    if spec is not None:
        names = frozenset(delete_data or ())
        removal = provider_of(spec, "down").removal(spec, delete_data=names)
    else:
        from gridwright.providers.lab.provider import removal_of

        removal = removal_of(only_lab())
    if removal.plan is None:
        result = removal.carry_out(Caller())
    else:
        if asked := list(question(removal.plan)):
            _ask(asked, yes=yes)
        with stop_on_signals() as stop:
            result = removal.carry_out(Caller(lambda text: typer.echo(text, err=True), stop))
    if json:
        import json as json_module

        typer.echo(json_module.dumps(document(result), indent=2))
        return
    for line in lines(result):
        typer.echo(line)


def _ask(asked: list[str], *, yes: bool) -> None:
    """Show what would be done, and go on only where that is wanted. Raises GridwrightError."""
    from gridwright.errors import input_error

    for line in asked:
        typer.echo(line, err=True)
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
