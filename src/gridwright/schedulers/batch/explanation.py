"""Explains why a job waits: compares what it needs with its queue and with every node."""

from __future__ import annotations

from collections.abc import Sequence

from gridwright.schedulers.batch.record import BatchSubmission
from gridwright.schedulers.batch.system import BatchFacts, BatchQueue
from gridwright.schedulers.job import (
    Job,
    JobExplanation,
    JobRequest,
    JobState,
    NodeState,
    PlacementCheck,
    Requirement,
)
from gridwright.units import format_bytes


def explain_job(
    job: Job,
    submission: BatchSubmission,
    facts: BatchFacts,
    *,
    system: str,
    says: str | None,
    dependencies: Sequence[tuple[str, JobState | None, bool]],
) -> JobExplanation:
    """An explanation; `says` is what the batch system itself says of a job that waits.

    `dependencies` are the jobs it waits for: name, state, None while not all elements have ended, and whether
    that is what it waits for.
    """
    because = f" ({job.reason})" if job.reason else ""
    if job.state.final:
        return JobExplanation(job=job, summary=f"It has ended: {job.state}{because}.")
    if job.state is JobState.RUNNING:
        return JobExplanation(job=job, summary=f"It runs on {job.node or 'a node'}{because}.")
    request = submission.request
    name = request.queue or facts.default_queue
    candidates = [_queue(request, facts.queues.get(name) if name else None, dependencies)]
    nodes = [each for each in facts.nodes_of(name) if request.node in (None, each.name)]
    candidates += [_node(request, submission.memory, each) for each in nodes]
    return JobExplanation(
        job=job, summary=_summary(job, system, says, dependencies, candidates), candidates=candidates
    )


def _summary(
    job: Job,
    system: str,
    says: str | None,
    dependencies: Sequence[tuple[str, JobState | None, bool]],
    candidates: Sequence[PlacementCheck],
) -> str:
    waited_for = [name for name, _, met in dependencies if not met]
    if waited_for:
        return f"It waits: jobs that it waits for have not ended as they should: {', '.join(waited_for)}."
    if job.reason:
        return f"It waits: {job.reason}." + (f" {system} says: {says}." if says else "")
    if says:
        return f"It waits. {system} says: {says}."
    if not any(each.fits for each in candidates[1:]):
        return "It waits: no node has now what it needs."
    return f"It waits for {system} to start it: a node has what it needs."


def _queue(
    request: JobRequest, queue: BatchQueue | None, dependencies: Sequence[tuple[str, JobState | None, bool]]
) -> PlacementCheck:
    requirements = []
    if queue is not None:
        up = "up" if queue.up else "down"
        requirements.append(Requirement(name="queue", required="up", provided=up, fits=queue.up))
        if queue.longest_s is not None or request.time_limit_s is not None:
            longest, asked = queue.longest_s, request.time_limit_s
            requirements.append(
                Requirement(
                    name="time",
                    required="no limit" if asked is None else f"{asked:.0f} s",
                    provided="no limit" if longest is None else f"{longest:.0f} s",
                    fits=longest is None or asked is None or asked <= longest,
                )
            )
    requirements += [
        Requirement(
            name=f"after {identifier}",
            required="ended" if ":" in identifier else str(JobState.COMPLETED),
            provided="not ended" if state is None else str(state),
            fits=met,
        )
        for identifier, state, met in dependencies
    ]
    return PlacementCheck(place=f"queue {queue.name}" if queue else "queue", requirements=requirements)


def _node(request: JobRequest, memory_bytes: int | None, node: NodeState) -> PlacementCheck:
    requirements = [
        Requirement(name="state", required="up", provided=node.standing, fits=node.up),
        Requirement(
            name="cores",
            required=str(request.cores),
            provided=f"{node.free_cores} free of {node.cores}",
            fits=request.cores <= node.free_cores,
        ),
    ]
    if memory_bytes is not None and node.memory_bytes:
        requirements.append(
            Requirement(
                name="memory",
                required=format_bytes(memory_bytes),
                provided=f"{format_bytes(node.free_memory_bytes)} free of {format_bytes(node.memory_bytes)}",
                fits=memory_bytes <= node.free_memory_bytes,
            )
        )
    if request.exclusive:
        alone = node.free_cores == node.cores
        provided = "free" if alone else "in use"
        requirements.append(Requirement(name="alone", required="free", provided=provided, fits=alone))
    return PlacementCheck(place=node.name, requirements=requirements)
