"""`gridwright node`: what is run on a node itself, by an administrator or by its services."""

from __future__ import annotations

from gridwright.cli.build.node_claim import claim
from gridwright.cli.build.node_scratch import scratch
from gridwright.cli.verbs import plain_app

node = plain_app("Look after the node that the command is run on.", no_args_is_help=True)
node.command()(claim)
node.command()(scratch)
