"""Translates a request into a call of sbatch, and checks it before Slurm is asked.

Holds the options of a job against what this Slurm has, so that all that is wrong is told at once.

Translates the options of a job into those of sbatch.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gridwright.errors import Problem, nearest
from gridwright.node_programs.batch_job.job_file import WHOLE
from gridwright.schedulers.index_ranges import fold_indices
from gridwright.schedulers.job import JobRequest
from gridwright.schedulers.job_options import JobOptions
from gridwright.schedulers.job_tag import JobTag
from gridwright.schedulers.output_paths import filled, path_problems
from gridwright.schedulers.slurm.cluster import MIB, Cluster, Partition, SlurmNode
from gridwright.schedulers.start_limits import index_range, what_is_too_long
from gridwright.spec.hosts import fold_hosts
from gridwright.units import format_bytes

_LONGEST_NAME = 64
_LONGEST_PATH = 1024
"""slurmctld refuses longer ones (MAXPATHLEN less room, `_valid_pn_path` and the like in job_mgr.c)."""


def slurm_name(name: str, tag: JobTag) -> str:
    """The job's name as Slurm gets it: what users would see, without what a column or a comma could break.

    It ends with our tag, by which the job is found wherever Slurm lists it: the name is the one text of a job
    that squeue, scontrol, sacct and the file of jobcomp/filetxt all show, in every release; a comment is not
    in that file.
    """
    return f"{re.sub(r'[^A-Za-z0-9._+-]', '_', name)[:_LONGEST_NAME]}~{tag}"


def option_words(options: JobOptions) -> Iterator[str]:
    """The options of sbatch for what a job asks beyond size, time, queue and files."""
    lists = {"licenses": options.licences, "gres": options.gres}
    single = {
        "qos": options.qos,
        "reservation": options.reservation,
        "constraint": options.constraint,
        **{name: ",".join(values) or None for name, values in lists.items()},
    }
    yield from (f"--{name}={value}" for name, value in single.items() if value is not None)
    if options.begin is not None and (wait_s := math.ceil(options.begin - time.time())) > 0:
        # As a distance: the head node may have another time zone.
        yield f"--begin=now+{wait_s}seconds"
    if options.nice:
        yield f"--nice={options.nice}"
    if options.mail is not None:
        yield f"--mail-user={options.mail}"
        yield f"--mail-type={','.join(each.upper() for each in options.mail_on)}"


def file_words(request: JobRequest, label: str, log: str) -> Iterator[str]:
    """The options of sbatch for standard input and output; `log` is Slurm's pattern of the job's log."""
    options, array = request.options, request.array is not None
    # Slurm's own places: filename pattern of sbatch(1).
    values = {"job": "%A_%a" if array else "%j", "index": "%a", "name": label.replace("%", "%%")}

    def pattern(path: str) -> str:
        return filled(path.replace("%", "%%"), values)

    yield f"--input={pattern(options.stdin) if options.stdin else '/dev/null'}"
    yield f"--output={pattern(options.stdout) if options.stdout else log}"
    if options.stderr is not None:
        yield f"--error={pattern(options.stderr)}"


def word_problems(request: JobRequest, label: str) -> Iterator[Problem]:
    """What of the options Slurm would take for something else."""
    options = request.options
    texts: Mapping[str, str | None] = {
        **{name: getattr(options, name) for name in ("account", "qos", "reservation", "constraint", "mail")},
        "licences": ",".join(options.licences) or None,
        "gres": ",".join(options.gres) or None,
    }
    for name, text in texts.items():
        if text is not None and (not text.isprintable() or not text.strip() or text != text.strip()):
            yield Problem(what=f"{label}: {name} {text!r} is no name", where=name, remedy="write its name")
    for name in ("stdin", "stdout", "stderr"):
        path = getattr(options, name)
        if path is None:
            continue
        if "\\" in path or not path.isprintable():
            yield Problem(
                what=f"{label}: {name} {path!r} has a character that Slurm takes for its own",
                where=name,
                remedy="name a file without backslash, line end or the like",
            )
        elif len(os.fsencode(path)) > _LONGEST_PATH:
            yield Problem(what=f"{label}: {name} is too long a path", where=name, remedy="name a shorter one")


_PLAIN = re.compile(r"[A-Za-z0-9_.:-]+")
"""One feature; anything else is an expression, which Slurm judges."""


def option_check_problems(request: JobRequest, label: str, cluster: Cluster) -> Iterator[Problem]:
    """Resources, licences and features that no node and no line of slurm.conf has.

    Licences that slurmdbd keeps are not in slurm.conf, and accounts, qualities of service and reservations
    need a question of their own: these Slurm refuses by itself.
    """
    options = request.options
    kinds = [name.strip() for name in _listed(cluster, "GresTypes")]
    for each in options.gres:
        yield from _unknown(f"{label}: Slurm has no resource", each.partition(":")[0], kinds, "gres")
    if "slurmdbd" not in cluster.config.get("AccountingStorageType", ""):
        licences = [name.partition(":")[0].partition("*")[0] for name in _listed(cluster, "Licenses")]
        for each in options.licences:
            name = re.split(r"[:*=]", each, maxsplit=1)[0]
            yield from _unknown(f"{label}: Slurm has no licence", name, licences, "licences")
    requested = options.constraint
    if requested is not None and _PLAIN.fullmatch(requested):
        features = sorted({name for node in cluster.nodes.values() for name in node.features})
        yield from _unknown(f"{label}: no node has the feature", requested, features, "constraint")


def _listed(cluster: Cluster, key: str) -> list[str]:
    text = cluster.config.get(key, "")
    return [] if text in ("", "(null)") else text.split(",")


def _unknown(what: str, name: str, known: list[str], where: str) -> Iterator[Problem]:
    if name in known:
        return
    near = nearest(name, known)
    remedy = (
        f"did you mean {near}?" if near else f"there are {', '.join(known)}" if known else "there is none"
    )
    yield Problem(what=f"{what} {name}", where=where, remedy=remedy)


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
        return (
            [f"{number}"]
            if self.doomed
            else [f"{number}_{doomed_element}" for doomed_element in self.doomed_elements]
        )


def log_file(logs: Path, request: JobRequest, tag: JobTag, element: int) -> Path:
    """Where a job prints to by default; `element` is its index, or WHOLE."""
    name = slurm_name(request.label, tag)
    return logs / (f"{name}.log" if element == WHOLE else f"{name}_{element}.log")


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
    name = slurm_name(request.label, call.tag)
    array = call.elements is not None
    log = f"{logs}/{name}{'_' if array else ''}".replace("%", "%%")
    memory = memory_mib(request, cluster, cluster.partition(partition))
    command = [
        "sbatch",
        *options,
        "--parsable",
        f"--job-name={name}",
        *file_words(request, request.label, f"{log}{'%a' if array else ''}.log"),
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
    nodes = [node for node in cluster.nodes_of(partition) if request.node in (None, node.state.name)]
    fitting = [node for node in nodes if node.state.cores >= request.cores] or nodes
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
    problems = _own_problems(request, cluster)
    label = request.label if request.command else "job"
    name = request.queue or default_partition
    partition = cluster.partition(name)
    if name is not None and partition is None:
        near = nearest(name, cluster.partitions)
        problems.append(
            Problem(
                what=f"{label}: Slurm has no queue {name}",
                remedy=f"did you mean {near}?" if near else f"queues: {', '.join(cluster.partitions)}",
            )
        )
        return problems
    nodes = cluster.nodes_of(partition)
    names = [node.state.name for node in nodes]
    if request.node is not None and request.node not in names:
        near, place = nearest(request.node, names), f"queue {partition.name}" if partition else "this grid"
        problems.append(
            Problem(
                what=f"{label}: {place} has no node {request.node}",
                remedy=f"did you mean {near}?" if near else f"its nodes: {fold_hosts(names)}",
            )
        )
        return problems
    nodes = [node for node in nodes if request.node in (None, node.state.name)]
    return problems + (_size_problems(request, label, partition, nodes) if nodes else [])


def _own_problems(request: JobRequest, cluster: Cluster) -> list[Problem]:
    if not request.command:
        return [Problem(what="a job needs a command", remedy="write it after --")]
    label, found = request.label, []
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
    cores = max(node.state.cores for node in nodes)
    if partition is not None and partition.cores_per_node is not None:
        cores = min(cores, partition.cores_per_node)
    if request.cores > cores:
        found.append(
            Problem(
                what=f"{label}: {request.cores} cores, and no node of {place} has more than {cores}",
                remedy=f"ask for {cores} cores or fewer",
            )
        )
    memory = max(node.state.memory_bytes for node in nodes)
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
