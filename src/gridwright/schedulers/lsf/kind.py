"""The kind `lsf`: its section of the grid spec, and how it is opened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from gridwright.schedulers.kind import SchedulerKind
from gridwright.schedulers.lsf.section import LsfSection
from gridwright.yamltext.fields import FieldError

if TYPE_CHECKING:
    from gridwright.schedulers.batch.scheduler import BatchScheduler
    from gridwright.schedulers.head_node import HeadNode
    from gridwright.schedulers.job import NodeState
    from gridwright.schedulers.usage import JobUsage
    from gridwright.spec.model import GridSpec


class LsfKind(SchedulerKind[LsfSection]):
    """Hands jobs to LSF through its own commands on the head node."""

    spec_model = LsfSection

    def open(self, spec: GridSpec, head: HeadNode) -> BatchScheduler:
        """The LSF of a grid; see SchedulerKind."""
        from gridwright.schedulers.batch.directories import make_batch_directories
        from gridwright.schedulers.batch.scheduler import BatchScheduler
        from gridwright.schedulers.lsf.system import Lsf
        from gridwright.schedulers.state_directory import state_directory

        directories = make_batch_directories(state_directory(spec), "lsf")
        return BatchScheduler(Lsf(spec, head), spec.scheduler, head, directories)

    def nodes(self, spec: GridSpec, head: HeadNode) -> list[NodeState]:
        """As bhosts tells them: nothing of the state directory is needed."""
        from gridwright.schedulers.lsf.system import Lsf

        return list(Lsf(spec, head).facts().nodes.values())

    def usage(self, spec: GridSpec, head: HeadNode, since: float, until: float) -> list[JobUsage]:
        """What bacct has of all users; of jobs that were handed in here our own record, which is exact."""
        from gridwright.schedulers.batch.directories import make_batch_directories
        from gridwright.schedulers.batch.recorded_usage import recorded_numbers, recorded_usage
        from gridwright.schedulers.lsf.accounting import read_accounting
        from gridwright.schedulers.lsf.commands import tools
        from gridwright.schedulers.lsf.section import section_of
        from gridwright.schedulers.state_directory import state_directory

        self.open(spec, head).jobs()
        directories = make_batch_directories(state_directory(spec), "lsf")
        own = recorded_numbers(directories)
        others = read_accounting(tools(section_of(spec), head), since, until)
        return [
            *recorded_usage(directories, since, until),
            *(each for each in others if each.id.partition("_")[0] not in own),
        ]

    def lab_problems(self, section: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], FieldError]]:
        """A lab has only what everybody may have."""
        yield (
            ("type",),
            FieldError("a lab has no LSF, which is IBM's product", "write slurm or grid_engine for a lab"),
        )


KIND = LsfKind()
