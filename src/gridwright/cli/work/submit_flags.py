"""The flags of `gridwright submit`, and how those that stand for a job's options are read."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gridwright.cli.arguments import Json, Reader, Value, read_path
from gridwright.cli.flags import Reads, some_of
from gridwright.cli.grid_file import GridFile
from gridwright.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Sequence


def _read_array(reader: Reader, flag: str, text: str) -> Sequence[int] | None:
    from gridwright.schedulers.job_request import parse_array

    return _noted(reader, parse_array(text, flag))


def _read_begin(reader: Reader, flag: str, text: str) -> float | None:
    from gridwright.schedulers.job_request import parse_begin

    return _noted(reader, parse_begin(text, where=flag))


def _read_words(_reader: Reader, _flag: str, text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _noted(reader: Reader, read: Value | Problem) -> Value | None:
    """What was read; what is wrong with it is noted in `reader`."""
    if isinstance(read, Problem):
        reader.add([read])
        return None
    return read


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitFlags:
    """The flags of `gridwright submit`, as they were typed."""

    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="-- COMMAND...", help="Program and arguments, handed on as they are."),
    ] = None
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
        Reads(_read_array),
    ] = None
    after: Annotated[
        list[str] | None,
        typer.Option(
            metavar="JOB",
            help="Start when this job has completed; any:JOB ended, not-ok:JOB failed, each:JOB element by "
            "element of two arrays. Can be repeated.",
        ),
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
    exclusive: Annotated[
        bool, typer.Option("--exclusive", help="Run no other job on its node meanwhile.")
    ] = False
    begin: Annotated[
        str | None,
        typer.Option(metavar="WHEN", help="Start no sooner: 22:00, 2027-01-31T22:00 or +2h."),
        Reads(_read_begin),
    ] = None
    nice: Annotated[
        int | None, typer.Option(metavar="N", help="Start after alike jobs, the later the larger N is.")
    ] = None
    account: Annotated[
        str | None, typer.Option(metavar="NAME", help="Who pays.  [default: the spec's, if any]")
    ] = None
    qos: Annotated[str | None, typer.Option(metavar="QOS", help="Its quality of service.")] = None
    reservation: Annotated[str | None, typer.Option(metavar="NAME", help="The reservation it runs in.")] = (
        None
    )
    licences: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Licences that it holds: sas:2,oracle."),
        Reads(_read_words),
    ] = None
    gres: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Resources of its node: gpu:2."), Reads(_read_words)
    ] = None
    constraint: Annotated[
        str | None, typer.Option(metavar="FEATURES", help="Features that its node must have.")
    ] = None
    mail: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Tell this address of it.")] = None
    mail_on: Annotated[
        str | None,
        typer.Option(metavar="EVENTS", help="Of begin, end, fail.  [default: end,fail]"),
        Reads(some_of("begin", "end", "fail")),
    ] = None
    stdin: Annotated[str | None, typer.Option(metavar="FILE", help="Read this file.")] = None
    stdout: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Append what it prints to this file, in place of its log: out-{job}.txt."
        ),
    ] = None
    stderr: Annotated[
        str | None, typer.Option(metavar="FILE", help="The same for its standard error alone.")
    ] = None
    environment: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES",
            help="all, none, or variables: NAME or NAME=VALUE. Can be repeated.  [default: all]",
        ),
    ] = None
    flow: Annotated[
        Path | None,
        typer.Option(metavar="FILE", parser=read_path, help="Submit all jobs of a flow, or none."),
    ] = None
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Of the flow's last run, submit again what did not complete."),
    ] = False
    null: Annotated[
        bool, typer.Option("--null", help="For measuring the scheduler: start no process.", hidden=True)
    ] = False
    json: Json = False


def read_environment(flags: SubmitFlags, reader: Reader) -> dict[str, str]:
    """The environment that jobs get of this one's."""
    from gridwright.schedulers.job_request import chosen_environment

    environment, problems = chosen_environment(flags.environment or (), os.environ)
    reader.add([named_by_flag(problem) for problem in problems])
    return environment


_NOT_NAMED = ("command", "libraries", "null")


def named_by_flag(problem: Problem) -> Problem:
    """A scheduler names fields of the request; the user typed flags."""
    where = problem.where
    if where is None or where in _NOT_NAMED or where not in _FLAGS:
        return problem
    return replace(problem, where=f"--{where.replace('_', '-')}")


_FLAGS = tuple(field.name for field in fields(SubmitFlags))
