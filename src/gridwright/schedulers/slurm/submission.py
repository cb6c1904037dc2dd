"""Translates a request into a call of sbatch, and checks it before Slurm is asked."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gridwright.errors import Problem, nearest
from gridwright.schedulers.index_ranges import fold_indices
from gridwright.schedulers.job import JobRequest
from gridwright.schedulers.job_tag import JobTag
from gridwright.schedulers.output_paths import path_problems
from gridwright.schedulers.slurm.cluster import MIB, Cluster, Partition, SlurmNode
from gridwright.schedulers.slurm.job_name import slurm_name
from gridwright.schedulers.slurm.job_option_words import file_words, option_words, output_file, word_problems
from gridwright.schedulers.slurm.option_checks import option_check_problems
from gridwright.schedulers.start_limits import index_range, what_is_too_long
from gridwright.spec.hosts import fold_hosts
from gridwright.units import format_bytes

_ROOM_IN_LINE = 4096
"""Bytes that the options of sbatch and the arguments of the job's script may take beside the command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SbatchCall:
    """One call of sbatch."""

    request: JobRequest
    tag: JobTag
    elements: Sequence[int] | None
    """Indices of the array that are still to run; None where it is no array."""
    after: Sequence[str] = ()
    """What it waits for, in Slurm's words: afterok:17."""
    doomed: bool = False
    """Whether a job that it should wait for has failed already: it is submitted held, and cancelled."""
    doomed_elements: Sequence[int] = ()
    """Elements that are cancelled for that reason."""

    def doomed_jobs(self, number: int) -> list[str]:
        """What is to be cancelled as soon as Slurm has given it a number."""
        return [f"{number}"] if self.doomed else [f"{number}_{each}" for each in self.doomed_elements]


def job_label(request: JobRequest) -> str:
    """The name of a job: its own, or the last part of its program's path."""
    return request.name or request.command[0].rstrip("/").rpartition("/")[2] or "job"


def log_file(
    logs: Path, request: JobRequest, tag: JobTag, element: int | None, number: int | None = None
) -> Path:
    """Where a job prints to; `number` is Slurm's, which a file of its own may be named after."""
    if number is not None and (own := output_file(request, job_label(request), number, element)):
        return Path(own)
    name = slurm_name(job_label(request), tag)
    return logs / (f"{name}.log" if element is None else f"{name}_{element}.log")


def sbatch_arguments(
    call: SbatchCall,
    *,
    cluster: Cluster,
    partition: str | None,
    account: str | None,
    logs: Path,
    options: Sequence[str],
) -> list[str]:
    """The options of sbatch for a request. Those of the spec come first: of two, sbatch takes the latter."""
    request = call.request
    name = slurm_name(job_label(request), call.tag)
    array = call.elements is not None
    log = f"{logs}/{name}{'_' if array else ''}".replace("%", "%%")
    memory = memory_mib(request, cluster, cluster.partition(partition))
    command = [
        "sbatch",
        *options,
        "--parsable",
        f"--job-name={name}",
        *file_words(request, job_label(request), f"{log}{'%a' if array else ''}.log"),
        "--open-mode=append",
        f"--chdir={request.directory if re.fullmatch(r'[!-~]+', request.directory) else '/'}",
        "--nodes=1",
        "--ntasks=1",
        f"--cpus-per-task={request.cores}",
        "--requeue" if request.restart else "--no-requeue",
        "--export-file=/dev/stdin",
    ]
    if cluster.has_threads:
        command.append("--threads-per-core=1")
    if memory is not None:
        command.append(f"--mem={memory}M")
    if request.time_limit_s is not None:
        command.append(f"--time={slurm_time(request.time_limit_s)}")
    if array:
        command.append(f"--array={fold_indices(call.elements or ())}")
    if call.after:
        command += [f"--dependency={','.join(call.after)}", "--kill-on-invalid-dep=yes"]
    if call.doomed:
        command.append("--hold")
    command += option_words(request.options)
    account = request.options.account or account
    for option, value in (("account", account), ("partition", partition), ("nodelist", request.node)):
        if value is not None:
            command.append(f"--{option}={value}")
    if request.exclusive:
        command.append("--exclusive")
    return command


def memory_mib(request: JobRequest, cluster: Cluster, partition: Partition | None) -> int | None:
    """MiB to ask for. A request without memory gets the share of a node that its cores are of the node's.

    0 is all of a node's. None leaves it to Slurm: it has a default, or does not give out memory.
    """
    if request.memory_bytes is not None:
        return max(1, math.ceil(request.memory_bytes / MIB))
    has_default = "DefMemPerCPU" in cluster.config or cluster.config.get("DefMemPerNode", "").isdigit()
    if not cluster.shares_memory or has_default or (partition is not None and partition.has_default_memory):
        return None
    if request.exclusive:
        return 0
    nodes = [each for each in cluster.nodes_of(partition) if request.node in (None, each.state.name)]
    fitting = [each for each in nodes if each.state.cores >= request.cores] or nodes
    if not fitting:
        return None
    return max(1, min(each.memory_per_core for each in fitting) * request.cores // MIB)


def slurm_time(seconds: float) -> str:
    """A time limit as Slurm takes it; it counts in minutes, and rounds up."""
    whole = max(1, math.ceil(seconds))
    days, rest = divmod(whole, 86_400)
    return f"{days}-{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"


def request_problems(request: JobRequest, cluster: Cluster, default_partition: str | None) -> list[Problem]:
    """What no node and no queue of this Slurm can give. Empty where it may be submitted."""
    found = _own_problems(request, cluster)
    label = job_label(request) if request.command else "job"
    name = request.queue or default_partition
    partition = cluster.partition(name)
    if name is not None and partition is None:
        near = nearest(name, cluster.partitions)
        found.append(
            Problem(
                what=f"{label}: Slurm has no queue {name}",
                remedy=f"did you mean {near}?" if near else f"queues: {', '.join(cluster.partitions)}",
            )
        )
        return found
    nodes = cluster.nodes_of(partition)
    names = [each.state.name for each in nodes]
    if request.node is not None and request.node not in names:
        near, place = nearest(request.node, names), f"queue {partition.name}" if partition else "this grid"
        found.append(
            Problem(
                what=f"{label}: {place} has no node {request.node}",
                remedy=f"did you mean {near}?" if near else f"its nodes: {fold_hosts(names)}",
            )
        )
        return found
    nodes = [each for each in nodes if request.node in (None, each.state.name)]
    return found + (_size_problems(request, label, partition, nodes) if nodes else [])


def _own_problems(request: JobRequest, cluster: Cluster) -> list[Problem]:
    if not request.command:
        return [Problem(what="a job needs a command", remedy="write it after --")]
    label, found = job_label(request), []
    if request.null:
        found.append(
            Problem(
                what=f"{label}: Slurm has no null jobs", remedy="use a spec with scheduler: {type: local}"
            )
        )
    if request.cores < 1:
        found.append(Problem(what=f"{label}: {request.cores} cores", remedy="ask for 1 core or more"))
    if (too_long := what_is_too_long(request) or _longer_than_slurm_takes(request, cluster)) is not None:
        found.append(Problem(what=f"{label}: {too_long}", remedy="put long text into a file"))
    found += _array_problems(request, label, cluster)
    found += path_problems(request)
    found += word_problems(request, label)
    found += option_check_problems(request, label, cluster)
    return found


def _array_problems(request: JobRequest, label: str, cluster: Cluster) -> list[Problem]:
    if request.array is None:
        return []
    if not request.array:
        return [Problem(what=f"{label}: its array has no index", remedy="write one, such as 1-100")]
    highest = cluster.largest_array_index()
    low, high = index_range(request.array)
    if low < 0 or high > highest:
        return [
            Problem(
                what=f"{label}: its array goes from {low} to {high},"
                f" and this Slurm allows 0 to {highest}: its MaxArraySize is {highest + 1}",
                where="array",
                remedy="split it, or raise MaxArraySize in slurm.conf",
            )
        ]
    return []


def _longer_than_slurm_takes(request: JobRequest, cluster: Cluster) -> str | None:
    most = cluster.longest_submit_line()
    length = sum(len(os.fsencode(each)) + 1 for each in request.command)
    if length + _ROOM_IN_LINE < most:
        return None
    return (
        f"its arguments have {length} bytes, and slurmctld takes a command line of {most} bytes "
        "(max_submit_line_size in SchedulerParameters of slurm.conf)"
    )


def _size_problems(
    request: JobRequest, label: str, partition: Partition | None, nodes: Sequence[SlurmNode]
) -> list[Problem]:
    found = []
    place = request.node or (f"queue {partition.name}" if partition else "this grid")
    cores = max(each.state.cores for each in nodes)
    if partition is not None and partition.cores_per_node is not None:
        cores = min(cores, partition.cores_per_node)
    if request.cores > cores:
        found.append(
            Problem(
                what=f"{label}: {request.cores} cores, and no node of {place} has more than {cores}",
                remedy=f"ask for {cores} cores or fewer",
            )
        )
    memory = max(each.state.memory_bytes for each in nodes)
    if request.memory_bytes is not None and request.memory_bytes > memory:
        found.append(
            Problem(
                what=f"{label}: {format_bytes(request.memory_bytes)} of memory,"
                f" and no node of {place} has more than {format_bytes(memory)}",
                remedy=f"ask for {format_bytes(memory)} or less",
            )
        )
    longest = partition.longest_s if partition is not None else None
    if longest is not None and request.time_limit_s is not None and request.time_limit_s > longest:
        found.append(
            Problem(
                what=f"{label}: {request.time_limit_s:.0f} s, and {place} lets jobs run for {longest:.0f} s",
                remedy=f"ask for {longest:.0f} s or less, or name another queue",
            )
        )
    return found


def parse_answer(stdout: bytes) -> int:
    """Slurm's number out of what sbatch --parsable prints: NUMBER or NUMBER;CLUSTER. Raises ValueError."""
    return int(stdout.decode().strip().splitlines()[-1].partition(";")[0])
