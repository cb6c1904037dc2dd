"""The scheduler of a grid spec: its kind, its queues, and what a Slurm of one's own is set up with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from gridwright.spec.fields import Change, Name, SpecModel, Update
from gridwright.spec.registry import Registry
from gridwright.yamltext.fields import Duration

SCHEDULERS: Registry[str] = Registry("scheduler")
"""Schedulers that a spec can name, with what they are."""
SCHEDULERS.register("local")("the scheduler built into Gridwright, for the machine that it runs on")
SCHEDULERS.register("slurm")("Slurm")
SCHEDULERS.register("ssh")("none: work of Gridwright's own is started on each node through ssh")


def choices(registry: Registry[str]) -> Callable[[dict[str, Any]], None]:
    """Put the names of a registry into the JSON Schema of a field, as they are when it is made."""

    def put(schema: dict[str, Any]) -> None:
        schema["enum"] = registry.names()

    return put


def _scheduler(name: str) -> str:
    SCHEDULERS.get(name)
    return name


_QUEUE = Update(Change.LIVE, "jobs that are submitted later have it")
_CONFIGURED = Update(Change.LIVE, "Slurm reads its configuration again, jobs go on")


class Queue(SpecModel):
    """A queue of jobs (a partition, in Slurm)."""

    priority: Annotated[int, _QUEUE] = Field(
        default=1, ge=0, le=65_533, description="Jobs of the queue with the higher priority start first."
    )
    cores: Annotated[int | None, _QUEUE] = Field(
        default=None, ge=1, description="The most cores that its jobs may use at the same time."
    )
    time: Annotated[Duration | None, _QUEUE] = Field(
        default=None, description="The longest that a job may run, such as 8h. By default without limit."
    )


class Scheduler(SpecModel):
    """What starts jobs on nodes."""

    type: Annotated[str, AfterValidator(_scheduler), Update(Change.REBUILD, "queued jobs are lost")] = Field(
        default="local",
        description="The kind of scheduler: local is the one built into Gridwright, for one machine; slurm "
        "is Slurm; ssh is none, and work of Gridwright's own is started through ssh.",
        json_schema_extra=choices(SCHEDULERS),
    )
    queues: Annotated[Mapping[Name, Queue], _QUEUE] = Field(
        default_factory=lambda: {"batch": Queue()},
        min_length=1,
        description="Queues by name; the first is the default. By default one, named batch. A Slurm "
        "that is there already has partitions of its own.",
    )
    account: Annotated[str | None, _QUEUE] = Field(
        default=None, description="The Slurm account that jobs are charged to, as sbatch --account has it."
    )
    partition: Annotated[str | None, _QUEUE] = Field(
        default=None, description="The Slurm partition of jobs that name no queue."
    )
    options: Annotated[list[str], _QUEUE] = Field(
        default_factory=list,
        description="More options for every sbatch, one a line as typed, such as --qos=night.",
    )
    accounting: Annotated[Literal["jobcomp", "slurmdbd"], _CONFIGURED] = Field(
        default="jobcomp",
        description="Where Slurm keeps ended jobs: jobcomp is a file, slurmdbd a database with its daemon. "
        "For a Slurm that Gridwright sets up.",
    )
    backup_controller: Annotated[bool, _CONFIGURED] = Field(
        default=False,
        description="Whether the first compute node takes over when the controller fails; Slurm then keeps "
        "its state on the shared file system. For a Slurm that Gridwright sets up.",
    )
