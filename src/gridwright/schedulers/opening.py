"""Opening the scheduler that a grid spec names."""

from __future__ import annotations

from gridwright.schedulers import kind_of
from gridwright.schedulers.head_node import HeadNode
from gridwright.schedulers.scheduler import Scheduler
from gridwright.spec.model import GridSpec


def open_scheduler(spec: GridSpec, head: HeadNode) -> Scheduler:
    """The scheduler of a grid, reached through its head node.

    Raises GridwrightError (status INPUT) for a grid that has none.
    """
    return kind_of(spec.scheduler).open(spec, head)
