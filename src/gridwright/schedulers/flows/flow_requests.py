"""Makes requests of the jobs of a flow, in an order in which each stands after those that it waits for.

The run of a flow: which jobs it consists of, and what of it is to be done again.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from typing import Any

from gridwright.errors import GridwrightError, Problem
from gridwright.schedulers.begin_time import parse_begin
from gridwright.schedulers.dependency import Dependency, DependencyType, parse_dependency
from gridwright.schedulers.flows.flow_file import FlowJob, JobFlow
from gridwright.schedulers.indices import parse_array
from gridwright.schedulers.job import Job, JobRequest, JobState
from gridwright.schedulers.job_options import JobOptions

_PLAIN = ("account", "qos", "reservation", "constraint", "nice", "mail")
_LISTS = ("licences", "gres", "mail_on")
_STREAMS = ("stdin", "stdout", "stderr")


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSurroundings:
    """What the jobs of a flow have from the one who submits it."""

    directory: str
    """Relative paths of the flow start there."""
    environment: Mapping[str, str]
    libraries: Mapping[str, str]


def dependencies(job: FlowJob) -> list[Dependency]:
    """What a job waits for, by names."""
    return [each for each in map(parse_dependency, job.after) if isinstance(each, Dependency)]


def order(flow: JobFlow) -> list[str]:
    """The names of its jobs, each after those that it waits for, else as in the file."""
    graph = {name: [dependency.job for dependency in dependencies(job)] for name, job in flow.jobs.items()}
    return list(TopologicalSorter(graph).static_order())


def flow_requests(
    flow: JobFlow, run: str, surroundings: FlowSurroundings, kept: Collection[str] = ()
) -> list[JobRequest]:
    """A request for each job, but for those that are `kept` from an earlier run: nothing waits for them."""
    names = [name for name in order(flow) if name not in kept]
    numbers = {name: number for number, name in enumerate(names)}
    return [_request(flow, name, run, surroundings, numbers) for name in names]


def _request(
    flow: JobFlow, name: str, run: str, surroundings: FlowSurroundings, numbers: Mapping[str, int]
) -> JobRequest:
    job = flow.jobs[name]
    directory = os.path.join(surroundings.directory, _field_or_default(flow, job, "directory") or "")  # noqa: PTH118
    options: dict[str, Any] = {each: _field_or_default(flow, job, each) for each in (*_PLAIN, *_LISTS)}
    for stream in _STREAMS:
        path = _field_or_default(flow, job, stream)
        options[stream] = None if path is None else os.path.join(directory, path)  # noqa: PTH118
    if (begin := _field_or_default(flow, job, "begin")) is not None:
        options["begin"] = parse_begin(begin)
    array = _field_or_default(flow, job, "array")
    asked: dict[str, Any] = {
        "cores": _field_or_default(flow, job, "cores"),
        "memory_bytes": _field_or_default(flow, job, "memory"),
        "queue": _field_or_default(flow, job, "queue"),
        "time_limit_s": _field_or_default(flow, job, "time"),
        "array": None if array is None else _indices(array),
        **{each: _field_or_default(flow, job, each) for each in ("restart", "keep", "exclusive", "node")},
    }
    return JobRequest(
        command=list(job.command or ()),
        directory=os.path.normpath(directory),
        environment={**surroundings.environment, **flow.defaults.environment, **job.environment},
        libraries=surroundings.libraries,
        name=name,
        after=[
            str(Dependency(f"#{numbers[dependency.job]}", dependency.type))
            for dependency in dependencies(job)
            if dependency.job in numbers
        ],
        options=JobOptions(flow=run, **{each: value for each, value in options.items() if value is not None}),
        **{each: value for each, value in asked.items() if value is not None},
    )


def _field_or_default(flow: JobFlow, job: FlowJob, field: str) -> Any:  # noqa: ANN401 - any field
    value = getattr(job, field)
    return getattr(flow.defaults, field) if value is None else value


def _indices(text: str) -> Sequence[int]:
    found = parse_array(text)
    if isinstance(found, Problem):
        raise TypeError(found.what)
    return found


def new_run(flow: str) -> str:
    """A name for a run of a flow, as jobs keep it: NAME/TIME-RANDOM."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    return f"{flow}/{stamp}-{secrets.token_hex(2)}"


def flow_name(run: str) -> str:
    """The name of the flow that a run is of."""
    return run.partition("/")[0]


@dataclass(frozen=True, slots=True)
class FlowRun:
    """A run of a flow, as its scheduler remembers its jobs."""

    name: str
    """As jobs keep it."""
    jobs: Mapping[str, Sequence[Job]] = field(default_factory=dict)
    """The last job of each name; several where it is an array."""

    def unfinished(self) -> list[Job]:
        """Those that wait or run."""
        return [job for jobs in self.jobs.values() for job in jobs if not job.state.final]

    def completed(self) -> set[str]:
        """Names of which every element has completed."""
        return {
            name for name, jobs in self.jobs.items() if all(job.state is JobState.COMPLETED for job in jobs)
        }


def last_run(jobs: Iterable[Job], flow: str) -> FlowRun | None:
    """The run of a flow that was submitted last; None where none is remembered."""
    own = [job for job in jobs if job.flow is not None and flow_name(job.flow) == flow]
    if not own:
        return None
    run = max(own, key=lambda job: job.submitted or 0.0).flow
    latest: dict[str, dict[str, list[Job]]] = {}
    for job in own:
        if job.flow == run:
            latest.setdefault(job.name, {}).setdefault(job.id.partition("_")[0], []).append(job)
    return FlowRun(
        run or "",
        {
            name: max(by_number.values(), key=lambda found: found[0].submitted or 0.0)
            for name, by_number in latest.items()
        },
    )


def reusable_jobs(flow: JobFlow, run: FlowRun) -> set[str]:
    """Names of jobs whose results of an earlier run are reused: they and all before them completed.

    A job that was to start only after another one's failure, which completed, is not needed and counts as
    done. Raises GridwrightError (INPUT) where jobs of the run wait or run.
    """
    if unfinished := run.unfinished():
        names = sorted({f"{job.name} ({job.id.partition('_')[0]})" for job in unfinished})
        raise GridwrightError(
            Problem(
                what=f"jobs of the last run of flow {flow.flow} wait or run: {', '.join(names)}",
                remedy="wait for them with gridwright wait, or end them with gridwright cancel",
            )
        )
    completed = run.completed()
    done: set[str] = set()
    unneeded: set[str] = set()
    for name in order(flow):
        waits = dependencies(flow.jobs[name])
        if not all(wait.job in done or wait.job in unneeded for wait in waits):
            continue
        if name in completed:
            done.add(name)
        elif any(_never_comes(wait, done, unneeded) for wait in waits):
            unneeded.add(name)
    return done | unneeded


def _never_comes(dependency: Dependency, done: Collection[str], unneeded: Collection[str]) -> bool:
    if dependency.job in done:
        return dependency.type is DependencyType.NOT_OK
    return dependency.job in unneeded and dependency.type in (DependencyType.OK, DependencyType.EACH)
