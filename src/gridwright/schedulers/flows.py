"""Flows: a file of jobs by name, what each asks for and waits for, and the requests made of them in order.

The run of a flow knows which jobs it consists of, and what of it is to be done again.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import BeforeValidator, Field, ModelWrapValidatorHandler, Strict, model_validator

from gridwright.errors import GridwrightError, Problem, nearest
from gridwright.schedulers.job import Job, JobOptions, JobRequest, JobState
from gridwright.schedulers.job_request import (
    Dependency,
    DependencyType,
    parse_array,
    parse_begin,
    parse_dependency,
)
from gridwright.yamltext.document import compose
from gridwright.yamltext.fields import Duration, FieldError, Size
from gridwright.yamltext.load import parse, read_file
from gridwright.yamltext.source import FileFormat, SourceText, show
from gridwright.yamltext.structure import Refused, Section, validated_with

_BEGIN = "Begin with flow: NAME and jobs:, as in gridwright help jobs"
FLOW = FileFormat(
    name="flow",
    levels="five",
    beginning=_BEGIN,
    instead_of_nothing=_BEGIN,
    max_bytes=2 << 20,
    max_values=100_000,
)
_MOST_JOBS = 5000
_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"
_NAMES = "letters, digits, dots, - and _, at most 63"

_Item = TypeVar("_Item")
# Strict models take no list for a tuple, and YAML has only lists.
_List = Annotated[tuple[_Item, ...], Strict(False)]
_Value = TypeVar("_Value")


def _one_or_more(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _read(read: Callable[[str], _Value | Problem]) -> Callable[[object], object]:
    """A validator that has a text read, and refuses it as that does."""

    def validate(value: object) -> object:
        if type(value) is int:
            value = str(value)
        if not isinstance(value, str):
            return value
        found = read(value)
        if isinstance(found, Problem):
            raise FieldError(found.what, found.remedy or "write another")
        return value

    return validate


_Words = Annotated[_List[str], BeforeValidator(_one_or_more)]
_Path = Annotated[str, Field(min_length=1)]


class FlowJob(Section):
    """What one job asks for; the fields are those of `gridwright submit`."""

    command: Annotated[_List[str], Field(min_length=1)] | None = Field(
        default=None, description="The program and its arguments, each a text; put numbers in quotes."
    )
    after: _Words = Field(
        default=(), description="Jobs of the flow that it waits for: NAME, any:NAME, not-ok:NAME, each:NAME."
    )
    directory: _Path | None = Field(default=None, description="Where it starts, from the flow's own on.")
    cores: int | None = Field(default=None, ge=1, le=100_000, description="Physical cores.")
    memory: Size | None = Field(default=None, description="The most it may use, such as 4 GiB.")
    queue: str | None = Field(default=None, description="A queue of the grid.")
    time: Duration | None = Field(default=None, description="End it after this time, such as 8h.")
    array: Annotated[str, BeforeValidator(_read(parse_array))] | None = Field(
        default=None, description="One job for each index: 1-100, 1-100:2 or 1,5,9."
    )
    restart: bool | None = Field(
        default=None, description="Whether it starts again when its node or its runner dies."
    )
    keep: bool | None = Field(default=None, description="Whether its private directories stay.")
    exclusive: bool | None = Field(default=None, description="Whether no other job runs beside it.")
    node: str | None = Field(default=None, description="The only node that it may run on.")
    account: str | None = Field(default=None, description="Who pays.")
    qos: str | None = Field(default=None, description="Its quality of service.")
    reservation: str | None = Field(default=None, description="The reservation that it runs in.")
    licences: _Words | None = Field(default=None, description="Licences that it holds: NAME or NAME:COUNT.")
    gres: _Words | None = Field(default=None, description="Resources of its node, such as gpu:2.")
    constraint: str | None = Field(default=None, description="Features that its node must have.")
    begin: Annotated[str, BeforeValidator(_read(parse_begin))] | None = Field(
        default=None, description="It starts no sooner: 22:00, 2027-01-31T22:00 or +2h."
    )
    nice: int | None = Field(default=None, description="How much later than alike jobs it starts.")
    mail: str | None = Field(default=None, description="Address that is told of its end.")
    mail_on: _Words | None = Field(default=None, description="Of which events: begin, end, fail.")
    stdin: _Path | None = Field(default=None, description="File that it reads.")
    stdout: _Path | None = Field(default=None, description="File that it writes to, instead of its log.")
    stderr: _Path | None = Field(default=None, description="File for its errors.")
    environment: Mapping[str, str] = Field(
        default_factory=dict, description="Variables that it has besides yours; put numbers in quotes."
    )


class JobFlow(Section):
    """Jobs by name, each after those that it waits for."""

    flow: str = Field(pattern=_NAME, description=f"The name of the flow: {_NAMES}.")
    description: str = Field(default="", description="What it is for.")
    defaults: FlowJob = Field(
        default_factory=FlowJob, description="What every job asks for that says nothing else."
    )
    jobs: Annotated[Mapping[str, FlowJob], Field(min_length=1)] = Field(description="Its jobs, by name.")

    @model_validator(mode="wrap")
    @classmethod
    def _together(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:  # noqa: ANN401
        return validated_with(cls, handler, data, list(_refused(data)))


def _refused(data: Any) -> Iterator[Refused]:  # noqa: ANN401 - whatever YAML gave
    """Names that nothing has, circles, jobs without a command, and defaults that cannot be defaults."""
    jobs = data.get("jobs") if isinstance(data, Mapping) else None
    if not isinstance(jobs, Mapping):
        return
    import re

    if len(jobs) > _MOST_JOBS:
        yield ("jobs",), FieldError(f"the flow has {len(jobs)} jobs", f"a flow has at most {_MOST_JOBS}")
        return
    defaults = data.get("defaults")
    for name in ("command", "after") if isinstance(defaults, Mapping) else ():
        if name in defaults:
            yield ("defaults", name), FieldError(f"{name} is each job's own", "write it below the jobs")
    for name, job in jobs.items():
        if not re.match(_NAME, str(name)):
            yield ("jobs", str(name)), FieldError(f"{show(name)} is no name", f"write {_NAMES}")
        if isinstance(job, Mapping) and "command" not in job:
            yield ("jobs", str(name)), "command"
    waits = {str(name): list(_waits_for(job)) for name, job in jobs.items()}
    for name, wait in waits.items():
        for number, text in wait:
            if (problem := _wrong_dependency(name, text, jobs)) is not None:
                path = ("jobs", name, "after")
                yield (path if number is None else (*path, str(number))), problem
    for circle in _circles({name: [_name(text) for _, text in found] for name, found in waits.items()}):
        shown = " → ".join([*circle, circle[0]])
        yield (
            ("jobs", circle[0], "after"),
            FieldError(f"jobs wait for each other in a circle: {shown}", "remove one of these"),
        )


def _waits_for(job: object) -> Iterator[tuple[int | None, str]]:
    after = job.get("after") if isinstance(job, Mapping) else None
    if isinstance(after, str):
        yield None, after
    elif isinstance(after, list):
        yield from ((number, text) for number, text in enumerate(after) if isinstance(text, str))


def _name(text: str) -> str:
    found = parse_dependency(text)
    return "" if isinstance(found, Problem) else found.job


def _wrong_dependency(name: str, text: str, jobs: Mapping[str, Any]) -> FieldError | None:
    found = parse_dependency(text)
    if isinstance(found, Problem):
        return FieldError(found.what, found.remedy or "write the name of a job")
    if found.job == name:
        return FieldError(f"job {name} waits for itself", "name another job")
    if found.job not in jobs:
        near = nearest(found.job, map(str, jobs))
        hint = f"did you mean {near}? " if near else ""
        return FieldError(f"the flow has no job {show(found.job)}", f"{hint}Jobs are {', '.join(jobs)}")
    both = [jobs[name], jobs[found.job]]
    if found.type is DependencyType.EACH and any(
        isinstance(each, Mapping) and "array" not in each for each in both
    ):
        return FieldError(
            f"{found} goes from element to element, and both have to be arrays", f"write {found.job}"
        )
    return None


def _circles(waits: Mapping[str, Sequence[str]]) -> Iterator[list[str]]:
    """A circle of names for each knot; names that wait for themselves are told elsewhere."""
    left = {name: {each for each in after if each in waits and each != name} for name, after in waits.items()}
    while left:
        free = [name for name, after in left.items() if not after & left.keys()]
        if free:
            for name in free:
                del left[name]
            continue
        # Every name that is left leads to a circle: go until one comes again.
        path = [next(iter(left))]
        while (following := next(iter(sorted(left[path[-1]] & left.keys())))) not in path:
            path.append(following)
        circle = path[path.index(following) :]
        yield circle
        for name in circle:
            del left[name]


def load_flow(file: Path) -> tuple[JobFlow, Callable[[str], str]]:
    """Read a flow, and what gives the place of a job in the file, by its name.

    Raises GridwrightError (status INPUT) that carries every problem, each with file, line and column.
    """
    content = read_file(file, FLOW, lambda _: "name the file of a flow; gridwright help jobs has one")
    flow, text = parse(JobFlow, FLOW, content, str(file))
    source = SourceText(str(file), text)

    def place(job: str) -> str:
        entries = list(compose(source, FLOW).entries(("jobs", job)))
        line, column = source.position(entries[-1].key_index if entries else 0)
        return f"{file}:{line}:{column}"

    return flow, place


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
