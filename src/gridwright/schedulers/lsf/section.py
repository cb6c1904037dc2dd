"""The section `scheduler` of a grid spec with LSF."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gridwright.spec.fields import Directory
from gridwright.spec.model import GridSpec
from gridwright.spec.scheduler import LATER_JOBS, REPLACED, SchedulerSection


class LsfSection(SchedulerSection):
    """An IBM Spectrum LSF that is there already: Gridwright does not set it up."""

    knows_nodes: ClassVar[bool] = True
    is_of_sites_alone: ClassVar[bool] = True
    job_options: ClassVar[frozenset[str]] = frozenset(
        {
            *("account", "qos", "reservation", "licences", "gres", "constraint", "begin", "mail"),
            *("stdin", "stdout", "stderr"),
        }
    )
    job_options_instead: ClassVar[Mapping[str, str]] = {
        "nice": "name a queue with a lower priority, with --queue: LSF orders jobs by queue and share"
    }
    dependency_types: ClassVar[frozenset[str]] = frozenset({"ok", "any", "not-ok", "each"})

    type: Annotated[Literal["lsf"], REPLACED] = Field(
        description="The kind of scheduler: lsf is an IBM Spectrum LSF that is there already."
    )
    profile: Annotated[Directory | None, LATER_JOBS] = Field(
        default=None,
        description="The file profile.lsf on the head node, which sets what LSF's commands need. By default "
        "they are found in PATH.",
    )
    owner: Annotated[str | None, LATER_JOBS] = Field(
        default=None,
        description="The account that profile belongs to, such as lsfadmin, where that is not root's: it "
        "could run anything as whoever runs gridwright.",
    )
    project: Annotated[str | None, LATER_JOBS] = Field(
        default=None, description="The project that jobs are charged to, as bsub -P has it."
    )
    queue: Annotated[str | None, LATER_JOBS] = Field(
        default=None, description="The queue of jobs that name none. By default LSF's own default queue."
    )


def section_of(spec: GridSpec) -> LsfSection:
    """The section of a spec whose scheduler is LSF. Raises TypeError for another."""
    if not isinstance(spec.scheduler, LsfSection):
        raise TypeError(f"{spec.scheduler.type} is not lsf")
    return spec.scheduler
