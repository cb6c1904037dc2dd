"""The scheduler of a grid spec: what every kind has; each kind's own model lives in its package."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Protocol, cast

from pydantic import Field, SerializeAsAny

from gridwright.errors import nearest
from gridwright.spec.fields import Change, Name, SpecModel, Update
from gridwright.spec.kinds import KindRegistry, KindSection, OfItsKind
from gridwright.yamltext.fields import Duration, FieldError
from gridwright.yamltext.source import show

REPLACED = Update(Change.REBUILD, "queued jobs are lost")
"""What changing the kind of a scheduler does; each kind's `type` says so."""
LATER_JOBS = Update(Change.LIVE, "jobs that are submitted later have it")


class HasSchedulerSection(Protocol):
    """What the spec needs of a kind of scheduler; all of it is `gridwright.schedulers.kind.SchedulerKind`."""

    spec_model: type[SchedulerSection]

    def lab_problems(self, section: Mapping[str, Any]) -> Iterable[tuple[tuple[str, ...], FieldError]]:
        """What of its section, as plain data, a lab cannot have."""


SCHEDULERS: KindRegistry[HasSchedulerSection] = KindRegistry(
    "scheduler", "gridwright.schedulers", ("spec_model", "open")
)
"""Kinds of schedulers that a spec can name."""


class Queue(SpecModel):
    """A queue of jobs (a partition, in Slurm)."""

    priority: Annotated[int, LATER_JOBS] = Field(
        default=1, ge=0, le=65_533, description="Jobs of the queue with the higher priority start first."
    )
    cores: Annotated[int | None, LATER_JOBS] = Field(
        default=None, ge=1, description="The most cores that its jobs may use at the same time."
    )
    time: Annotated[Duration | None, LATER_JOBS] = Field(
        default=None, description="The longest that a job may run, such as 8h. By default without limit."
    )
    nodes: Annotated[list[Name] | None, LATER_JOBS] = Field(
        default=None,
        min_length=1,
        description="The groups of nodes that its jobs run on, such as [wide]. By default all.",
    )
    spot: Annotated[bool, LATER_JOBS] = Field(
        default=False,
        description="Whether its jobs may run on spot instances: their machines can be taken away, and they "
        "start again elsewhere.",
    )


class SchedulerSection(KindSection):
    """What starts jobs on nodes; a kind narrows `type`, adds its fields, and says what it can do."""

    registry = SCHEDULERS
    default = "local"

    runs_on_one_machine: ClassVar[bool] = False
    """Whether it gives jobs to the machine that Gridwright runs on, and to no other."""
    has_queue: ClassVar[bool] = True
    """Whether users can submit jobs."""
    knows_nodes: ClassVar[bool] = False
    """Whether it can tell which nodes there are, so that a site need not name them in the spec."""
    powers_nodes: ClassVar[bool] = False
    """Whether it has nodes powered on when jobs wait for them, and off when they are idle."""
    needs_head_node: ClassVar[bool] = False
    """Whether a service of its own runs on a machine beside the nodes."""
    is_of_sites_alone: ClassVar[bool] = False
    """Whether nothing sets it up on machines that a cloud makes: a site has it already."""
    remembers_jobs_s: ClassVar[float | None] = None
    """How long it knows of a job after its end; None where that is its administrator's choice."""
    job_options: ClassVar[frozenset[str]] = frozenset()
    """The options of a job that it can do, by their names in `gridwright.schedulers.job`; a job with
    another one is refused when it is submitted."""
    job_options_instead: ClassVar[Mapping[str, str]] = {}
    """What to use instead of an option that it cannot do, or of a type of dependency (`after any`), where it
    knows better than the general advice."""
    dependency_types: ClassVar[frozenset[str]] = frozenset({"ok"})
    """How a job that another one waits for may have to end: ok, any, not-ok, each."""

    type: Annotated[str, REPLACED] = Field(description="The kind of scheduler, such as local.")
    queues: Annotated[Mapping[Name, Queue], LATER_JOBS] = Field(
        default_factory=lambda: {"batch": Queue()},
        min_length=1,
        description="Queues by name; the first is the default. By default one, named batch. A Slurm "
        "that is there already has partitions of its own.",
    )

    @property
    def starts_jobs_on_nodes(self) -> bool:
        """Whether jobs that are submitted start on the nodes of the grid."""
        return self.has_queue and not self.runs_on_one_machine


def queue_problems(data: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], FieldError]]:
    """Queues on groups of nodes that the spec does not have; `data` is the plain data of a spec."""
    groups = data.get("nodes", {"compute": {}})
    scheduler = data.get("scheduler")
    queues = scheduler.get("queues") if isinstance(scheduler, Mapping) else None
    if not isinstance(queues, Mapping) or not isinstance(groups, Mapping):
        return
    known = [str(name) for name in groups]
    for name, queue in queues.items():
        required = queue.get("nodes") if isinstance(queue, Mapping) else None
        if not isinstance(required, Sequence) or isinstance(required, str):
            continue
        for at, group in enumerate(required):
            path = ("scheduler", "queues", str(name), "nodes", str(at))
            if group in required[:at]:
                yield path, FieldError(f"group {show(group)} is named twice", "remove one")
            elif group not in known:
                near = nearest(str(group), known)
                meant = f"did you mean {near}? " if near and len(known) > 1 else ""
                groups_are = f"{meant}Groups are {', '.join(known)}"
                yield path, FieldError(f"there is no group of nodes {show(group)}", groups_are)


def default_scheduler() -> SchedulerSection:
    """The scheduler of a spec that has no section `scheduler`."""
    name = SchedulerSection.default
    return SCHEDULERS.get(name).spec_model.model_validate({"type": name})


def scheduler_kind_in(data: Mapping[str, object]) -> HasSchedulerSection | None:
    """The kind of scheduler that plain data of a spec name; None where that is not known."""
    return cast("HasSchedulerSection | None", SchedulerSection.kind_in(data.get("scheduler", {})))


AnyScheduler = Annotated[SerializeAsAny[SchedulerSection], OfItsKind(SchedulerSection)]
"""A scheduler of any registered kind."""
