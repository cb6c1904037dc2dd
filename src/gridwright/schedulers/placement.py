"""Holds what a job needs against its queue and a node, for the explanation why it waits."""

from __future__ import annotations

from collections.abc import Iterable

from gridwright.schedulers.job import JobRequest, NodeState, PlacementCheck, Requirement
from gridwright.units import format_bytes


def queue_check(
    request: JobRequest,
    name: str | None,
    *,
    is_up: bool,
    longest_s: float | None,
    dependencies: Iterable[Requirement],
) -> PlacementCheck:
    """The queue before all nodes, and the jobs that this one waits for; `name` None: no queue is known."""
    requirements = []
    if name is not None:
        up = "up" if is_up else "down"
        requirements.append(Requirement(name="queue", required="up", provided=up, fits=is_up))
        asked = request.time_limit_s
        if longest_s is not None or asked is not None:
            requirements.append(
                Requirement(
                    name="time",
                    required="no limit" if asked is None else f"{asked:.0f} s",
                    provided="no limit" if longest_s is None else f"{longest_s:.0f} s",
                    # A job without a limit of its own gets that of its queue.
                    fits=longest_s is None or asked is None or asked <= longest_s,
                )
            )
    requirements += dependencies
    return PlacementCheck(place="queue" if name is None else f"queue {name}", requirements=requirements)


def node_check(
    request: JobRequest, memory_bytes: int | None, node: NodeState, state: Requirement
) -> PlacementCheck:
    """A node; `state` says whether it takes jobs, `memory_bytes` is what was asked for, None for nothing."""
    requirements = [
        state,
        Requirement(
            name="cores",
            required=str(request.cores),
            provided=f"{node.free_cores} free of {node.cores}",
            fits=request.cores <= node.free_cores,
        ),
    ]
    if memory_bytes is not None:
        free, there = format_bytes(node.free_memory_bytes), format_bytes(node.memory_bytes)
        requirements.append(
            Requirement(
                name="memory",
                required=format_bytes(memory_bytes),
                provided=f"{free} free of {there}",
                fits=memory_bytes <= node.free_memory_bytes,
            )
        )
    if request.exclusive:
        alone = node.free_cores == node.cores
        provided = "free" if alone else "in use"
        requirements.append(Requirement(name="alone", required="free", provided=provided, fits=alone))
    return PlacementCheck(place=node.name, requirements=requirements)
