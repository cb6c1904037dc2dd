"""`gridwright submit`: hands a job to the grid's scheduler."""

from __future__ import annotations

from typing import Annotated

import typer

from gridwright.cli.arguments import Json
from gridwright.cli.grid_file import GridFile


def submit(  # noqa: PLR0913, PLR0917 - one argument a flag
    command: Annotated[
        list[str],
        typer.Argument(metavar="-- COMMAND...", help="Program and arguments, handed on as they are."),
    ],
    grid: GridFile = None,
    cores: Annotated[int, typer.Option("--cores", metavar="N", help="Physical cores.")] = 1,
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory", metavar="SIZE", help="The most it may use, such as 4GiB.  [default: its cores' share]"
        ),
    ] = None,
    queue: Annotated[
        str | None, typer.Option("--queue", metavar="Q", help="A queue of the spec.  [default: the first]")
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(
            "--time", metavar="T", help="End it after this time, such as 90s or 8h.  [default: the queue's]"
        ),
    ] = None,
    array: Annotated[
        str | None,
        typer.Option("--array", metavar="INDICES", help="One job for each index: 1-100, 1-100:2 or 1,5,9."),
    ] = None,
    after: Annotated[
        list[str] | None,
        typer.Option("--after", metavar="JOB", help="Start when this job has completed. Can be repeated."),
    ] = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Start it again when its node or its runner dies.")
    ] = False,
    name: Annotated[
        str | None, typer.Option("--name", metavar="S", help="Its name.  [default: the program's]")
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep its private directories in work and util.")
    ] = False,
    directory: Annotated[
        str | None, typer.Option("--directory", metavar="DIR", help="Where it starts.  [default: here]")
    ] = None,
    null: Annotated[
        bool,
        typer.Option("--null", help="For measuring the scheduler: start no process at all.", hidden=True),
    ] = False,
    json: Json = False,
) -> None:
    """Hand a job to the grid's scheduler, and print its number.

    Example: gridwright submit --cores 2 --memory 4GiB --array 1-100 -- python3 model.py
    """
    from gridwright.cli.submit_run import SubmitFlags, run_submit

    flags = SubmitFlags(
        command=command,
        grid=grid,
        cores=cores,
        memory=memory,
        queue=queue,
        time=time,
        array=array,
        after=after or [],
        restart=restart,
        name=name,
        keep=keep,
        directory=directory,
        null=null,
        json=json,
    )
    run_submit(flags)
