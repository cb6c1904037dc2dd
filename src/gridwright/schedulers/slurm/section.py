"""The section `scheduler` of a grid spec with Slurm."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gridwright.spec.fields import Change, Update
from gridwright.spec.model import GridSpec
from gridwright.spec.scheduler import LATER_JOBS, REPLACED, SchedulerSection

_CONFIGURED = Update(Change.LIVE, "Slurm reads its configuration again, jobs go on")


class SlurmSection(SchedulerSection):
    """Slurm, set up by Gridwright or there already."""

    knows_nodes: ClassVar[bool] = True
    powers_nodes: ClassVar[bool] = True
    needs_head_node: ClassVar[bool] = True
    job_options: ClassVar[frozenset[str]] = frozenset(
        {
            "account",
            "begin",
            "constraint",
            "gres",
            "licences",
            "mail",
            "nice",
            "qos",
            "reservation",
            "stderr",
            "stdin",
            "stdout",
        }
    )
    dependency_types: ClassVar[frozenset[str]] = frozenset({"ok", "any", "not-ok", "each"})

    type: Annotated[Literal["slurm"], REPLACED] = Field(
        description="The kind of scheduler: slurm is Slurm, set up by Gridwright or there already."
    )
    account: Annotated[str | None, LATER_JOBS] = Field(
        default=None, description="The Slurm account that jobs are charged to, as sbatch --account has it."
    )
    partition: Annotated[str | None, LATER_JOBS] = Field(
        default=None, description="The Slurm partition of jobs that name no queue."
    )
    options: Annotated[list[str], LATER_JOBS] = Field(
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

    @property
    def has_database(self) -> bool:
        """Whether slurmdbd keeps ended jobs, in a database."""
        return self.accounting == "slurmdbd"


def section_of(spec: GridSpec) -> SlurmSection:
    """The section of a spec whose scheduler is Slurm. Raises TypeError for another."""
    if not isinstance(spec.scheduler, SlurmSection):
        raise TypeError(f"{spec.scheduler.type} is not slurm")
    return spec.scheduler
