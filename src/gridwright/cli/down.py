"""`gridwright down`: takes the nodes of a grid away."""

from __future__ import annotations

from typing import Annotated

import typer

from gridwright.cli.arguments import Json, SpecFile


def down(
    file: SpecFile = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask. For a lab nothing is asked anyway.")
    ] = False,
    json: Json = False,
) -> None:
    """Take a grid down: all its nodes with their processes, file systems, jobs and logs.

    What is left is looked for and named; exit status 3 then. Without FILE and without a ./grid.yaml of
    a lab, the only lab there is. The node image is kept.

    Example: gridwright down examples/lab.yaml
    """
    from gridwright.cli.lab_choice import chosen_spec, only_lab
    from gridwright.providers.registry import provider_of

    spec = chosen_spec(file)
    if spec is not None:
        name, was_up = spec.name, provider_of(spec, "down").down(spec)
    else:
        from gridwright.providers.lab.down import down as down_lab

        name = only_lab()
        was_up = down_lab(name)
    if json:
        import json as json_module

        document = {"schema": 1, "command": "down", "lab": name, "was_up": was_up, "left": []}
        typer.echo(json_module.dumps(document, indent=2))
    else:
        typer.echo(f"lab {name} is down: nothing is left" if was_up else f"lab {name} was not up")
