"""`gridwright node scratch`: scratch storage of this node."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gridwright.cli.arguments import Json


def scratch(
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="The wish.  [default: /etc/gridwright/scratch.json]"),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan, and do nothing.")] = False,
    wipe: Annotated[
        list[str] | None,
        typer.Option("--wipe", metavar="DISK", help="Overwrite this disk, whatever it holds. Repeatable."),
    ] = None,
    json: Json = False,
) -> None:
    """Stripe, format and mount the disks of this node's instance store.

    Assembles and mounts the array that it made before; makes it on blank disks; makes it anew where the disks
    came back blank. A disk that holds anything else is left alone until --wipe names it. Exit status 0 where
    everything is mounted, 2 where the wish or a named disk is wrong, 3 where something was refused or failed.

    Example: sudo gridwright node scratch --dry-run
    """
    from gridwright.node_programs.scratch.command import Order, run
    from gridwright.node_programs.scratch.configuration import CONFIGURATION

    raise typer.Exit(run(Order(config or CONFIGURATION, dry_run, json, tuple(wipe or ()))))
