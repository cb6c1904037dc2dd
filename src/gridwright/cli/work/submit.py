"""`gridwright submit`: hands a job to the grid's scheduler."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gridwright.cli.arguments import Json, Reader, read_path
from gridwright.cli.flags import Reads, options_of, read_flags, verb
from gridwright.cli.grid_file import GridFile, open_grid
from gridwright.cli.output import LazyResult, Output
from gridwright.cli.spec_file import make_libraries
from gridwright.cli.verbs import plain_app
from gridwright.cli.work.array import read_array
from gridwright.errors import ExitStatus, GridwrightError, Problem

if TYPE_CHECKING:
    from gridwright.schedulers.job import JobRequest
    from gridwright.spec import GridSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitFlags:
    """The flags of `gridwright submit`, as they were typed."""

    command: Annotated[
        list[str],
        typer.Argument(metavar="-- COMMAND...", help="Program and arguments, handed on as they are."),
    ]
    grid: GridFile = None
    cores: Annotated[int, typer.Option("--cores", metavar="N", help="Physical cores.")] = 1
    memory: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="The most it may use, such as 4GiB.  [default: its cores' share]"),
        Reads(Reader.size, "memory_bytes"),
    ] = None
    queue: Annotated[
        str | None, typer.Option(metavar="Q", help="A queue of the spec.  [default: the first]")
    ] = None
    time: Annotated[
        str | None,
        typer.Option(metavar="T", help="End it after this time, such as 90s or 8h.  [default: the queue's]"),
        Reads(Reader.seconds, "time_limit_s"),
    ] = None
    array: Annotated[
        str | None,
        typer.Option(metavar="INDICES", help="One job for each index: 1-100, 1-100:2 or 1,5,9."),
        Reads(read_array),
    ] = None
    after: Annotated[
        list[str] | None,
        typer.Option(metavar="JOB", help="Start when this job has completed. Can be repeated."),
    ] = None
    restart: Annotated[
        bool, typer.Option("--restart", help="Start it again when its node or its runner dies.")
    ] = False
    name: Annotated[str | None, typer.Option(metavar="S", help="Its name.  [default: the program's]")] = None
    keep: Annotated[bool, typer.Option("--keep", help="Keep its private directories in work and util.")] = (
        False
    )
    directory: Annotated[
        Path | None, typer.Option(metavar="DIR", parser=read_path, help="Where it starts.  [default: here]")
    ] = None
    null: Annotated[
        bool, typer.Option("--null", help="For measuring the scheduler: start no process.", hidden=True)
    ] = False
    json: Json = False


def run_submit(flags: SubmitFlags) -> ExitStatus:
    """Hand a job to the grid's scheduler, and print its number.

    Example: gridwright submit --cores 2 --memory 4GiB --array 1-100 -- python3 model.py
    """
    grid = open_grid(flags.grid)
    reader = Reader()
    request = reader.finish(read_request(flags, grid.spec, reader))
    # What cannot be made may be there when the job starts.
    with contextlib.suppress(GridwrightError):
        make_libraries(grid.spec)
    try:
        (identifier,) = grid.scheduler.submit([request])
    except GridwrightError as error:
        if error.status is not ExitStatus.INPUT:
            raise
        raise GridwrightError(*map(_named_by_flag, error.problems)) from None
    Output("submit", json=flags.json).show(
        LazyResult(document=lambda: {"job": identifier}, text=lambda: str(identifier))
    )
    return ExitStatus.DONE


submit = plain_app()
submit.command(context_settings={"allow_interspersed_args": False})(verb(run_submit))


def read_request(flags: SubmitFlags, spec: GridSpec, reader: Reader) -> JobRequest:
    """The request that the flags describe; what cannot be read is noted, and left out."""
    from gridwright.schedulers.job import JobRequest

    values = read_flags(flags, reader) | {
        "directory": str(flags.directory.absolute()) if flags.directory is not None else os.getcwd(),  # noqa: PTH109
        "environment": dict(os.environ),
        "libraries": {name: str(spec.library_directory(name)) for name in spec.libraries},
        "name": flags.name or "",
        "after": flags.after or [],
    }
    return options_of(JobRequest, values)


_FLAGS = ("cores", "memory", "queue", "time", "array", "after", "name", "directory")


def _named_by_flag(problem: Problem) -> Problem:
    """A scheduler names fields of the request; the user typed flags."""
    if problem.where not in _FLAGS:
        return problem
    return Problem(what=problem.what, where=f"--{problem.where}", remedy=problem.remedy)
