"""The kind `lsf`: how it is opened, and LSF as a batch system, by bsub, bkill, bjobs, bhist and bhosts.

bacct tells what jobs of all users have used; bqueues, bhosts, lshosts and lsload tell queues and nodes.
"""

from __future__ import annotations

import math
import re
import shlex
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gridwright.errors import Problem
from gridwright.schedulers.batch.kind import BatchKind
from gridwright.schedulers.batch.system import (
    AfterJob,
    BatchCall,
    BatchFacts,
    BatchQueue,
    BatchRow,
    BatchTools,
    Unclear,
    tagged_name,
)
from gridwright.schedulers.head_node import HeadNode
from gridwright.schedulers.job import JobRequest, JobTag, NodeState
from gridwright.schedulers.job_request import DependencyType, fold_indices
from gridwright.schedulers.lsf.commands import (
    NO_JOBS,
    LsfSection,
    description,
    ending,
    job_blocks,
    moment,
    plain_node,
    read_history,
    read_queue,
    records,
    says,
    section_of,
    size,
    tools,
)
from gridwright.schedulers.usage import JobUsage
from gridwright.spec.model import GridSpec
from gridwright.yamltext.fields import FieldError

if TYPE_CHECKING:
    from gridwright.schedulers.batch.system import BatchSystem
    from gridwright.schedulers.head_node import HeadNode
    from gridwright.spec.model import GridSpec


_FIGURES = re.compile(r"^\s*(CPU_T\s.*)\n\s*(\S.*)$", re.MULTILINE)
_DEFAULT_PROJECT = "default"
_MINUTE_S = 60.0
_LONG_S = 120.0


def read_accounting(tools: BatchTools, since: float, until: float) -> list[JobUsage]:
    """Jobs of all users that ended from `since` to `until`, as far as LSF's current accounting file goes.

    Raises GridwrightError (ENVIRONMENT) where LSF does not answer.
    """
    # bacct takes times to the minute.
    between = ",".join(
        time.strftime("%Y/%m/%d/%H:%M", time.localtime(each)) for each in (since, until + _MINUTE_S)
    )
    printed = tools.query(
        ["bacct", "-u", "all", "-l", "-UF", "-C", between],
        allowed=says,
        timeout_s=_LONG_S,
    )
    usage = parse_accounting(printed.decode(errors="replace"))
    return [each for each in usage if each.ended is not None and since <= each.ended <= until]


def parse_accounting(text: str) -> Iterator[JobUsage]:
    """The jobs in what `bacct -l -UF` prints: a block for each, with its events and a table of figures."""
    for named, events, block in job_blocks(text):
        if events:
            yield _usage(named, events, _figures(block))


def _usage(named: re.Match[str], events: list[tuple[str, str]], figures: dict[str, str]) -> JobUsage:
    # What a user named stands before and behind these fields, and may look like them.
    head = named[3].strip().partition(", Command <")[0]
    project = _field(head, "Project")
    how = ending(_field(head, "Status") or "EXIT", "", " ".join(what for _, what in events))
    started = next(
        (event for event in events if re.match(r"(\[\d+\] )?(Dispatched|started|Started)", event[1])), None
    )
    cpu = figures.get("CPU_T", "")
    return JobUsage(
        id=named[1] + (f"_{named[2]}" if named[2] else ""),
        name=_field(head, "Job Name") or "",
        state=how.state,
        user=_field(head, "User"),
        account=None if project == _DEFAULT_PROJECT else project,
        queue=_field(head, "Queue"),
        node=None if started is None else _started_on(started[1]),
        cores=1 if started is None else _slots(started[1]),
        submitted=moment(events[0][0]),
        started=None if started is None else moment(started[0]),
        ended=moment(events[-1][0]),
        cpu_s=float(cpu) if re.fullmatch(r"\d+(\.\d+)?", cpu) else None,
        memory_peak_bytes=size(figures.get("MEM", "")) or None,
    )


def _field(head: str, name: str) -> str | None:
    """The last field of this name: those that users choose freely come first."""
    found = re.findall(rf"(?:^|, ){name} <([^>]*)>", head)
    return found[-1] if found else None


def _figures(block: str) -> dict[str, str]:
    found = _FIGURES.search(block)
    return dict(zip(found[1].split(), found[2].split(), strict=False)) if found else {}


def _started_on(event: str) -> str | None:
    found = re.search(r"<([^>]*)>", event.partition("on ")[2] or event)
    return plain_node(found[1]) if found else None


def _slots(event: str) -> int:
    """Slots of a job: `Dispatched 4 Task(s) on Host(s) <a> <a> <b> <b>`, or a host for each, or `<4*a>`."""
    if tasks := re.search(r"(\d+) Task\(s\)", event):
        return int(tasks[1])
    hosts = re.findall(r"<(?:(\d+)\*)?[^<>\s]+>", event)
    return sum(int(number or 1) for number in hosts) or 1


class LsfKind(BatchKind[LsfSection]):
    """Hands jobs to LSF through its own commands on the head node."""

    spec_model = LsfSection

    def system(self, spec: GridSpec, head: HeadNode) -> BatchSystem:
        """The LSF of a grid."""
        return Lsf(spec, head)

    def usage(self, spec: GridSpec, head: HeadNode, since: float, until: float) -> list[JobUsage]:
        """What bacct has of all users; of jobs that were submitted here our own record, which is exact."""
        from gridwright.schedulers.batch.record import BatchRecord
        from gridwright.schedulers.batch.recorded import recorded_usage
        from gridwright.schedulers.batch.submission import make_batch_directories
        from gridwright.schedulers.lsf.commands import section_of, tools
        from gridwright.schedulers.state_directory import state_directory

        self.open(spec, head).jobs()
        directories = make_batch_directories(state_directory(spec), "lsf")
        with BatchRecord(directories.record) as record:
            own, numbers = list(recorded_usage(record)), set(record.identifiers())
        others = read_accounting(tools(section_of(spec), head), since, until)
        return [
            *(each for each in own if each.ended is not None and since <= each.ended <= until),
            *(other for other in others if other.id.partition("_")[0] not in numbers),
        ]

    def lab_problems(self, section: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], FieldError]]:
        """A lab has only what everybody may have."""
        yield (
            ("type",),
            FieldError("a lab has no LSF, which is IBM's product", "write slurm or grid_engine for a lab"),
        )


KIND = LsfKind()


_STATUS = {
    "unavail": "it is down, or its daemons are not reached",
    "unreach": "its sbatchd is not reached",
    "unlicensed": "LSF has no licence for it",
    "closed_adm": "an administrator has closed it",
    "closed_lock": "it is locked",
    "closed_wind": "its dispatch window is closed",
    "closed_ego": "EGO has taken it",
    "closed_lim": "its LIM does not answer",
    "closed_rc": "it is being given back to the cloud",
}
"""Statuses of hosts that take no job (bhosts); closed_full and closed_busy open by themselves."""


def read_facts(tools: BatchTools, default: str | None) -> BatchFacts:
    """Queues and nodes as they are now. Raises GridwrightError (ENVIRONMENT)."""
    largest = _column(tools, ["lshosts", "-w"], "maxmem")
    free = _column(tools, ["lsload", "-w"], "mem")
    nodes = {
        each["HOST_NAME"]: _node(each, largest, free)
        for each in records(tools, ["bhosts", "-o", "host_name status max njobs", "-json"])
        if each.get("HOST_NAME")
    }
    hosts, limits = _long(tools)
    queues = {}
    for record in records(tools, ["bqueues", "-o", "queue_name status", "-json"]):
        name = record.get("QUEUE_NAME", "")
        named = [one for one in hosts.get(name, []) if one in nodes]
        queues[name] = BatchQueue(
            name=name,
            up=record.get("STATUS", "") == "Open:Active",
            # Groups of hosts, and all, are not looked into: the queue may have any.
            nodes=named if named and len(named) == len(hosts.get(name, [])) else list(nodes),
            longest_s=limits.get(name),
        )
    return BatchFacts(queues=queues, nodes=nodes, default_queue=default)


def _node(each: Mapping[str, str], largest: Mapping[str, str], free: Mapping[str, str]) -> NodeState:
    name, status = each["HOST_NAME"], each.get("STATUS", "").lower()
    cores, used = _count(each.get("MAX", "")), _count(each.get("NJOBS", ""))
    reason = _STATUS.get(status)
    up = reason is None and (status in ("ok", "closed") or status.startswith("closed_"))
    return NodeState(
        name=name,
        up=up,
        state=status,
        cores=cores,
        memory_bytes=size(largest.get(name, ""), _MIB),
        free_cores=max(0, cores - used) if up else 0,
        free_memory_bytes=size(free.get(name, ""), _MIB),
        reason=reason if up or reason else f"LSF says {status}",
    )


def _column(tools: BatchTools, command: list[str], name: str) -> dict[str, str]:
    """A column of a table by host; none where the host has no value, or is down."""
    lines = tools.query(command).decode(errors="replace").splitlines()
    if not lines or name not in lines[0].split():
        return {}
    at = lines[0].split().index(name)
    cells = [line.split() for line in lines[1:]]
    return {cell[0]: cell[at] for cell in cells if len(cell) > at}


def _long(tools: BatchTools) -> tuple[dict[str, list[str]], dict[str, float]]:
    """Hosts and the longest run time in seconds of each queue, from bqueues -l."""
    hosts: dict[str, list[str]] = {}
    limits: dict[str, float] = {}
    name, limit_next, maximum = "", False, True
    for line in tools.query(["bqueues", "-l"]).decode(errors="replace").splitlines():
        if match := re.match(r"QUEUE:\s*(\S+)", line):
            name, maximum = match[1], True
        elif "DEFAULT LIMITS" in line:
            maximum = False
        elif "MAXIMUM LIMITS" in line:
            maximum = True
        elif line.split()[:1] == ["RUNLIMIT"]:
            limit_next = True
        elif limit_next:
            limit_next = False
            if maximum and (match := re.match(r"\s*([0-9.]+) min", line)):
                limits[name] = float(match[1]) * 60
        elif match := re.match(r"HOSTS:\s*(.*)", line):
            hosts[name] = match[1].split()
    return hosts, limits


def _count(text: str) -> int:
    return int(text) if text.isdigit() else 0


_MIB = 1024**2
"""What lshosts and lsload count memory in where they write no unit."""
_AT_ONCE = 200
_CONDITIONS = {
    DependencyType.OK: "done",
    DependencyType.ANY: "ended",
    DependencyType.EACH: "done",
    # Which of an array's elements failed is looked at on the node.
    DependencyType.NOT_OK: "ended",
}
_FINISHED = ("already finished", "is being terminated", "already been requested")


class Lsf:
    """One LSF; see BatchSystem."""

    name = "LSF"
    number_variable = "LSB_JOBID"
    position_variable = "LSB_JOBINDEX"
    kept_prefixes: Sequence[str] = ("LSB_", "LSF_", "LS_")
    limits_memory = False
    """Only where its administrator says so (LSB_MEMLIMIT_ENFORCE): jobs are watched on their nodes, too."""
    forgets_after_s = 60.0

    def __init__(self, spec: GridSpec, head: HeadNode) -> None:
        self._section = section_of(spec)
        self._tools = tools(self._section, head)

    def facts(self) -> BatchFacts:
        """Its queues and nodes."""
        return read_facts(self._tools, self._section.queue)

    def request_problems(self, request: JobRequest) -> list[Problem]:
        """What it cannot do for a request."""
        options = request.options
        request_problems = [
            Problem(
                f"{each} is no generic resource of LSF",
                remedy="write gpu:COUNT, or NAME:COUNT for one of bhosts -s",
            )
            for each in options.gres
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*(:[A-Za-z0-9_]+)?(:[0-9]+)?", each)
        ]
        request_problems += [
            Problem(f"{licence} is no licence", remedy="write NAME or NAME:COUNT")
            for licence in options.licences
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*(:[0-9]+)?", licence)
        ]
        if options.constraint is not None and re.search(r"[\[\]]", options.constraint):
            what = "its constraint is a select string of LSF, and has select[ ]"
            request_problems.append(Problem(what, remedy="leave out select[ and ], such as mem>4000"))
        return request_problems

    def submit(self, call: BatchCall) -> int:
        """Submit one job with bsub; its number."""
        answer = self._tools.hand_in(self.command(call))
        printed = answer.stdout.decode(errors="replace")
        found = re.search(r"Job <(\d+)> is submitted to ", printed)
        if found is None:
            raise Unclear(f"bsub printed no number of a job: {printed.strip()[:200]}")
        return int(found[1])

    def command(self, call: BatchCall) -> list[str]:
        """The call of bsub. Its last word is a line of a shell, of which each word is quoted."""
        request = call.request
        name = tagged_name(request.label, call.tag)
        array = "" if call.elements is None else f"[1-{call.elements}]"
        command = ["bsub", "-J", f"{name}{array}", "-Jd", description(call.tag)]
        command += ["-o", "/dev/null", "-cwd", "/", "-env", "none", "-n", str(request.cores)]
        for requirement in self._requirements(call):
            command += ["-R", requirement]
        if call.memory_bytes is not None:
            command += ["-M", f"{_kib(call.memory_bytes)}KB"]
        command.append("-r" if request.restart else "-rn")
        if request.queue:
            command += ["-q", request.queue]
        if request.time_limit_s is not None:
            command += ["-W", str(max(1, math.ceil(request.time_limit_s / 60)))]
        if request.node is not None:
            command += ["-m", request.node]
        if request.exclusive:
            command.append("-x")
        if call.after:
            command += ["-w", " && ".join(map(_condition, call.after)), "-ti"]
        return [*command, *self._options(request), shlex.join(call.program)]

    def _requirements(self, call: BatchCall) -> list[str]:
        request, options = call.request, call.request.options
        found = []
        if options.constraint:
            found.append(f"select[{options.constraint}]")
        if request.cores > 1:
            found.append("span[hosts=1]")
        if call.memory_bytes is not None:
            found.append(f"rusage[mem={_kib(call.memory_bytes)}KB]")
        for licence in (*options.licences, *(each for each in options.gres if not each.startswith("gpu"))):
            name, _, count = licence.partition(":")
            found.append(f"rusage[{name}={count.rpartition(':')[2] or 1}]")
        return found

    def _options(self, request: JobRequest) -> list[str]:
        options = request.options
        found = []
        if project := options.account or self._section.project:
            found += ["-P", project]
        if options.qos:
            found += ["-sla", options.qos]
        if options.reservation:
            found += ["-U", options.reservation]
        for each in options.gres:
            if each.startswith("gpu"):
                found += ["-gpu", f"num={each.rpartition(':')[2] if ':' in each else 1}"]
        if options.begin is not None:
            # LSF begins jobs at whole minutes.
            moment = time.localtime(60 * math.ceil(options.begin / 60))
            found += ["-b", time.strftime("%Y:%m:%d:%H:%M", moment)]
        if options.mail:
            found += ["-u", options.mail]
            found += ["-B"] if "begin" in options.mail_on else []
            found += ["-N"] if {"end", "fail"} & set(options.mail_on) else []
        return found

    def queue(self) -> list[BatchRow]:
        """The jobs of this user and of Gridwright that LSF knows."""
        return read_queue(self._tools)

    def past(self, requested: Mapping[JobTag, int | None], since: float) -> list[BatchRow]:
        """What bjobs has still, and bhist of the others."""
        rows = [row for row in self.queue() if row.tag in requested and row.state.final]
        known = {row.tag for row in rows}
        left = {tag: number for tag, number in requested.items() if tag not in known}
        return [*rows, *read_history(self._tools, left)]

    def cancel(self, targets: Collection[tuple[int, Sequence[int] | None]]) -> None:
        """End jobs with bkill."""
        names = [
            str(number) if positions is None else f"{number}[{fold_indices(positions)}]"
            for number, positions in targets
        ]
        for first in range(0, len(names), _AT_ONCE):
            # It fails where one of the jobs has ended meanwhile, and goes on with the others.
            self._tools.query(
                ["bkill", *names[first : first + _AT_ONCE]],
                allowed=lambda answer: says(answer, (*NO_JOBS, *_FINISHED)),
            )

    def why_waits(self, number: int) -> str | None:
        """The reasons that LSF gives stand in its queue already."""
        return None


def _kib(count: int) -> int:
    return max(1, math.ceil(int(count) / 1024))


def _condition(after: AfterJob) -> str:
    """A condition of bsub -w; of an array, its number alone stands for all elements."""
    index = "[*]" if after.each else "" if after.position is None else f"[{after.position}]"
    return f"{_CONDITIONS[after.type]}({after.number}{index})"
