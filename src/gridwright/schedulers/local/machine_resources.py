"""The resources that jobs of the local scheduler share: cores and memory of this machine, and its queues."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from gridwright.errors import input_error
from gridwright.machine import memory_bytes, physical_cores

if TYPE_CHECKING:
    # The runner does without the spec: loading it would double the time it takes to start.
    from gridwright.spec.model import GridSpec


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """What a queue allows. None: without limit."""

    priority: int = 1
    cores: int | None = None
    """At the same time, over all its jobs."""
    time_s: float | None = None


@dataclass(frozen=True, slots=True)
class MachineResources:
    """All that the runner needs of the grid spec; it is kept in the store, and the last writer wins."""

    cores: int
    memory_bytes: int
    queues: Mapping[str, QueueLimits]

    @property
    def default_queue(self) -> str:
        """The queue of jobs that name none: the first."""
        return next(iter(self.queues))

    def share_of_memory(self, cores: int) -> int:
        """Bytes for a job that names none: its cores' share of the memory."""
        return self.memory_bytes * min(cores, self.cores) // self.cores

    def to_json(self) -> str:
        """As text, for the store."""
        return json.dumps(asdict(self), ensure_ascii=True)

    @classmethod
    def from_json(cls, text: str) -> MachineResources:
        """Read what `to_json` wrote."""
        fields = json.loads(text)
        queues = {name: QueueLimits(**limits) for name, limits in fields["queues"].items()}
        return cls(fields["cores"], fields["memory_bytes"], queues)


def machine_resources(spec: GridSpec) -> MachineResources:
    """The resources that a grid spec gives to jobs of this machine.

    Raises GridwrightError (status INPUT) for a grid that is not this machine alone.
    """
    if not spec.is_one_machine:
        raise input_error(
            f"the local scheduler is for provider local, and the grid {spec.name} is on {spec.provider}",
            where=str(spec.file) if spec.file else None,
            remedy="write scheduler: {type: slurm}",
        )
    group = next(iter(spec.nodes.values()))
    queues = {
        name: QueueLimits(queue.priority, queue.cores, queue.time)
        for name, queue in spec.scheduler.queues.items()
    }
    return MachineResources(group.cores or physical_cores(), int(group.memory or memory_bytes()), queues)
