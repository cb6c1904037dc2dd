"""`gridwright layout show | check`: over which targets of a file system the files of libraries lie."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gridwright.cli.arguments import Json, SpecFile, read_path
from gridwright.cli.verbs import plain_app

layout = plain_app(
    "Show over which targets the files of libraries lie, and check that.", no_args_is_help=True
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

    Of a library: what new files get, and files and bytes by layout and size, by a look of at most 20 s
    through its directory, on the head node of the grid. No file is opened.

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
