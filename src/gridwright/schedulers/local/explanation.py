"""Why jobs of the local scheduler wait: from the same decision that the runner makes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gridwright.schedulers.job import Candidate, Explanation, Job, JobState, Requirement
from gridwright.schedulers.local.names import ALONE, Key
from gridwright.schedulers.local.policy import Block, Claim, Decision, Obstacle, decide
from gridwright.schedulers.local.queries import Affairs, affairs, progress, read_jobs
from gridwright.schedulers.local.site import Site
from gridwright.schedulers.local.store import Store
from gridwright.units import format_bytes

_NEXT = "starts next"


def reasons(now: Affairs) -> dict[int, str]:
    """Why each waiting job waits, in words, by its number."""
    decision = _decide(now)
    claims = {claim.job: claim for claim in now.claims}
    found = {job: _block(block, claims[job], now) for job, block in decision.blocks.items()}
    found |= {job: _NEXT for job, _ in decision.starts if job not in found}
    found |= {job: f"waits for job {_names(keys)}" for job, keys in now.waits_for.items()}
    return found


def _decide(now: Affairs) -> Decision:
    return decide(now.capacity, now.running, now.claims, 0.0, all_reasons=True)


def _names(keys: Sequence[Key]) -> str:
    return ", ".join(map(str, keys))


def _block(block: Block, claim: Claim, now: Affairs) -> str:
    demand = claim.demand
    free_cores = now.capacity.cores - sum(held.demand.cores for held in now.running)
    free_memory = now.capacity.memory_bytes - sum(held.demand.memory_bytes for held in now.running)
    if block.obstacle is Obstacle.CORES:
        return f"waits for {_cores(demand.cores)}: {max(0, free_cores)} of {now.capacity.cores} are free"
    if block.obstacle is Obstacle.MEMORY:
        needed, free = format_bytes(demand.memory_bytes), format_bytes(max(0, free_memory))
        return f"waits for {needed} of memory: {free} are free"
    if block.obstacle is Obstacle.QUEUE:
        limit = now.capacity.queue_cores[demand.queue]
        return f"waits for {_cores(demand.queue_cores)} of the {limit} that queue {demand.queue} may use"
    if block.obstacle is Obstacle.RESERVED:
        return f"would delay job {block.behind}, which is ahead of it"
    return "needs more than this machine gives to jobs"


def _cores(number: int) -> str:
    return f"{number} core{'s'[: number != 1]}"


def explain(store: Store, site: Site, key: Key, when: float) -> Explanation:
    """Hold what a job needs against what there is at `when` (seconds since 1970)."""
    jobs = read_jobs(store, [key])
    job = next((each for each in jobs if each.state is JobState.WAITING), jobs[0])
    if job.state is not JobState.WAITING:
        return Explanation(job=job, summary=_not_waiting(job, jobs))
    now = affairs(store, site, when)
    candidates = [
        Candidate(place=f"queue {job.queue}", requirements=list(_before(store, site, job, key, now))),
        Candidate(place="this machine", requirements=list(_machine(site, job, key.job, now))),
    ]
    why = reasons(now).get(key.job, _NEXT)
    return Explanation(job=job, summary=f"Job {job.id} {_sentence(why)}.", candidates=candidates)


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


def _before(store: Store, site: Site, job: Job, key: Key, now: Affairs) -> Iterator[Requirement]:
    for row in store.all("SELECT on_job, on_idx FROM dependencies WHERE job=?", (key.job,)):
        on = Key(*row)
        left, failed = progress(store, on)
        there = (
            "completed"
            if not left
            else failed or ("waits or runs" if on.element != ALONE else f"{left} not yet")
        )
        yield Requirement(
            name="dependency",
            required=f"job {on} completed",
            provided=there,
            fits=not left and failed is None,
        )
    limits = site.queues.get(str(job.queue))
    used = sum(held.demand.queue_cores for held in now.running if held.demand.queue == job.queue)
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


def _machine(site: Site, job: Job, number: int, now: Affairs) -> Iterator[Requirement]:
    claim = next((claim for claim in now.claims if claim.job == number), None)
    cores = claim.demand.cores if claim else job.cores
    memory = claim.demand.memory_bytes if claim else job.memory_bytes or 0
    free_cores = max(0, site.cores - sum(held.demand.cores for held in now.running))
    free_memory = max(0, site.memory_bytes - sum(held.demand.memory_bytes for held in now.running))
    yield Requirement(
        name="cores",
        required=str(cores),
        provided=f"{free_cores} of {site.cores} free",
        fits=cores <= free_cores,
    )
    yield Requirement(
        name="memory",
        required=format_bytes(memory),
        provided=f"{format_bytes(free_memory)} of {format_bytes(site.memory_bytes)} free",
        fits=memory <= free_memory,
    )
    if claim is None:
        return
    block = _decide(now).blocks.get(number)
    ahead = [each.job for each in now.claims if each.rank < claim.rank]
    shown = ", ".join(map(str, ahead[:5])) + (f" and {len(ahead) - 5} more" if len(ahead) > 5 else "")
    reserved = block is not None and block.obstacle is Obstacle.RESERVED
    yield Requirement(
        name="priority",
        required="no job ahead that it would delay",
        provided=f"would delay job {block.behind}" if block and reserved else f"ahead: {shown or 'none'}",
        fits=not reserved,
    )
