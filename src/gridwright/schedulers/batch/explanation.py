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
from gridwright.schedulers.placement import node_check, queue_check


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
    return queue_check(
        request,
        queue.name if queue is not None else None,
        is_up=queue is not None and queue.up,
        longest_s=queue.longest_s if queue is not None else None,
        dependencies=[
            Requirement(
                name=f"after {identifier}",
                required="ended" if ":" in identifier else str(JobState.COMPLETED),
                provided="not ended" if state is None else str(state),
                fits=met,
            )
            for identifier, state, met in dependencies
        ],
    )


def _node(request: JobRequest, memory_bytes: int | None, node: NodeState) -> PlacementCheck:
    takes = Requirement(name="state", required="up", provided=node.standing, fits=node.up)
    # Not every batch system tells the memory of its nodes.
    return node_check(request, memory_bytes if node.memory_bytes else None, node, takes)
