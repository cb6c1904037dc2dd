"""The kind `slurm`: its section of the grid spec, and how it is opened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from gridwright.schedulers.kind import SchedulerKind
from gridwright.spec.fields import Change, Update
from gridwright.spec.scheduler import LATER_JOBS, REPLACED, SchedulerSection
from gridwright.yamltext.fields import FieldError

if TYPE_CHECKING:
    from gridwright.schedulers.head_node import HeadNode
    from gridwright.schedulers.slurm.scheduler import SlurmScheduler
    from gridwright.spec.model import GridSpec

_CONFIGURED = Update(Change.LIVE, "Slurm reads its configuration again, jobs go on")


class SlurmSection(SchedulerSection):
    """Slurm, set up by Gridwright or there already."""

    knows_nodes: ClassVar[bool] = True
    needs_head_node: ClassVar[bool] = True

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


class SlurmKind(SchedulerKind[SlurmSection]):
    """Hands jobs to Slurm through its own commands on the head node."""

    spec_model = SlurmSection

    def open(self, spec: GridSpec, head: HeadNode) -> SlurmScheduler:
        """The Slurm of a grid; see SchedulerKind."""
        from gridwright.schedulers.slurm.scheduler import SlurmScheduler
        from gridwright.schedulers.state_directory import state_directory

        return SlurmScheduler(spec, head, state_directory(spec))

    def lab_problems(self, section: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], FieldError]]:
        """A lab has no database server."""
        if section.get("accounting") == "slurmdbd":
            yield (
                ("accounting",),
                FieldError("a lab has no database that slurmdbd could use", "write jobcomp"),
            )


KIND = SlurmKind()
