"""The part of a kind of scheduler that is the same for every BatchSystem."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from gridwright.schedulers.kind import S, SchedulerKind

if TYPE_CHECKING:
    from gridwright.schedulers.batch.scheduler import BatchScheduler
    from gridwright.schedulers.batch.system import BatchSystem
    from gridwright.schedulers.head_node import HeadNode
    from gridwright.schedulers.job import NodeState
    from gridwright.spec.model import GridSpec


class BatchKind(SchedulerKind[S]):
    """A kind whose scheduler is a BatchSystem; the directory of its jobs has the name of its type."""

    @abstractmethod
    def system(self, spec: GridSpec, head: HeadNode) -> BatchSystem:
        """The batch system of a grid, reached through its head node. Raises as `open` of SchedulerKind."""

    def open(self, spec: GridSpec, head: HeadNode) -> BatchScheduler:
        """The scheduler of a grid; see SchedulerKind."""
        from gridwright.schedulers.batch.scheduler import BatchScheduler
        from gridwright.schedulers.batch.submission import make_batch_directories
        from gridwright.schedulers.state_directory import state_directory

        directories = make_batch_directories(state_directory(spec), spec.scheduler.type)
        return BatchScheduler(self.system(spec, head), spec.scheduler, head, directories)

    def nodes(self, spec: GridSpec, head: HeadNode) -> list[NodeState]:
        """As the batch system tells them: nothing of the state directory is needed."""
        return list(self.system(spec, head).facts().nodes.values())
