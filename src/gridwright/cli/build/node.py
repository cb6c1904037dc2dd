"""`gridwright node claim | scratch | history`: commands of an administrator or a service, on a node."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gridwright.cli.arguments import Json, read_path
from gridwright.cli.verbs import plain_app
from gridwright.errors import input_error

node = plain_app("Look after the node that the command is run on.", no_args_is_help=True)


@node.command()
def claim(
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            parser=read_path,
            help="The claim file.  [default: /etc/gridwright/claim.json]",
        ),
    ] = None,
    name_only: Annotated[
        bool, typer.Option("--name-only", help="Claim name and address, and leave volumes for later.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the next step, and do nothing.")] = False,
    json: Json = False,
) -> int:
    """Claim what this machine is: a name, an address and volumes that outlive instances.

    A machine that replaces another one takes over its place, once that one is gone for certain: its network
    interface, so that the address stays, and its volumes, which are attached and mounted. A volume is
    formatted only if it is blank and was never formatted before. Exit status 0 where all is claimed, 2 where
    the claim file is wrong, 3 where something was refused or failed.

    Example: sudo gridwright node claim --dry-run
    """
    from gridwright.providers.aws.claim.command import Order, run
    from gridwright.providers.aws.claim.configuration import CONFIGURATION

    return run(Order(config or CONFIGURATION, name_only, dry_run, json))


@node.command()
def scratch(
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            parser=read_path,
            help="The configuration.  [default: /etc/gridwright/scratch.json]",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan, and do nothing.")] = False,
    wipe: Annotated[
        list[str] | None,
        typer.Option("--wipe", metavar="DISK", help="Overwrite this disk, whatever it holds. Repeatable."),
    ] = None,
    json: Json = False,
) -> int:
    """Stripe, format and mount the disks of this node's instance store.

    Assembles and mounts the array that it made before; makes it on blank disks; makes it anew where the disks
    came back blank. A disk that holds anything else is left alone until --wipe names it. Exit status 0 where
    everything is mounted, 2 where the configuration or a named disk is wrong, 3 where something was refused
    or failed.

    Example: sudo gridwright node scratch --dry-run
    """
    from gridwright.node_programs.scratch.command import Order, run
    from gridwright.node_programs.scratch.configuration import CONFIGURATION

    return run(Order(config or CONFIGURATION, dry_run, json, tuple(wipe or ())))


@node.command()
def history(
    directory: Annotated[
        Path | None,
        typer.Option(
            "--directory",
            metavar="PATH",
            parser=read_path,
            help="Where it is kept.  [default: /var/lib/gridwright/history]",
        ),
    ] = None,
    library: Annotated[
        list[Path] | None,
        typer.Option(
            "--library", metavar="PATH", parser=read_path, help="The directory of a library. Repeatable."
        ),
    ] = None,
) -> int:
    """Sample this node once a second, and keep its history, until a signal ends it.

    The service gridwright-history runs it on nodes whose spec says `monitoring: {history: true}`. An hour is
    kept by the second, two days by ten seconds, 30 days by the minute, a year by ten minutes. Where the disk
    takes nothing, that is said, and history has a gap. Exit status 3 where another process keeps it already.

    Example: gridwright node history --directory ./history --library /shared/data
    """
    from gridwright.monitor.agent import run
    from gridwright.monitor.history.questions import DIRECTORY

    place = directory or DIRECTORY
    there = next(each for each in (place.absolute(), *place.absolute().parents) if each.exists())
    if not there.is_dir():
        raise input_error(
            f"{there} is no directory", where="--directory", remedy="name a directory for the history"
        )
    return run(place, tuple(map(str, library or ())))
