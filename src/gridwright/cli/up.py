"""`gridwright up`: makes the nodes of a grid."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from gridwright.cli.arguments import Json, SpecFile

if TYPE_CHECKING:
    from gridwright.providers.lab.up import UpResult


def up(file: SpecFile = None, json: Json = False) -> None:
    """Make the nodes of a grid, and wait until all their services serve.

    Of a lab that is up, mend what is missing: nodes that are powered off or cut off, services that died.
    Nothing is left of a lab that cannot be made, or when the command is interrupted.

    Example: gridwright up examples/lab.yaml
    """
    from gridwright.cli.interrupt import stop_on_signals
    from gridwright.cli.spec_file import load_placed
    from gridwright.providers.caller import Caller
    from gridwright.providers.registry import provider_of

    spec = load_placed(file)
    provider = provider_of(spec, "up")
    with stop_on_signals() as stop:
        result = provider.up(spec, Caller(lambda text: typer.echo(text, err=True), stop))
    if json:
        _print_json(result)
        return
    count = len(result.record.nodes)
    if result.made:
        typer.echo(f"lab {spec.name} is up: {count} nodes in {result.seconds:.1f} s")
        return
    typer.echo(f"lab {spec.name} was up already: {count} nodes")
    for each in result.repaired:
        typer.echo(f"mended: {each}")


def _print_json(result: UpResult) -> None:
    import json

    document = {
        "schema": 1,
        "command": "up",
        "lab": result.record.lab,
        "made": result.made,
        "mended": list(result.repaired),
        "seconds": result.seconds,
        "network": result.record.network,
        "nodes": [
            {"name": node.plan.name, "role": node.plan.role, "address": node.plan.address}
            for node in result.record.nodes
        ],
    }
    typer.echo(json.dumps(document, indent=2))
