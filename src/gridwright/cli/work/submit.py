"""`gridwright submit`: hands a job to the grid's scheduler."""

from __future__ import annotations

from typing import Annotated

import typer

from gridwright.cli.arguments import Json
from gridwright.cli.grid_file import GridFile
from gridwright.cli.verbs import plain_app

Command = Annotated[
    list[str], typer.Argument(metavar="-- COMMAND...", help="Program and arguments, handed on as they are.")
]
Cores = Annotated[int, typer.Option("--cores", metavar="N", help="Physical cores.")]
Memory = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="The most it may use, such as 4GiB.  [default: its cores' share]"),
]
Queue = Annotated[str | None, typer.Option(metavar="Q", help="A queue of the spec.  [default: the first]")]
Time = Annotated[
    str | None,
    typer.Option(metavar="T", help="End it after this time, such as 90s or 8h.  [default: the queue's]"),
]
Array = Annotated[
    str | None, typer.Option(metavar="INDICES", help="One job for each index: 1-100, 1-100:2 or 1,5,9.")
]
After = Annotated[
    list[str] | None,
    typer.Option(metavar="JOB", help="Start when this job has completed. Can be repeated."),
]
Restart = Annotated[bool, typer.Option("--restart", help="Start it again when its node or its runner dies.")]
Name = Annotated[str | None, typer.Option(metavar="S", help="Its name.  [default: the program's]")]
Keep = Annotated[bool, typer.Option("--keep", help="Keep its private directories in work and util.")]
Directory = Annotated[str | None, typer.Option(metavar="DIR", help="Where it starts.  [default: here]")]
Null = Annotated[
    bool, typer.Option("--null", help="For measuring the scheduler: start no process.", hidden=True)
]


submit = plain_app()


@submit.command(context_settings={"allow_interspersed_args": False})
def _submit(  # noqa: PLR0913, PLR0917 - one argument a flag
    command: Command,
    grid: GridFile = None,
    cores: Cores = 1,
    memory: Memory = None,
    queue: Queue = None,
    time: Time = None,
    array: Array = None,
    after: After = None,
    restart: Restart = False,
    name: Name = None,
    keep: Keep = False,
    directory: Directory = None,
    null: Null = False,
    json: Json = False,
) -> None:
    """Hand a job to the grid's scheduler, and print its number.

    Example: gridwright submit --cores 2 --memory 4GiB --array 1-100 -- python3 model.py
    """
    from gridwright.cli.work.submit_run import SubmitFlags, run_submit

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
