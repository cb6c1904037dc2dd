"""`gridwright node`: what is run on a node itself, by an administrator or by its services."""

from __future__ import annotations

import typer

from gridwright.cli.build.node_claim import claim
from gridwright.cli.build.node_scratch import scratch

node = typer.Typer(
    help="Look after the node that the command is run on.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
node.command()(claim)
node.command()(scratch)
