"""`gridwright submit`: hands one job to the grid's scheduler, or with --flow all jobs of a flow.

Of a flow, with --resume, those of its last run that did not complete.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gridwright.cli.arguments import (
    Json,
    Reader,
    Reads,
    Value,
    options_of,
    read_flags,
    read_path,
    some_of,
    verb,
)
from gridwright.cli.output import LazyResult, Output
from gridwright.cli.spec_file import GridFile, make_libraries, open_grid
from gridwright.cli.verbs import plain_app
from gridwright.errors import ExitStatus, GridwrightError, Problem, input_error

if TYPE_CHECKING:
    from gridwright.schedulers.flows import JobFlow
    from gridwright.schedulers.job import JobRequest
    from gridwright.schedulers.scheduler import Scheduler
    from gridwright.spec import GridSpec


def run_submit(flags: SubmitFlags) -> ExitStatus:
    """Hand a job to the grid's scheduler, and print its number.

    Example: gridwright submit --cores 2 --memory 4GiB --array 1-100 -- python3 model.py
    """
    if flags.flow is not None or flags.resume:
        return _submit_flow(flags)
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


def read_request(flags: SubmitFlags, spec: GridSpec, reader: Reader) -> JobRequest:
    """The request that the flags describe; what cannot be read is noted, and left out."""
    from gridwright.schedulers.job import JobOptions, JobRequest

    directory = str(flags.directory.absolute()) if flags.directory is not None else os.getcwd()  # noqa: PTH109
    values = read_flags(flags, reader)
    streams = {name: _below(directory, values[name]) for name in ("stdin", "stdout", "stderr")}
    given = {name: value for name, value in (values | streams).items() if value is not None}
    if not flags.command:
        reader.problem("there is no command", "command", "write it after --, or name a flow with --flow")
    values |= {
        "command": flags.command or [],
        "directory": directory,
        "environment": _read_environment(flags, reader),
        "libraries": {name: str(spec.library_directory(name)) for name in spec.libraries},
        "name": flags.name or "",
        "after": flags.after or [],
        "options": options_of(JobOptions, given),
    }
    return options_of(JobRequest, values)


def _below(directory: str, path: str | None) -> str | None:
    return None if path is None else os.path.join(directory, path)  # noqa: PTH118 - any bytes


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


def _read_environment(flags: SubmitFlags, reader: Reader) -> dict[str, str]:
    """The environment that jobs get of this one's."""
    from gridwright.schedulers.job_request import chosen_environment

    environment, problems = chosen_environment(flags.environment or (), os.environ)
    reader.add([_named_by_flag(problem) for problem in problems])
    return environment


_NOT_NAMED = ("command", "libraries", "null")


def _named_by_flag(problem: Problem) -> Problem:
    """A scheduler names fields of the request; the user typed flags."""
    where = problem.where
    if where is None or where in _NOT_NAMED or where not in _FLAGS:
        return problem
    return replace(problem, where=f"--{where.replace('_', '-')}")


_FLAGS = tuple(field.name for field in fields(SubmitFlags))


_WITH_A_FLOW = ("grid", "directory", "environment", "flow", "resume", "json")


def _submit_flow(flags: SubmitFlags) -> ExitStatus:
    """Submit the jobs of a flow together. Raises GridwrightError with every problem of file and flags."""
    from gridwright.schedulers.flows import FlowSurroundings, flow_requests, load_flow, new_run

    reader = Reader()
    if flags.flow is None:
        raise input_error("--resume goes with --flow", where="--resume", remedy="name the file of the flow")
    for field in fields(SubmitFlags):
        if field.name not in _WITH_A_FLOW and getattr(flags, field.name) != field.default:
            flag = "command" if field.name == "command" else f"--{field.name.replace('_', '-')}"
            reader.problem(f"{flag} goes with one job", flag, "write it into the file of the flow")
    environment = _read_environment(flags, reader)
    flow, place = load_flow(flags.flow)
    reader.finish(flow)
    grid = open_grid(flags.grid)
    surroundings = FlowSurroundings(
        directory=str((flags.directory or Path(flags.flow).parent).absolute()),
        environment=environment,
        libraries=_libraries(grid.spec),
    )
    with contextlib.suppress(GridwrightError):
        make_libraries(grid.spec)
    run, kept = _resumed(grid.scheduler, flow) if flags.resume else (new_run(flow.flow), set[str]())
    requests = flow_requests(flow, run, surroundings, kept)
    identifiers = _submit(grid.scheduler, requests, place)
    made = {request.name: identifier for request, identifier in zip(requests, identifiers, strict=True)}
    Output("submit", json=flags.json).show(
        LazyResult(
            document=lambda: {"flow": run, "jobs": made, "kept": sorted(kept)},
            text=lambda: _text(flow, made, kept),
        )
    )
    return ExitStatus.DONE


def _libraries(spec: GridSpec) -> dict[str, str]:
    return {name: str(spec.library_directory(name)) for name in spec.libraries}


def _resumed(scheduler: Scheduler, flow: JobFlow) -> tuple[str, set[str]]:
    from gridwright.schedulers.flows import last_run, reusable_jobs

    run = last_run(scheduler.jobs(), flow.flow)
    if run is None:
        raise input_error(
            f"no run of flow {flow.flow} is remembered", where="--resume", remedy="leave out --resume"
        )
    return run.name, reusable_jobs(flow, run)


def _submit(scheduler: Scheduler, requests: Sequence[JobRequest], place: Callable[[str], str]) -> list[str]:
    """Hand them in; what the scheduler refuses stands at its job's place in the file."""
    if not requests:
        return []
    try:
        return scheduler.submit(requests)
    except GridwrightError as error:
        if error.status is not ExitStatus.INPUT:
            raise
        names = {request.name for request in requests}
        raise GridwrightError(*(_placed(problem, names, place) for problem in error.problems)) from None


def _placed(problem: Problem, names: set[str], place: Callable[[str], str]) -> Problem:
    name = problem.what.partition(":")[0]
    if name not in names:
        return problem
    field = f"jobs.{name}.{problem.where}" if problem.where else f"jobs.{name}"
    return replace(problem, where=place(name), field=field)


def _text(flow: JobFlow, made: dict[str, str], kept: set[str]) -> str:
    if not made:
        return f"every job of flow {flow.flow} has completed"
    width = max(map(len, made))
    return "\n".join(f"{name:<{width}}  {identifier}" for name, identifier in made.items())


submit.command(context_settings={"allow_interspersed_args": False})(verb(run_submit))
