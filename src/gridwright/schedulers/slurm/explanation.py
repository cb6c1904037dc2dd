"""Explains why a job waits: compares what it needs with its queue and with every node."""

from __future__ import annotations

from collections.abc import Sequence

from gridwright.schedulers.dependency import Dependency, DependencyType
from gridwright.schedulers.job import Job, JobExplanation, JobRequest, JobState, PlacementCheck, Requirement
from gridwright.schedulers.placement import node_check, queue_check
from gridwright.schedulers.slurm.cluster import Cluster, Partition, SlurmNode
from gridwright.schedulers.slurm.translations import ReasonMeaning


def explain_job(
    job: Job,
    request: JobRequest,
    cluster: Cluster,
    *,
    reason: ReasonMeaning | None,
    memory_bytes: int | None,
    partition: Partition | None,
    dependencies: Sequence[tuple[Dependency, JobState | None]],
) -> JobExplanation:
    """An explanation.

    `reason` is Slurm's for a job that waits; `memory_bytes` is what was asked of Slurm; `dependencies` are
    the jobs it waits for, with the state of each: None while not all elements have ended.
    """
    if job.state.final:
        return JobExplanation(job=job, summary=f"It has ended: {job.state}{_because(job.reason)}.")
    if job.state is JobState.RUNNING:
        return JobExplanation(job=job, summary=f"It runs on {job.node or 'a node'}{_because(job.reason)}.")
    candidates = [_queue(request, partition, dependencies)]
    nodes = cluster.nodes_of(partition)
    if request.node is not None:
        nodes = [each for each in nodes if each.state.name == request.node]
    candidates += [_node(request, memory_bytes, each) for each in nodes]
    return JobExplanation(job=job, summary=_summary(reason, cluster, job), candidates=candidates)


def _because(text: str | None) -> str:
    return f" ({text})" if text else ""


def _summary(reason: ReasonMeaning | None, cluster: Cluster, job: Job) -> str:
    if reason is None:
        return "Slurm does not have it yet."
    sentence = f"It waits: {reason.sentence} (Slurm: {reason.word})."
    if reason.word == "BeginTime" and job.restarts:
        # It waits until the credential of the lost run cannot be used any more (slurm.conf(5), AuthInfo).
        wait = 1 + _cred_expire_s(cluster)
        sentence = (
            f"It waits: its node failed, and Slurm starts it again {wait} s after that at the earliest"
            f" (cred_expire in AuthInfo of slurm.conf, and 1 s)."
        )
    if reason.remedy:
        sentence += f" What to do: {reason.remedy}."
    return sentence


def _cred_expire_s(cluster: Cluster) -> int:
    for part in cluster.config.get("AuthInfo", "").split(","):
        key, _, value = part.partition("=")
        if key.strip() == "cred_expire" and value.isdigit():
            return int(value)
    return 120


def _queue(
    request: JobRequest,
    partition: Partition | None,
    dependencies: Sequence[tuple[Dependency, JobState | None]],
) -> PlacementCheck:
    return queue_check(
        request,
        partition.name if partition is not None else None,
        is_up=partition is not None and partition.up,
        longest_s=partition.longest_s if partition is not None else None,
        dependencies=[
            Requirement(
                name=f"after {dependency}",
                required=dependency.type.required,
                provided="not ended" if state is None else str(state),
                fits=_as_required(dependency, state),
            )
            for dependency, state in dependencies
        ],
    )


def _as_required(dependency: Dependency, state: JobState | None) -> bool:
    if state is None:
        return False
    if dependency.type is DependencyType.NOT_OK:
        return state is not JobState.COMPLETED
    return dependency.type is DependencyType.ANY or state is JobState.COMPLETED


def _standing(node: SlurmNode) -> str:
    state = node.state
    if state.asleep:
        return f"{state.state} (powered on for a job that waits for it)"
    return state.state + (f" ({state.reason})" if state.reason else "")


def _node(request: JobRequest, memory_bytes: int | None, node: SlurmNode) -> PlacementCheck:
    state = node.state
    takes = Requirement(name="state", required="up", provided=_standing(node), fits=state.up or state.asleep)
    # 0 stands for all memory of a node (sbatch(1), --mem).
    needed = None if memory_bytes is None else memory_bytes or state.memory_bytes
    return node_check(request, needed, state, takes)
