"""Which scheduler a grid spec names: the one place that knows them all."""

from __future__ import annotations

from collections.abc import Callable

from gridwright.errors import input_error
from gridwright.schedulers.head_node import HeadNode
from gridwright.schedulers.scheduler import Scheduler
from gridwright.schedulers.state_directory import state_directory
from gridwright.spec.model import GridSpec


def open_scheduler(spec: GridSpec, head: HeadNode) -> Scheduler:
    """The scheduler of a grid, reached through its head node.

    Raises GridwrightError (status INPUT) for a grid that has none.
    """
    return _SCHEDULERS[spec.scheduler.type](spec, head)


def _local(spec: GridSpec, _head: HeadNode) -> Scheduler:
    from gridwright.schedulers.local.scheduler import LocalScheduler

    return LocalScheduler(spec, state_directory(spec))


def _slurm(spec: GridSpec, head: HeadNode) -> Scheduler:
    from gridwright.schedulers.slurm.scheduler import SlurmScheduler

    return SlurmScheduler(spec, head, state_directory(spec))


def _ssh(spec: GridSpec, _head: HeadNode) -> Scheduler:
    raise input_error(
        f"grid {spec.name} has no queue: its scheduler is ssh",
        where=str(spec.file) if spec.file else None,
        remedy="write scheduler: {type: local} for one machine, or {type: slurm}, for jobs to wait in",
    )


_SCHEDULERS: dict[str, Callable[[GridSpec, HeadNode], Scheduler]] = {
    "local": _local,
    "slurm": _slurm,
    "ssh": _ssh,
}
