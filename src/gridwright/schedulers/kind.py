"""What a kind of scheduler is asked: its section of the grid spec, and how to open it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from gridwright.errors import input_error
from gridwright.spec.scheduler import SchedulerSection

if TYPE_CHECKING:
    from gridwright.schedulers.head_node import HeadNode
    from gridwright.schedulers.job import NodeState
    from gridwright.schedulers.machines import (
        GridMachines,
        NetworkRule,
        SchedulerNodes,
        SchedulerSetup,
        SharedKey,
    )
    from gridwright.schedulers.scheduler import Scheduler, SchedulerPolicies, SettingComparison
    from gridwright.schedulers.usage import JobUsage
    from gridwright.services.playbook_role import PlaybookRole
    from gridwright.services.service import Service
    from gridwright.spec.model import GridSpec
    from gridwright.yamltext.fields import FieldError

S = TypeVar("S", bound=SchedulerSection)


class SchedulerKind(ABC, Generic[S]):
    """One kind of scheduler; the object is listed in `builtin.py` or in an entry point of a site's package.

    What the kind can do at all (`has_queue`, `knows_nodes` ...) stands on its section of the spec, where
    every room can ask `spec.scheduler` for it. The methods here answer what needs more than that; each has
    a default that suits a scheduler which a site runs by itself. They read and write nothing, but for
    what `open` returns.
    """

    spec_model: type[S]
    """The section `scheduler` of the grid spec; its `type` is a Literal of the kind's name."""
    shared_key: SharedKey | None = None
    """A secret that its nodes trust each other by; None where there is none."""
    lab_packages: Sequence[str] = ()
    """Debian packages that the image of a lab's nodes has for it, beside those that every image has."""

    @abstractmethod
    def open(self, spec: GridSpec, head: HeadNode) -> Scheduler:
        """The scheduler of a grid, reached through its head node.

        Raises GridwrightError: status INPUT for a grid that cannot have jobs of this scheduler, ENVIRONMENT
        where its state directory cannot be used.
        """

    def nodes(self, spec: GridSpec, head: HeadNode) -> list[NodeState]:
        """All nodes that jobs could run on, asked from wherever the head node is reached.

        Raises GridwrightError as `open` does, and ENVIRONMENT where the scheduler does not answer.
        """
        return self.open(spec, head).nodes()

    def policies(self, spec: GridSpec, head: HeadNode) -> SchedulerPolicies | None:
        """Its queues, accounts and limits as they are now; None for a kind that does not tell them.

        Raises GridwrightError as `nodes` does.
        """
        return None

    def compared_settings(self, spec: GridSpec, head: HeadNode) -> Sequence[SettingComparison]:
        """Its settings, held against what is recommended; they are never changed.

        Raises GridwrightError as `nodes` does.
        """
        return ()

    def usage(self, spec: GridSpec, head: HeadNode, since: float, until: float) -> list[JobUsage]:
        """What jobs used that ended from `since` to `until` (seconds since 1970), of all users one may see.

        Bounded in time. Raises GridwrightError: INPUT where the scheduler keeps no accounting that this kind
        reads, as by default; ENVIRONMENT where it does not answer.
        """
        raise input_error(
            f"scheduler {self.section(spec).type} keeps no accounting that Gridwright reads",
            where=str(spec.file) if spec.file else None,
            remedy="ask its own tools; gridwright help jobs says whose accounting is read",
        )

    def state_directory(self, spec: GridSpec) -> Path:
        """Where jobs, logs and records of a grid are kept when the spec does not say: on all nodes the same.

        By default on the file system of library data, or of the first library where there is no data.
        """
        library = "data" if "data" in spec.libraries else next(iter(spec.libraries))
        return spec.filesystem_of(library).path / ".gridwright"

    def lab_problems(self, section: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], FieldError]]:
        """What of the section, as plain data, a lab cannot have: a path within the section, and why."""
        yield from ()

    def setup(
        self, spec: GridSpec, machines: Callable[[], GridMachines], release: str | None = None
    ) -> SchedulerSetup:
        """What is needed to set the scheduler up on machines, which are asked for only where they matter.

        `release` is the one of the scheduler that is or will be installed; None: the oldest that is known.
        The same arguments give the same bytes. Raises GridwrightError (status INPUT).
        """
        from gridwright.schedulers.machines import SchedulerSetup

        return SchedulerSetup()

    def playbook_variables(self, setup: SchedulerSetup | None, *, sets_up: bool) -> Mapping[str, Any]:
        """Variables of the kind's role of the playbook, for every grid.

        `setup` is None where the grid has another scheduler; `sets_up` is false where the site may have one
        of its own already, and sets it up only when it says so.
        """
        return {}

    def playbook_roles(self) -> Sequence[PlaybookRole]:
        """Roles of the playbook that set it up on nodes."""
        return ()

    def lab_services(
        self, spec: GridSpec, controller: str, workers: Sequence[str]
    ) -> Sequence[Service[SchedulerNodes]]:
        """The services of a lab, in the order in which they start; `workers` are the nodes that run jobs."""
        return ()

    def standbys(self, spec: GridSpec, workers: Sequence[str]) -> Sequence[str]:
        """Which of the nodes that run jobs take over for its controller when that fails, in their order."""
        return ()

    def network_rules(self, spec: GridSpec) -> Iterable[NetworkRule]:
        """Who has to reach whom on which ports, for firewalls and security groups."""
        return ()

    def section(self, spec: GridSpec) -> S:
        """The scheduler of a spec, typed as this kind's. Raises TypeError for a spec of another kind."""
        if not isinstance(spec.scheduler, self.spec_model):
            raise TypeError(f"{spec.scheduler.type} is not {self.spec_model.__name__}")
        return spec.scheduler
