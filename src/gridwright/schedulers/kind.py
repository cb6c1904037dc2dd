"""What a kind of scheduler is asked: its section of the grid spec, and how to open it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from gridwright.spec.scheduler import SchedulerSection

if TYPE_CHECKING:
    from gridwright.schedulers.head_node import HeadNode
    from gridwright.schedulers.scheduler import Scheduler
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

    @abstractmethod
    def open(self, spec: GridSpec, head: HeadNode) -> Scheduler:
        """The scheduler of a grid, reached through its head node.

        Raises GridwrightError: status INPUT for a grid that cannot have jobs of this scheduler, ENVIRONMENT
        where its state directory cannot be used.
        """

    def state_directory(self, spec: GridSpec) -> Path:
        """Where jobs, logs and records of a grid are kept when the spec does not say: on all nodes the same.

        By default on the file system of library data, or of the first library where there is no data.
        """
        library = "data" if "data" in spec.libraries else next(iter(spec.libraries))
        return spec.filesystem_of(library).path / ".gridwright"

    def lab_problems(self, section: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], FieldError]]:
        """What of the section, as plain data, a lab cannot have: a path within the section, and why."""
        yield from ()

    def section(self, spec: GridSpec) -> S:
        """The scheduler of a spec, typed as this kind's. Raises TypeError for a spec of another kind."""
        if not isinstance(spec.scheduler, self.spec_model):
            raise TypeError(f"{spec.scheduler.type} is not {self.spec_model.__name__}")
        return spec.scheduler
