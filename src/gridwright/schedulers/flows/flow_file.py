"""The file of a flow: its jobs by name, what each asks for, and what it waits for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import BeforeValidator, Field, ModelWrapValidatorHandler, Strict, model_validator

from gridwright.errors import Problem, nearest
from gridwright.schedulers.begin_time import parse_begin
from gridwright.schedulers.dependency import DependencyType, parse_dependency
from gridwright.schedulers.indices import parse_array
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
MOST_JOBS = 5000
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

    if len(jobs) > MOST_JOBS:
        yield ("jobs",), FieldError(f"the flow has {len(jobs)} jobs", f"a flow has at most {MOST_JOBS}")
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
