"""Submits jobs with sbatch, checked before, and tries again without ever submitting one twice.

Slurm gives the number of a job a second time after it has lost jobs: a slurmctld that was killed comes back
with the next number that it had saved. A slurmd refuses a number that it has started before; slurmctld then
drains the node ("Duplicate jobid") and cancels the job, of an array all of it (seen with 22.05, also when the
first job had ended). So numbers that were in use are used up: by jobs that are held and cancelled at once.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gridwright.errors import ExitStatus, GridwrightError, Problem, nearest
from gridwright.node_programs.batch_job.job_file import WHOLE
from gridwright.schedulers.batch.submission import place_problems, plain_problems
from gridwright.schedulers.batch.system import PATIENCE_S
from gridwright.schedulers.job import JobOptions, JobRequest, JobTag
from gridwright.schedulers.job_request import (
    filled,
    fold_indices,
    index_range,
    path_problems,
    what_is_too_long,
)
from gridwright.schedulers.slurm.cluster import MIB, Cluster, Partition
from gridwright.schedulers.slurm.job_script import (
    JobDirectories,
    exported,
    script_arguments,
    slurm_environment,
)
from gridwright.schedulers.slurm.record import JobRecord
from gridwright.schedulers.slurm.section import SlurmSection, section_of
from gridwright.schedulers.slurm.tools import ANSWER_S, MANY, Refusal, ToolRefused, Tools, by_tag, read_queue
from gridwright.spec.hosts import fold_hosts
from gridwright.spec.model import GridSpec

_OURS = {
    "array": "--array of gridwright submit",
    "chdir": "the directory that the job is submitted in",
    "clusters": "one grid spec for each cluster",
    "cpus-per-task": "--cores of gridwright submit",
    "dependency": "--after of gridwright submit",
    "error": "gridwright logs",
    "exclusive": "the field exclusive of a request",
    "export": "the environment of gridwright submit",
    "export-file": "the environment of gridwright submit",
    "get-user-env": "the environment of gridwright submit",
    "help": "sbatch itself",
    "hint": "--cores of gridwright submit",
    "input": "the job's own command",
    "job-name": "--name of gridwright submit",
    "kill-on-invalid-dep": "--after of gridwright submit",
    "mem": "--memory of gridwright submit",
    "mem-per-cpu": "--memory of gridwright submit",
    "mem-per-gpu": "--memory of gridwright submit",
    "no-requeue": "--restart of gridwright submit",
    "nodelist": "the field node of a request",
    "nodes": "one job for each node",
    "ntasks": "one job for each task",
    "open-mode": "gridwright logs",
    "output": "gridwright logs",
    "parsable": "gridwright submit",
    "quiet": "gridwright submit",
    "requeue": "--restart of gridwright submit",
    "test-only": "gridwright explain",
    "threads-per-core": "--cores of gridwright submit",
    "usage": "sbatch itself",
    "verbose": "gridwright submit",
    "version": "sbatch itself",
    "wait": "gridwright wait",
    "wrap": "the command of gridwright submit",
}
"""Long options that Gridwright sets or that would change what sbatch prints, and what to use instead."""
_SHORT = {
    "a": "array",
    "c": "cpus-per-task",
    "d": "dependency",
    "D": "chdir",
    "e": "error",
    "h": "help",
    "i": "input",
    "J": "job-name",
    "M": "clusters",
    "n": "ntasks",
    "N": "nodes",
    "o": "output",
    "Q": "quiet",
    "u": "usage",
    "v": "verbose",
    "V": "version",
    "w": "nodelist",
    "W": "wait",
}
"""Those with a letter of their own (sbatch(1))."""
_BARE = frozenset("HIkOsS")
"""Letters that take no value, so that more may follow in the same word."""


def sbatch_options(lines: Sequence[str], place: str | None) -> list[str]:
    """The options as arguments, each with its value in one word: none can pass for the script's name.

    `place` is the spec's file. Raises GridwrightError (INPUT) with every wrong line.
    """
    words: list[str] = []
    problems: list[Problem] = []
    for number, line in enumerate(lines):
        try:
            words.append(_one_word(line))
        except ValueError as error:
            problems.append(
                Problem(
                    what=f"{line!r} {error}", where=place, field=f"scheduler.options.{number}", remedy=_REMEDY
                )
            )
    if problems:
        raise GridwrightError(*problems, status=ExitStatus.INPUT)
    return words


_REMEDY = "write one option of sbatch a line, such as --qos=night"


def _one_word(line: str) -> str:
    try:
        parts = shlex.split(line)
    except ValueError as error:
        raise ValueError(f"cannot be read: {error}") from error
    if not 1 <= len(parts) <= 2 or not parts[0].startswith("-") or parts[0] in ("-", "--"):
        raise ValueError("is not one option of sbatch")
    option, value = parts[0], parts[1] if len(parts) == 2 else None
    if name := _named(option):
        raise ValueError(f"sets --{name}, which Gridwright sets itself; instead: {_OURS[name]}")
    if value is None:
        return option
    if option.startswith("--"):
        if "=" in option:
            raise ValueError("has two values")
        return f"{option}={value}"
    return option + value


def _named(option: str) -> str | None:
    """The option of ours that a word sets, long, abbreviated or by its letter; None where it sets none."""
    if option.startswith("--"):
        word = option[2:].partition("=")[0]
        if word in _OURS:
            return word
        # getopt_long(3) takes any beginning that only one option has.
        return next((name for name in _OURS if len(word) > 1 and name.startswith(word)), None)
    for letter in option[1:]:
        if letter in _SHORT:
            return _SHORT[letter]
        if letter not in _BARE:
            break
    return None


_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class SlurmAccess:
    """The objects that every call of Slurm's tools needs."""

    spec: GridSpec
    tools: Tools
    directories: JobDirectories
    options: Sequence[str]
    """Those of the spec, one a word."""

    @property
    def section(self) -> SlurmSection:
        """The scheduler of the spec."""
        return section_of(self.spec)


def scancel(access: SlurmAccess, targets: Sequence[str]) -> None:
    """Cancel jobs by Slurm's numbers; those that have ended stay so. Raises GridwrightError (ENVIRONMENT)."""
    for first in range(0, len(targets), _AT_ONCE):
        command = ["scancel", "-Q", *targets[first : first + _AT_ONCE]]
        try:
            access.tools.query(command)
        except GridwrightError as error:
            # It fails where one of the jobs has ended meanwhile.
            if error.status is not ExitStatus.INPUT:
                raise


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
        yield from _unknown_name(f"{label}: Slurm has no resource", each.partition(":")[0], kinds, "gres")
    if "slurmdbd" not in cluster.config.get("AccountingStorageType", ""):
        licences = [name.partition(":")[0].partition("*")[0] for name in _listed(cluster, "Licenses")]
        for each in options.licences:
            name = re.split(r"[:*=]", each, maxsplit=1)[0]
            yield from _unknown_name(f"{label}: Slurm has no licence", name, licences, "licences")
    requested = options.constraint
    if requested is not None and _PLAIN.fullmatch(requested):
        features = sorted({name for node in cluster.nodes.values() for name in node.features})
        yield from _unknown_name(f"{label}: no node has the feature", requested, features, "constraint")


def _listed(cluster: Cluster, key: str) -> list[str]:
    text = cluster.config.get(key, "")
    return [] if text in ("", "(null)") else text.split(",")


def _unknown_name(what: str, name: str, known: list[str], where: str) -> Iterator[Problem]:
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
    facts = cluster.facts(default_partition)
    return [*_own_problems(request, cluster), *place_problems(request, facts, "Slurm", fold_hosts)]


def _own_problems(request: JobRequest, cluster: Cluster) -> Iterator[Problem]:
    if not request.command:
        yield Problem(what="a job needs a command", remedy="write it after --")
        return
    label = request.label
    too_long = what_is_too_long(request) or _longer_than_slurm_takes(request, cluster)
    yield from plain_problems(request, "Slurm", too_long)
    yield from _array_problems(request, label, cluster)
    yield from path_problems(request)
    yield from word_problems(request, label)
    yield from option_check_problems(request, label, cluster)


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


def parse_answer(stdout: bytes) -> int:
    """Slurm's number out of what sbatch --parsable prints: NUMBER or NUMBER;CLUSTER. Raises ValueError."""
    return int(stdout.decode().strip().splitlines()[-1].partition(";")[0])


NUMBER = "gridwright-number"
"""The name of jobs that only take a number out of use."""
RECENT_S = 3600.0
"""Numbers given longer ago are no sign of a loss: Slurm may have been set up anew, or have counted around."""
_MOST = 300
"""The most numbers that are used up at a time: a call takes about 10 ms."""


def goes_back(record: JobRecord, number: int) -> bool:
    """Whether a number that Slurm gave now was given before: slurmctld has lost jobs."""
    highest, _ = record.numbers(RECENT_S, at_least=number)
    return highest >= number


def use_up_numbers(access: SlurmAccess, record: JobRecord) -> None:
    """Have Slurm go past the numbers that it gave to jobs of ours.

    An element of an array gets its number when it begins: one of those that follow the highest that is known.
    """
    command = ["sbatch", "--parsable", "--hold", f"--job-name={NUMBER}", "--output=/dev/null", "--wrap=true"]
    taken: list[int] = []
    try:
        while len(taken) < _MOST:
            taken.append(parse_answer(access.tools.once(command).stdout))
            highest, elements = record.numbers(RECENT_S, at_least=taken[0])
            if taken[-1] >= highest + elements:
                break
    except (ToolRefused, ValueError):
        # A precaution: without it a node may refuse jobs, and Slurm tells of that.
        pass
    scancel(access, [str(number) for number in taken])


LEASE_S = 2 * PATIENCE_S + 3 * ANSWER_S
"""How long a submission is left to the process that submits it: longer than that takes at worst."""

_FOR_NOW = ("not available", "busy", "DOWN", "drained", "temporarily")
"""What a message of `sbatch --test-only` has where a job would wait: for nodes that are down, or in use."""


def submit_request(
    access: SlurmAccess, record: JobRecord, cluster: Cluster, call: SbatchCall
) -> tuple[JobTag, int]:
    """Submit one job; its attempt and Slurm's number. Bounded by LEASE_S.

    Where it is not clear whether slurmctld has taken it, the queue is asked. A job that is not in there gets
    a fence, so that it does not begin should the request arrive late, and goes in as the next attempt. So
    does one with a number that was another's already: see numbers.
    Raises GridwrightError: INPUT where Slurm refuses it, ENVIRONMENT where nobody answers.
    """
    give_up = time.monotonic() + PATIENCE_S
    wait_s = 0.2
    stepped = False
    while True:
        try:
            number = _sbatch(access, record, cluster, call)
        except ToolRefused as refused:
            refusal = refused.refusal
        else:
            if stepped or not goes_back(record, number) or not _taken_back(access, call.tag, number):
                return call.tag, number
            use_up_numbers(access, record)
            stepped, refusal = True, Refusal("away", "slurmctld has lost jobs", "", "")
            call = _next_attempt(access, record, call, refusal)
            continue
        if refusal.kind not in ("away", "unclear"):
            raise access.tools.error(refusal, "sbatch")
        if refusal.kind == "unclear":
            rows = by_tag(read_queue(access.tools, MANY)).get(call.tag, [])
            if rows:
                return call.tag, rows[0].job_id
            call = _next_attempt(access, record, call, refusal)
        if time.monotonic() + wait_s > give_up:
            raise _deferred(access.tools.error(refusal, "sbatch"))
        time.sleep(wait_s)
        wait_s = min(2.0, wait_s * 2)


def _taken_back(access: SlurmAccess, tag: JobTag, number: int) -> bool:
    """Whether a job that got a number which was another's could be cancelled before it began."""
    access.directories.fence(tag)
    if any(job.partition("_")[0] == str(tag) for job in access.directories.runs_begun()):
        access.directories.lift_fence(tag)
        return False
    scancel(access, [str(number)])
    return True


def _next_attempt(access: SlurmAccess, record: JobRecord, call: SbatchCall, refusal: Refusal) -> SbatchCall:
    access.directories.fence(call.tag)
    tag = record.claim(call.tag, time.time() + LEASE_S)
    if tag is None:
        raise _deferred(access.tools.error(refusal, "sbatch"))
    return replace(call, tag=tag)


def _deferred(error: GridwrightError) -> GridwrightError:
    first = error.problems[0]
    return GridwrightError(
        Problem(
            what=f"{first.what}; the job is kept, and the next command of Gridwright hands it in",
            where=first.where,
            remedy=first.remedy,
        ),
        status=ExitStatus.ENVIRONMENT,
    )


def try_request(access: SlurmAccess, record: JobRecord, cluster: Cluster, call: SbatchCall) -> None:
    """Ask whether Slurm would take a job, and submit nothing; where nobody answers, that is told later.

    What it waits for is left out: it may not be there yet. Raises GridwrightError (INPUT) where it refuses.
    """
    alone = replace(call, after=())
    command, environment = _command(access, record, cluster, alone)
    try:
        access.tools.once([command[0], "--test-only", *command[1:]], stdin=exported(environment))
    except ToolRefused as refused:
        passes = any(each in refused.refusal.message for each in _FOR_NOW)
        if refused.refusal.kind == "input" and not passes:
            raise access.tools.error(refused.refusal, "sbatch") from None


def _sbatch(access: SlurmAccess, record: JobRecord, cluster: Cluster, call: SbatchCall) -> int:
    command, environment = _command(access, record, cluster, call)
    answer = access.tools.once(command, stdin=exported(environment))
    try:
        return parse_answer(answer.stdout)
    except (ValueError, IndexError):
        printed = answer.stdout.decode(errors="replace").strip()
        raise ToolRefused(Refusal("unclear", "sbatch printed no number of a job", "", printed)) from None


def _command(
    access: SlurmAccess, record: JobRecord, cluster: Cluster, call: SbatchCall
) -> tuple[list[str], Mapping[str, str]]:
    """The command line of sbatch, and the environment that it reads from its standard input."""
    request, scheduler = call.request, access.section
    environment = slurm_environment(request)
    known = record.by_token(call.tag.token)
    return [
        *sbatch_arguments(
            call,
            cluster=cluster,
            partition=request.queue or scheduler.partition,
            account=scheduler.account,
            logs=access.directories.logs,
            options=access.options,
        ),
        str(access.directories.script),
        *script_arguments(
            request,
            state=access.directories.base,
            tag=call.tag,
            identifier=(known.identifier or "") if known is not None else "",
            environment=environment,
        ),
    ], environment


def elements_of(elements: Sequence[int]) -> Sequence[int] | None:
    """Indices for sbatch; None where the job is no array."""
    return None if WHOLE in elements else elements
