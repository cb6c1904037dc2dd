"""The kind `ssh`: no scheduler, for sites whose nodes Gridwright reaches by ssh and gives no jobs to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, NoReturn

from pydantic import Field

from gridwright.errors import input_error
from gridwright.schedulers.kind import SchedulerKind
from gridwright.spec.scheduler import REPLACED, SchedulerSection

if TYPE_CHECKING:
    from gridwright.schedulers.head_node import HeadNode
    from gridwright.spec.model import GridSpec


class SshSection(SchedulerSection):
    """No scheduler: work of Gridwright's own is started on each node through ssh."""

    has_queue: ClassVar[bool] = False

    type: Annotated[Literal["ssh"], REPLACED] = Field(
        description="The kind of scheduler: ssh is none, and work of Gridwright's own is started through ssh."
    )


class SshKind(SchedulerKind[SshSection]):
    """Has no queue: users cannot submit jobs."""

    spec_model = SshSection

    def open(self, spec: GridSpec, head: HeadNode) -> NoReturn:
        """There is nothing to open. Raises GridwrightError (status INPUT)."""
        raise input_error(
            f"grid {spec.name} has no queue: its scheduler is ssh",
            where=str(spec.file) if spec.file else None,
            remedy="write scheduler: {type: local} for one machine, or {type: slurm}, for jobs to wait in",
        )


KIND = SshKind()
