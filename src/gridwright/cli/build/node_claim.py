"""`gridwright node claim`: name, address and volumes of this machine of a grid in a cloud."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gridwright.cli.arguments import Json


def claim(
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", metavar="FILE", help="The claim file.  [default: /etc/gridwright/claim.json]"
        ),
    ] = None,
    name_only: Annotated[
        bool, typer.Option("--name-only", help="Claim name and address, and leave volumes for later.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the next step, and do nothing.")] = False,
    json: Json = False,
) -> None:
    """Claim what this machine is: a name, an address and volumes that outlive instances.

    A machine that replaces another one takes over its place, once that one is gone for certain: its network
    interface, so that the address stays, and its volumes, which are attached and mounted. A volume is
    formatted only if it is blank and was never formatted before. Exit status 0 where all is claimed, 2 where
    the claim file is wrong, 3 where something was refused or failed.

    Example: sudo gridwright node claim --dry-run
    """
    from gridwright.providers.aws.claim.command import Order, run
    from gridwright.providers.aws.claim.configuration import CONFIGURATION

    raise typer.Exit(run(Order(config or CONFIGURATION, name_only, dry_run, json)))
