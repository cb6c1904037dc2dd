"""LSF as a batch system: hands jobs in with bsub, ends them with bkill, and asks bjobs, bhist and bhosts.

Reads the queues and nodes of an LSF, with bqueues, bhosts, lshosts and lsload.
"""

from __future__ import annotations

import math
import re
import shlex
import time
from collections.abc import Collection, Mapping, Sequence

from gridwright.errors import Problem
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
from gridwright.schedulers.dependency import DependencyType
from gridwright.schedulers.head_node import HeadNode
from gridwright.schedulers.indices import fold_indices
from gridwright.schedulers.job import JobRequest, NodeState
from gridwright.schedulers.job_tag import JobTag
from gridwright.schedulers.lsf.commands import NO_JOBS, records, says, tools
from gridwright.schedulers.lsf.queue import description, read_history, read_queue, size
from gridwright.schedulers.lsf.section import section_of
from gridwright.spec.model import GridSpec

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
