"""The section `scheduler` of a grid spec with Grid Engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gridwright.spec.fields import Directory, Name
from gridwright.spec.model import GridSpec
from gridwright.spec.scheduler import LATER_JOBS, REPLACED, SchedulerSection


class GridEngineSection(SchedulerSection):
    """A Grid Engine that is there already; in a lab, one that the lab sets up."""

    knows_nodes: ClassVar[bool] = True
    is_of_sites_alone: ClassVar[bool] = True
    needs_head_node: ClassVar[bool] = True
    job_options: ClassVar[frozenset[str]] = frozenset(
        {
            *("account", "reservation", "licences", "gres", "constraint", "begin", "nice", "mail"),
            *("stdin", "stdout", "stderr"),
        }
    )
    job_options_instead: ClassVar[Mapping[str, str]] = {
        "qos": "name a queue, with --queue, or a project in the spec: Grid Engine's policies go by these"
    }
    dependency_types: ClassVar[frozenset[str]] = frozenset({"ok", "any", "not-ok", "each"})

    type: Annotated[Literal["grid_engine"], REPLACED] = Field(
        description="The kind of scheduler: grid_engine is Grid Engine, there already or in a lab."
    )
    root: Annotated[Directory | None, LATER_JOBS] = Field(
        default=None,
        description="The directory of Grid Engine on the head node, as SGE_ROOT has it. By default that of "
        "the caller's environment, or what its commands were built with.",
    )
    owner: Annotated[str | None, LATER_JOBS] = Field(
        default=None,
        description="The account that root belongs to, such as sgeadmin, where that is not root's: it could "
        "run anything as whoever runs gridwright.",
    )
    cell: Annotated[Name | None, LATER_JOBS] = Field(
        default=None, description="The cell, as SGE_CELL has it. By default that of the caller's environment."
    )
    project: Annotated[str | None, LATER_JOBS] = Field(
        default=None, description="The project that jobs are charged to, as qsub -P has it."
    )
    queue: Annotated[str | None, LATER_JOBS] = Field(
        default=None,
        description="The queue of jobs that name none. By default the first of queues, where Grid Engine "
        "has it, else any.",
    )
    parallel_environment: Annotated[str, LATER_JOBS] = Field(
        default="smp",
        description="The parallel environment that gives a job several cores of one node; its allocation "
        "rule must be $pe_slots.",
    )
    memory: Annotated[str, LATER_JOBS] = Field(
        default="h_rss",
        description="The complex that jobs ask for memory with, such as h_rss, h_vmem or mem_free. Nodes run "
        "no more jobs than they have memory for where it is a consumable.",
    )


def section_of(spec: GridSpec) -> GridEngineSection:
    """The section of a spec whose scheduler is Grid Engine. Raises TypeError for another."""
    if not isinstance(spec.scheduler, GridEngineSection):
        raise TypeError(f"{spec.scheduler.type} is not grid_engine")
    return spec.scheduler
