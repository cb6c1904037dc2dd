"""`gridwright layout show | check | set | rebalance`: over which targets files of libraries lie."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gridwright.cli.arguments import Json, SpecFile, read_path
from gridwright.cli.verbs import plain_app

layout = plain_app(
    "Show, check and set over which targets files of libraries lie, and move them.", no_args_is_help=True
)


@layout.command()
def show(
    file: SpecFile = None,
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="PATH", parser=read_path, help="Files or directories; without any, all libraries."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Show the layout of files and directories, or of libraries with all that lies in them.

    Of a library: what new files get, what the spec states or the model chooses, and files and bytes by
    layout and size, by a look of at most 20 s through its directory, on the head node, or on a node that
    has mounted it. No file is opened.

    Examples: gridwright layout show; gridwright layout show grid.yaml /grid/data/claims.dat
    """
    from gridwright.cli.data import layout_show

    layout_show.show(file, paths or [], json=json)


@layout.command()
def check(file: SpecFile = None, json: Json = False) -> int:
    """Say what is wrong with the layouts of files in libraries, as gridwright doctor does.

    A look of some seconds through each library, the largest files by name. Nothing is changed. Exit status 1
    where something is found that the spec does not silence.

    Example: gridwright layout check grid.yaml
    """
    from gridwright.cli.data import layout_check

    return layout_check.check(file, json=json)


@layout.command("set")
def set_(
    file: SpecFile = None,
    libraries: Annotated[
        list[str] | None,
        typer.Argument(metavar="LIBRARY", help="Such as data; without any, all that have layouts."),
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
    layout rebalance. A directory that has it already is left alone. Runs on the head node, or on a
    node that has mounted it, as root or as the owner of the directory.

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
            metavar="LIBRARY|PATH",
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
        bool, typer.Option("--while-busy", help="Go on though jobs run or others move data.")
    ] = False,
    json: Json = False,
) -> int:
    """Move files that lie otherwise than a file of their size should, by lfs migrate, the largest first.

    Runs on this machine, which has to have mounted the file system, as root. Files that are open, archived,
    released or mirrored, or that grew by appending (unless they are named), are left alone. It ends when
    jobs run, or when this machine moves much beside it, and goes on where it ended when it is run again,
    also after kill -9: a file has either its old layout or the new one. Exit status 0 where all was moved or
    left alone, 1 where files failed or the grid is busy, 3 where a file holds other bytes than before.

    Examples: gridwright layout rebalance grid.yaml data --dry-run; gridwright layout rebalance --verify
    """
    from gridwright.cli.data import layout_rebalance

    flags = layout_rebalance.RebalanceFlags(bandwidth, at_least, verify, while_busy, dry_run)
    return layout_rebalance.rebalance(file, what or [], flags, json=json)
