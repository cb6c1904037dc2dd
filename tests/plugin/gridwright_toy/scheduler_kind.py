"""The kind `toy` of schedulers: its section of the grid spec, and how it is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from gridwright.api import LATER_JOBS, REPLACED, SchedulerKind, SchedulerSection

if TYPE_CHECKING:
    from gridwright_toy.scheduler import ToyScheduler

    from gridwright.api import GridSpec, HeadNode


class ToySection(SchedulerSection):
    """The toy scheduler, which starts every job at once."""

    runs_on_one_machine: ClassVar[bool] = True
    dependency_types: ClassVar[frozenset[str]] = frozenset()

    type: Annotated[Literal["toy"], REPLACED] = Field(
        description="The kind of scheduler: toy starts every job at once."
    )
    greeting: Annotated[str, LATER_JOBS] = Field(
        default="hello", description="What each job finds in TOY_GREETING."
    )


class ToySchedulerKind(SchedulerKind[ToySection]):
    """Opens the toy scheduler."""

    spec_model = ToySection

    def open(self, spec: GridSpec, head: HeadNode) -> ToyScheduler:
        """The jobs of a grid, which lie in its state directory."""
        from gridwright_toy.scheduler import ToyScheduler

        from gridwright.api import state_directory

        return ToyScheduler(state_directory(spec), self.section(spec))


KIND = ToySchedulerKind()
