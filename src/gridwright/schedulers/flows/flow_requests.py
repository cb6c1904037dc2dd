"""Makes requests of the jobs of a flow, in an order in which each stands after those that it waits for."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Any

from gridwright.errors import Problem
from gridwright.schedulers.array_text import parse_array
from gridwright.schedulers.begin_time import parse_begin
from gridwright.schedulers.dependency import Dependency, parse_dependency
from gridwright.schedulers.flows.flow_file import FlowJob, JobFlow
from gridwright.schedulers.job import JobRequest
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
