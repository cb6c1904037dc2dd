"""`gridwright layout set | rebalance`: over which targets of a file system the files of libraries lie."""

from __future__ import annotations

from typing import Annotated

import typer

from gridwright.cli.arguments import Json, SpecFile
from gridwright.cli.verbs import plain_app

layout = plain_app(
    "Set over which targets the files of libraries lie, and move files that lie otherwise.",
    no_args_is_help=True,
)


@layout.command("set")
def set_(
    file: SpecFile = None,
    libraries: Annotated[
        list[str] | None,
        typer.Argument(metavar="[LIBRARY]...", help="Such as data; without any, all that have layouts."),
    ] = None,
    as_told: Annotated[
        str | None,
        typer.Option(
            "--layout",
            metavar="LAYOUT",
            help="Instead of the spec's: auto, a stripe count such as 4 or -1, or parts such as "
            "256MiB:1,16GiB:4,-1.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be set, and set nothing.")
    ] = False,
    json: Json = False,
) -> None:
    """Set the layout that new files in directories of libraries get, and show it before and after.

    It is what the spec states, else what the model chooses. Files that are there keep theirs: see gridwright
    layout rebalance. A directory that has it already is left alone. Runs on the head node of the grid, as
    root or as the owner of the directory.

    Examples: gridwright layout set; gridwright layout set grid.yaml work --layout 4 --dry-run
    """
    from gridwright.cli.data import layout_set

    layout_set.set_layouts(file, libraries or [], as_told, dry_run=dry_run, json=json)


@layout.command()
def rebalance(
    file: SpecFile = None,
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[LIBRARY|PATH]...",
            help="Libraries, or files and directories of one; without any, all libraries that have layouts.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show which files, bytes and time, and move nothing.")
    ] = False,
    bandwidth: Annotated[
        str, typer.Option(metavar="RATE", help="Bytes to read, and to write, at most.")
    ] = "200MB/s",
    at_least: Annotated[
        str, typer.Option("--at-least", metavar="SIZE", help="Leave smaller files alone.")
    ] = "16MiB",
    verify: Annotated[
        bool, typer.Option("--verify", help="Read each file before and after, and compare SHA-256.")
    ] = False,
    while_busy: Annotated[
        bool, typer.Option("--while-busy", help="Go on though jobs of the grid run.")
    ] = False,
    json: Json = False,
) -> int:
    """Move files that lie otherwise than a file of their size should, by lfs migrate, the largest first.

    Runs on this machine, which has to have mounted the file system, as root. Files that are open, archived,
    released or mirrored are left alone. It ends when jobs run, and goes on where it ended when it is run
    again, also after kill -9: a file has either its old layout or the new one. Exit status 0 where all was
    moved or left alone, 1 where files failed or jobs run, 3 where a file holds other bytes than before.

    Examples: gridwright layout rebalance grid.yaml data --dry-run; gridwright layout rebalance --verify
    """
    from gridwright.cli.data import layout_rebalance

    flags = layout_rebalance.RebalanceFlags(bandwidth, at_least, verify, while_busy, dry_run)
    return layout_rebalance.rebalance(file, what or [], flags, json=json)
