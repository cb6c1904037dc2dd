"""The kind `grid_engine`: its section of the grid spec, and how it is opened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gridwright.schedulers.grid_engine.section import GridEngineSection, section_of
from gridwright.schedulers.kind import SchedulerKind
from gridwright.schedulers.network import GridPart, NetworkRule
from gridwright.services.ports import Ports
from gridwright.yamltext.fields import FieldError

if TYPE_CHECKING:
    from gridwright.schedulers.batch.scheduler import BatchScheduler
    from gridwright.schedulers.head_node import HeadNode
    from gridwright.schedulers.in_lab import SchedulerNodes
    from gridwright.schedulers.job import NodeState
    from gridwright.schedulers.usage import JobUsage
    from gridwright.services.service import Service
    from gridwright.spec.model import GridSpec

QMASTER = Ports("Qmaster", 6444, 6444)
EXECD = Ports("Execd", 6445, 6445)
"""As /etc/services has sge_qmaster and sge_execd."""


class GridEngineKind(SchedulerKind[GridEngineSection]):
    """Hands jobs to Grid Engine through its own commands on the head node."""

    spec_model = GridEngineSection
    # Its mailer wants a mail system, and nullmailer is the smallest that Debian has.
    lab_packages = ("gridengine-client", "gridengine-exec", "gridengine-master", "nullmailer")

    def open(self, spec: GridSpec, head: HeadNode) -> BatchScheduler:
        """The Grid Engine of a grid; see SchedulerKind."""
        from gridwright.schedulers.batch.directories import make_batch_directories
        from gridwright.schedulers.batch.scheduler import BatchScheduler
        from gridwright.schedulers.grid_engine.system import GridEngine
        from gridwright.schedulers.state_directory import state_directory

        directories = make_batch_directories(state_directory(spec), "grid_engine")
        return BatchScheduler(GridEngine(spec, head), spec.scheduler, head, directories)

    def nodes(self, spec: GridSpec, head: HeadNode) -> list[NodeState]:
        """As qhost tells them: nothing of the state directory is needed."""
        from gridwright.schedulers.grid_engine.system import GridEngine

        return list(GridEngine(spec, head).facts().nodes.values())

    def usage(self, spec: GridSpec, head: HeadNode, since: float, until: float) -> list[JobUsage]:
        """What qacct has; see SchedulerKind."""
        from gridwright.schedulers.grid_engine.accounting import used
        from gridwright.schedulers.grid_engine.commands import tools

        return used(tools(section_of(spec), head), since, until)

    def lab_problems(self, section: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], FieldError]]:
        """Grid Engine has no queues of higher priority: it orders jobs by shares, tickets and urgency."""
        queues = section.get("queues")
        for name, queue in queues.items() if isinstance(queues, Mapping) else ():
            if isinstance(queue, Mapping) and queue.get("priority", 1) != 1:
                yield (
                    ("queues", str(name), "priority"),
                    FieldError("Grid Engine gives queues no priority over others", "leave it out"),
                )

    def lab_services(
        self, spec: GridSpec, controller: str, workers: Sequence[str]
    ) -> Sequence[Service[SchedulerNodes]]:
        """sge_qmaster on the controller, sge_execd on the workers."""
        from gridwright.schedulers.grid_engine.daemons import ExecutionDaemons, QueueMaster

        return (QueueMaster([controller], workers), ExecutionDaemons(workers))

    def network_rules(self, spec: GridSpec) -> Iterator[NetworkRule]:
        """Commands and nodes to the queue master, and the queue master to nodes."""
        for source in (GridPart.LOGIN, GridPart.COMPUTE):
            yield NetworkRule(GridPart.HEAD, source, QMASTER, "commands and nodes to sge_qmaster")
        yield NetworkRule(GridPart.COMPUTE, GridPart.HEAD, EXECD, "sge_qmaster to sge_execd")


KIND = GridEngineKind()
