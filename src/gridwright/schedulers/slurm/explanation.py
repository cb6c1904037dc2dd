"""Explains why a job waits: compares what it needs with its queue and with every node."""

from __future__ import annotations

from collections.abc import Sequence

from gridwright.schedulers.dependency import Dependency, DependencyType
from gridwright.schedulers.job import Job, JobExplanation, JobRequest, JobState, PlacementCheck, Requirement
from gridwright.schedulers.slurm.cluster import Cluster, Partition, SlurmNode
from gridwright.schedulers.slurm.translations import ReasonMeaning
from gridwright.units import format_bytes


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
    requirements = []
    if partition is not None:
        up = "up" if partition.up else "down"
        requirements.append(Requirement(name="queue", required="up", provided=up, fits=partition.up))
        if partition.longest_s is not None or request.time_limit_s is not None:
            longest, asked = partition.longest_s, request.time_limit_s
            requirements.append(
                Requirement(
                    name="time",
                    required="no limit" if asked is None else f"{asked:.0f} s",
                    provided="no limit" if longest is None else f"{longest:.0f} s",
                    # A job without a limit of its own gets that of its queue.
                    fits=longest is None or asked is None or asked <= longest,
                )
            )
    for dependency, state in dependencies:
        requirements.append(
            Requirement(
                name=f"after {dependency}",
                required=dependency.type.required,
                provided="not ended" if state is None else str(state),
                fits=_as_required(dependency, state),
            )
        )
    place = f"queue {partition.name}" if partition is not None else "queue"
    return PlacementCheck(place=place, requirements=requirements)


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
    requirements = [
        Requirement(
            name="state",
            required="up",
            provided=_standing(node),
            fits=state.up or state.asleep,
        ),
        Requirement(
            name="cores",
            required=str(request.cores),
            provided=f"{state.free_cores} free of {state.cores}",
            fits=request.cores <= state.free_cores,
        ),
    ]
    if memory_bytes is not None:
        needed = memory_bytes or state.memory_bytes
        free = format_bytes(state.free_memory_bytes)
        requirements.append(
            Requirement(
                name="memory",
                required=format_bytes(needed),
                provided=f"{free} free of {format_bytes(state.memory_bytes)}",
                fits=needed <= state.free_memory_bytes,
            )
        )
    if request.exclusive:
        alone = state.free_cores == state.cores
        provided = "free" if alone else "in use"
        requirements.append(Requirement(name="alone", required="free", provided=provided, fits=alone))
    return PlacementCheck(place=state.name, requirements=requirements)
