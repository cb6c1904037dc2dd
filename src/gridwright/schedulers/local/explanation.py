"""Explains why jobs of the local scheduler wait, from the same decision that the runner makes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from gridwright.schedulers.job import Job, JobExplanation, JobState, PlacementCheck, Requirement
from gridwright.schedulers.local.identifiers import JobKey
from gridwright.schedulers.local.machine_resources import MachineResources
from gridwright.schedulers.local.policy import Block, Decision, Obstacle, PendingJob, decide
from gridwright.schedulers.local.queries import (
    QueueSnapshot,
    UnmetDependency,
    dependencies_of,
    dependency_progress,
    queue_snapshot,
    read_jobs,
)
from gridwright.schedulers.local.store import Store
from gridwright.units import format_bytes

_NEXT = "starts next"


def reasons(now: QueueSnapshot) -> dict[int, str]:
    """Why each waiting job waits, in words, by its number."""
    decision = _decide(now)
    pending = {pending_job.job: pending_job for pending_job in now.pending}
    found = {job: _block(block, pending[job], now) for job, block in decision.blocks.items()}
    found |= {job: _NEXT for job, _ in decision.starts if job not in found}
    found |= {job: f"waits until {_moment(begin)}" for job, begin in now.begins.items()}
    found |= {job: f"waits for job {_names(unmet)}" for job, unmet in now.waits_for.items()}
    return found


def _decide(now: QueueSnapshot) -> Decision:
    return decide(now.machine, now.running, now.pending, 0.0, all_reasons=True)


def _names(unmet: Sequence[UnmetDependency]) -> str:
    return ", ".join(map(str, unmet))


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def _block(block: Block, pending_job: PendingJob, now: QueueSnapshot) -> str:
    demand = pending_job.demand
    free_cores = now.machine.cores - sum(allocation.demand.cores for allocation in now.running)
    free_memory = now.machine.memory_bytes - sum(allocation.demand.memory_bytes for allocation in now.running)
    if block.obstacle is Obstacle.CORES:
        return f"waits for {_cores(demand.cores)}: {max(0, free_cores)} of {now.machine.cores} are free"
    if block.obstacle is Obstacle.MEMORY:
        needed, free = format_bytes(demand.memory_bytes), format_bytes(max(0, free_memory))
        return f"waits for {needed} of memory: {free} are free"
    if block.obstacle is Obstacle.QUEUE:
        limit = now.machine.queues[demand.queue].cores
        return f"waits for {_cores(demand.queue_cores)} of the {limit} that queue {demand.queue} may use"
    if block.obstacle is Obstacle.RESERVED:
        return f"would delay job {block.behind}, which is ahead of it"
    return "needs more than this machine gives to jobs"


def _cores(number: int) -> str:
    return f"{number} core{'s'[: number != 1]}"


def explain(store: Store, machine: MachineResources, key: JobKey, when: float) -> JobExplanation:
    """Hold what a job needs against what there is at `when` (seconds since 1970)."""
    jobs = read_jobs(store, [key])
    job = next((each for each in jobs if each.state is JobState.WAITING), jobs[0])
    if job.state is not JobState.WAITING:
        return JobExplanation(job=job, summary=_not_waiting(job, jobs))
    now = queue_snapshot(store, machine, when)
    candidates = [
        PlacementCheck(place=f"queue {job.queue}", requirements=list(_before(store, machine, job, key, now))),
        PlacementCheck(place="this machine", requirements=list(_machine(machine, job, key.job, now))),
    ]
    why = reasons(now).get(key.job, _NEXT)
    return JobExplanation(job=job, summary=f"Job {job.id} {_sentence(why)}.", candidates=candidates)


def _sentence(why: str) -> str:
    return why if why.startswith(("waits", "starts", "would", "needs")) else f"waits: {why}"


def _not_waiting(job: Job, jobs: Sequence[Job]) -> str:
    if len(jobs) > 1:
        states = [each.state for each in jobs]
        parts = [f"{states.count(state)} {state}" for state in dict.fromkeys(states)]
        return f"No element of array {job.id.partition('_')[0]} waits: {', '.join(parts)}."
    if job.state is JobState.RUNNING:
        return f"Job {job.id} runs."
    return f"Job {job.id} has ended: {job.state}{f', {job.reason}' if job.reason else ''}."


def _before(
    store: Store, machine: MachineResources, job: Job, key: JobKey, now: QueueSnapshot
) -> Iterator[Requirement]:
    for dependency in dependencies_of(store, key.job):
        progress = dependency_progress(store, dependency)
        yield Requirement(
            name="dependency",
            required=f"job {dependency.key} {dependency.type.required}",
            provided=progress.provided,
            fits=progress.met,
        )
    if (begin := now.begins.get(key.job)) is not None:
        yield Requirement(name="begin", required=_moment(begin), provided="not yet", fits=False)
    limits = machine.queues.get(str(job.queue))
    used = sum(
        allocation.demand.queue_cores for allocation in now.running if allocation.demand.queue == job.queue
    )
    if limits is not None and limits.cores is not None:
        free = limits.cores - used
        yield Requirement(
            name="cores of the queue",
            required=str(job.cores),
            provided=f"{max(0, free)} of {limits.cores} free",
            fits=job.cores <= free,
        )
    if limits is not None and limits.time_s is not None:
        (asked,) = store.one("SELECT time_limit FROM jobs WHERE id=?", (key.job,))
        yield Requirement(
            name="time", required=f"{asked:g} s", provided=f"{limits.time_s:g} s", fits=asked <= limits.time_s
        )


def _machine(machine: MachineResources, job: Job, number: int, now: QueueSnapshot) -> Iterator[Requirement]:
    pending_job = next((pending_job for pending_job in now.pending if pending_job.job == number), None)
    cores = pending_job.demand.cores if pending_job else job.cores
    memory = pending_job.demand.memory_bytes if pending_job else job.memory_bytes or 0
    free_cores = max(0, machine.cores - sum(allocation.demand.cores for allocation in now.running))
    free_memory = max(
        0, machine.memory_bytes - sum(allocation.demand.memory_bytes for allocation in now.running)
    )
    yield Requirement(
        name="cores",
        required=str(cores),
        provided=f"{free_cores} of {machine.cores} free",
        fits=cores <= free_cores,
    )
    yield Requirement(
        name="memory",
        required=format_bytes(memory),
        provided=f"{format_bytes(free_memory)} of {format_bytes(machine.memory_bytes)} free",
        fits=memory <= free_memory,
    )
    if pending_job is None:
        return
    block = _decide(now).blocks.get(number)
    ahead = [each.job for each in now.pending if each.rank < pending_job.rank]
    shown = ", ".join(map(str, ahead[:5])) + (f" and {len(ahead) - 5} more" if len(ahead) > 5 else "")
    reserved = block is not None and block.obstacle is Obstacle.RESERVED
    yield Requirement(
        name="priority",
        required="no job ahead that it would delay",
        provided=f"would delay job {block.behind}" if block and reserved else f"ahead: {shown or 'none'}",
        fits=not reserved,
    )
