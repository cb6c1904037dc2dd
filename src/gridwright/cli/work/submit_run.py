"""What `gridwright submit` does with its flags."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from gridwright.cli.arguments import Reader
from gridwright.cli.grid_file import open_grid
from gridwright.cli.work.array import parse_array
from gridwright.errors import ExitStatus, GridwrightError, Problem
from gridwright.schedulers.job import JobRequest
from gridwright.spec import GridSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitFlags:
    """The flags as they were typed."""

    command: Sequence[str]
    grid: Path | None
    cores: int = 1
    memory: str | None = None
    queue: str | None = None
    time: str | None = None
    array: str | None = None
    after: Sequence[str] = ()
    restart: bool = False
    name: str | None = None
    keep: bool = False
    directory: str | None = None
    null: bool = False
    json: bool = False


def run_submit(flags: SubmitFlags) -> None:
    """Submit and print the identifier. Raises GridwrightError with all problems at once."""
    opened = open_grid(flags.grid)
    scheduler = opened.scheduler
    reader = Reader()
    request = reader.finish(read_request(flags, opened.spec, reader))
    try:
        (identifier,) = scheduler.submit([request])
    except GridwrightError as error:
        if error.status is not ExitStatus.INPUT:
            raise
        raise GridwrightError(*map(_named_by_flag, error.problems)) from None
    if flags.json:
        typer.echo(json.dumps({"schema": 1, "command": "submit", "job": identifier}, indent=2))
    else:
        typer.echo(identifier)


def read_request(flags: SubmitFlags, spec: GridSpec, reader: Reader) -> JobRequest:
    """The request that the flags describe; what cannot be read is noted, and left out."""
    array: list[int] | None = None
    if flags.array is not None:
        read = parse_array(flags.array)
        if isinstance(read, Problem):
            reader.add([read])
        else:
            array = read
    return JobRequest(
        command=list(flags.command),
        directory=str(Path(flags.directory).absolute()) if flags.directory is not None else os.getcwd(),  # noqa: PTH109
        environment=dict(os.environ),
        libraries={name: str(spec.library_directory(name)) for name in spec.libraries},
        name=flags.name or "",
        cores=flags.cores,
        memory_bytes=reader.size("--memory", flags.memory),
        queue=flags.queue,
        time_limit_s=reader.seconds("--time", flags.time),
        array=array,
        after=list(flags.after),
        restart=flags.restart,
        keep=flags.keep,
        null=flags.null,
    )


_FLAGS = ("cores", "memory", "queue", "time", "array", "after", "name", "directory")


def _named_by_flag(problem: Problem) -> Problem:
    """A scheduler names fields of the request; the user typed flags."""
    if problem.where not in _FLAGS:
        return problem
    return Problem(what=problem.what, where=f"--{problem.where}", remedy=problem.remedy)
