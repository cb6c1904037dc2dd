"""The scheduling policy decides which waiting jobs start next, on which resources; its functions are pure.

Jobs are considered by the priority of their queue, then in the order of submission. The first that does
not fit gets a reservation; later ones may pass it (backfill) as long as they do not delay it:

- Where the time limits of running jobs tell when it will fit, a later job may start if its own time limit
  ends before that, or if what it takes is not needed then.
- Where they do not (a job without a time limit runs), all later jobs together never take what it needs
  of the whole: once the jobs before it have ended, it fits.

Either way a wide job starts once what was ahead of it has ended, however many small ones arrive. A job
that only the core limit of its queue holds up has a reservation in that queue only. The first rule is EASY
backfill (Lifka, "The ANL/IBM SP scheduling system", 1995).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from gridwright.errors import input_error
from gridwright.machine import memory_bytes, physical_cores

if TYPE_CHECKING:
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


MOST_BLOCKED = 1000
"""Waiting jobs that are tried at most, so that a decision takes milliseconds however many wait."""

Rank = tuple[float, int]
"""Order of jobs: the negative priority, then the number of the job."""


@dataclass(frozen=True, slots=True)
class Demand:
    """The resources that a job takes while it runs: cores and bytes of the machine, cores of its queue."""

    cores: int
    memory_bytes: int
    queue: str
    queue_cores: int
    """Less than `cores` for a job that wants no other beside it, and so takes all of the machine."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """A running job, and the resources that it has been given."""

    rank: Rank
    demand: Demand
    ends: float = math.inf
    """When its time limit ends it, in seconds of the clock that `now` is of."""


@dataclass(frozen=True, slots=True)
class PendingJob:
    """A waiting job, or `count` elements of an array that are all alike."""

    rank: Rank
    demand: Demand
    time_s: float = math.inf
    count: int = 1

    @property
    def job(self) -> int:
        """Its number."""
        return self.rank[1]


class Obstacle(StrEnum):
    """Why a job does not start."""

    CORES = "cores"
    MEMORY = "memory"
    QUEUE = "queue"
    RESERVED = "reserved"
    """It fits, and would delay one that is ahead of it."""
    TOO_LARGE = "too-large"
    """It would not even fit on the empty machine."""


@dataclass(frozen=True, slots=True)
class Block:
    """What holds up a job; `behind` is the number of the job with the reservation."""

    obstacle: Obstacle
    behind: int | None = None


@dataclass(slots=True)
class Decision:
    """What to start now: how many of which job; and what blocks the others that were tried."""

    starts: list[tuple[int, int]] = field(default_factory=list)
    blocks: dict[int, Block] = field(default_factory=dict)


Amounts = tuple[float, float, float]
"""Cores, bytes, and cores of the job's own queue."""


def _less(a: Amounts, b: Amounts) -> Amounts:
    return (a[0] - b[0], a[1] - b[1], a[2] - b[2])


def _within(a: Amounts, b: Amounts) -> bool:
    return a[0] <= b[0] and a[1] <= b[1] and a[2] <= b[2]


@dataclass(slots=True)
class _Reservation:
    job: int
    queue: str | None
    """Its queue, where that has a core limit."""
    only_queue: bool
    shadow: float = math.inf
    """When the job will start at the latest; infinity if the time limits do not tell."""
    spare: Amounts = (0, 0, 0)
    """What others may still take beyond `shadow`."""

    def taken(self, demand: Demand) -> Amounts:
        """What a job takes of what is reserved."""
        queue = demand.queue_cores if demand.queue == self.queue else 0
        return (0, 0, queue) if self.only_queue else (demand.cores, demand.memory_bytes, queue)

    def allows(self, demand: Demand, ends: float) -> bool:
        if self.only_queue and demand.queue != self.queue:
            return True
        return ends <= self.shadow < math.inf or _within(self.taken(demand), self.spare)

    def take(self, demand: Demand, ends: float) -> None:
        if not ends <= self.shadow < math.inf:
            self.spare = _less(self.spare, self.taken(demand))


class _Planner:
    def __init__(self, machine: MachineResources, running: Sequence[Allocation], now: float) -> None:
        self.machine = machine
        self.now = now
        self.running = list(running)
        self.cores = machine.cores - sum(allocation.demand.cores for allocation in running)
        self.memory = machine.memory_bytes - sum(allocation.demand.memory_bytes for allocation in running)
        self.queues: dict[str, int] = {}
        for allocation in running:
            self.queues[allocation.demand.queue] = (
                self.queues.get(allocation.demand.queue, 0) + allocation.demand.queue_cores
            )
        self.reservations: list[_Reservation] = []

    def limit(self, queue: str) -> float:
        limits = self.machine.queues.get(queue)
        return math.inf if limits is None or limits.cores is None else limits.cores

    def obstacle(self, pending_job: PendingJob) -> Block | None:
        demand = pending_job.demand
        if (
            demand.cores > self.machine.cores
            or demand.queue_cores > self.limit(demand.queue)
            or demand.memory_bytes > self.machine.memory_bytes
        ):
            return Block(Obstacle.TOO_LARGE)
        if demand.cores > self.cores:
            return Block(Obstacle.CORES)
        if demand.memory_bytes > self.memory:
            return Block(Obstacle.MEMORY)
        if demand.queue_cores > self.limit(demand.queue) - self.queues.get(demand.queue, 0):
            return Block(Obstacle.QUEUE)
        for reservation in self.reservations:
            if not reservation.allows(demand, self.now + pending_job.time_s):
                return Block(Obstacle.RESERVED, reservation.job)
        return None

    def start(self, pending_job: PendingJob) -> None:
        demand, ends = pending_job.demand, self.now + pending_job.time_s
        self.cores -= demand.cores
        self.memory -= demand.memory_bytes
        self.queues[demand.queue] = self.queues.get(demand.queue, 0) + demand.queue_cores
        for reservation in self.reservations:
            reservation.take(demand, ends)
        self.running.append(Allocation(pending_job.rank, demand, ends))

    def reserve(self, pending_job: PendingJob, obstacle: Obstacle) -> None:
        """Keep a place for a job that is blocked, if it is the first that is blocked so."""
        queue, only_queue = pending_job.demand.queue, obstacle is Obstacle.QUEUE
        if obstacle in (Obstacle.TOO_LARGE, Obstacle.RESERVED):
            return
        for reservation in self.reservations:
            if only_queue == reservation.only_queue and (not only_queue or reservation.queue == queue):
                return
        limit = self.limit(queue)
        kept = _Reservation(pending_job.job, None if limit == math.inf else queue, only_queue)
        need = kept.taken(pending_job.demand)
        total = (self.machine.cores, self.machine.memory_bytes, limit)
        if not self._foresee(kept, need, total):
            kept.shadow, kept.spare = math.inf, total
            for allocation in self.running:
                if allocation.rank > pending_job.rank:
                    kept.spare = _less(kept.spare, kept.taken(allocation.demand))
        kept.spare = _less(kept.spare, need)
        self.reservations.append(kept)

    def _foresee(self, reservation: _Reservation, need: Amounts, total: Amounts) -> bool:
        """Find when there will be enough by the time limits of what runs; false if they do not tell."""
        free = total
        for allocation in self.running:
            free = _less(free, reservation.taken(allocation.demand))
        for allocation in sorted(self.running, key=lambda each: each.ends):
            if allocation.ends == math.inf:
                break
            taken = reservation.taken(allocation.demand)
            free = (free[0] + taken[0], free[1] + taken[1], free[2] + taken[2])
            if _within(need, free):
                reservation.shadow, reservation.spare = allocation.ends, free
                return True
        return False


def decide(
    machine: MachineResources,
    running: Sequence[Allocation],
    waiting: Iterable[PendingJob],
    now: float,
    *,
    all_reasons: bool = False,
) -> Decision:
    """Decide what to start; `waiting` is in the order of rank, and holds no job that waits for another.

    With `all_reasons`, every job is tried, also where nothing is free any more.
    """
    planner = _Planner(machine, running, now)
    decision = Decision()
    for pending_job in waiting:
        if not all_reasons and (planner.cores <= 0 or len(decision.blocks) >= MOST_BLOCKED):
            break
        started = 0
        block = None
        while started < pending_job.count and (block := planner.obstacle(pending_job)) is None:
            planner.start(pending_job)
            started += 1
        if started:
            decision.starts.append((pending_job.job, started))
        if block is not None:
            decision.blocks[pending_job.job] = block
            planner.reserve(pending_job, block.obstacle)
    return decision
