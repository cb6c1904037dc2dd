"""`gridwright submit --flow`: submits all jobs of a flow, or those of its last run that did not complete."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gridwright.cli.arguments import Reader
from gridwright.cli.grid_file import open_grid
from gridwright.cli.output import LazyResult, Output
from gridwright.cli.spec_file import make_libraries
from gridwright.cli.work.submit_flags import SubmitFlags, read_environment
from gridwright.errors import ExitStatus, GridwrightError, Problem, input_error
from gridwright.schedulers.flows import (
    FlowSurroundings,
    JobFlow,
    flow_requests,
    last_run,
    load_flow,
    new_run,
    reusable_jobs,
)

if TYPE_CHECKING:
    from gridwright.schedulers.job import JobRequest
    from gridwright.schedulers.scheduler import Scheduler
    from gridwright.spec import GridSpec

_WITH_A_FLOW = ("grid", "directory", "environment", "flow", "resume", "json")


def submit_flow(flags: SubmitFlags) -> ExitStatus:
    """Submit the jobs of a flow together. Raises GridwrightError with every problem of file and flags."""
    reader = Reader()
    if flags.flow is None:
        raise input_error("--resume goes with --flow", where="--resume", remedy="name the file of the flow")
    for field in fields(SubmitFlags):
        if field.name not in _WITH_A_FLOW and getattr(flags, field.name) != field.default:
            flag = "command" if field.name == "command" else f"--{field.name.replace('_', '-')}"
            reader.problem(f"{flag} goes with one job", flag, "write it into the file of the flow")
    environment = read_environment(flags, reader)
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
