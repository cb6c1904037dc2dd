"""`gridwright status`: how the nodes of a grid stand."""

from __future__ import annotations

import typer

from gridwright.cli.arguments import Json, SpecFile


def status(file: SpecFile = None, json: Json = False) -> None:
    """Show the nodes of a grid, what serves on them, its file systems and its cost.

    Without FILE and without a ./grid.yaml, the only lab there is. Exit status 3 where it is up and
    something of it does not serve.

    Example: gridwright status examples/lab.yaml --json
    """
    from gridwright.cli.build.lab_choice import chosen_spec, only_lab
    from gridwright.cli.build.status_show import print_json, print_tables
    from gridwright.errors import ExitStatus
    from gridwright.providers.registry import provider_of

    spec = chosen_spec(file)
    if spec is not None:
        found = provider_of(spec, "status").status(spec)
    else:
        from gridwright.providers.lab.status import status as status_of_lab

        found = status_of_lab(only_lab())
    if json:
        print_json(found)
    else:
        print_tables(found)
    if found.state != "not-up" and not found.whole:
        raise typer.Exit(int(ExitStatus.ENVIRONMENT))
