"""`gridwright status`: shows the state of the nodes of a grid."""

from __future__ import annotations

import typer

from gridwright.cli.arguments import Json, SpecFile


def status(file: SpecFile = None, json: Json = False) -> None:
    """Show the nodes of a grid, what serves on them, its file systems and its cost.

    Without FILE and without a ./grid.yaml, the only lab there is. Exit status 3 where it is up and
    something of it does not serve.

    Example: gridwright status lab.yaml --json
    """
    from gridwright.cli.build.found_grid import asked_grid
    from gridwright.cli.output import Output
    from gridwright.errors import ExitStatus

    found = asked_grid(file).status()
    Output("status", json).show(found)
    if found.state != "not-up" and not found.whole:
        raise typer.Exit(int(ExitStatus.ENVIRONMENT))
