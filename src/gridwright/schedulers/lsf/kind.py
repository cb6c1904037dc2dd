"""The kind `lsf`: its section of a grid spec, how it is opened, and LSF as a batch system.

Jobs go in with bsub, end with bkill, and are told by bjobs, or by bhist once LSF has forgotten them, after
CLEAN_PERIOD; bacct tells what jobs of all users have used; bqueues, bhosts, lshosts and lsload tell queues
and nodes. Termination reasons are those that IBM lists for 10.1.
"""

from __future__ import annotations

import csv
import json
import math
import os
import re
import shlex
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from gridwright.commands import CommandOutput
from gridwright.errors import Problem, environment_error
from gridwright.node_programs.batch_job.job_file import WHOLE
from gridwright.schedulers.batch.kind import BatchKind
from gridwright.schedulers.batch.system import (
    AfterJob,
    Answered,
    BatchCall,
    BatchFacts,
    BatchQueue,
    BatchRow,
    BatchTools,
    Unclear,
    tagged_name,
)
from gridwright.schedulers.head_node import HeadNode, check_run
from gridwright.schedulers.job import JobRequest, JobState, JobTag, NodeState, tag_of
from gridwright.schedulers.job_request import DependencyType, fold_indices
from gridwright.schedulers.usage import JobUsage
from gridwright.spec.fields import Directory
from gridwright.spec.model import GridSpec
from gridwright.spec.scheduler import LATER_JOBS, REPLACED, SchedulerSection
from gridwright.yamltext.fields import FieldError

if TYPE_CHECKING:
    from gridwright.schedulers.batch.system import BatchSystem
    from gridwright.schedulers.head_node import HeadNode
    from gridwright.spec.model import GridSpec


class LsfSection(SchedulerSection):
    """An IBM Spectrum LSF that is there already: Gridwright does not set it up."""

    knows_nodes: ClassVar[bool] = True
    is_of_sites_alone: ClassVar[bool] = True
    job_options: ClassVar[frozenset[str]] = frozenset(
        {
            *("account", "qos", "reservation", "licences", "gres", "constraint", "begin", "mail"),
            *("stdin", "stdout", "stderr"),
        }
    )
    job_options_instead: ClassVar[Mapping[str, str]] = {
        "nice": "name a queue with a lower priority, with --queue: LSF orders jobs by queue and share"
    }
    dependency_types: ClassVar[frozenset[str]] = frozenset({"ok", "any", "not-ok", "each"})

    type: Annotated[Literal["lsf"], REPLACED] = Field(
        description="The kind of scheduler: lsf is an IBM Spectrum LSF that is there already."
    )
    profile: Annotated[Directory | None, LATER_JOBS] = Field(
        default=None,
        description="The file profile.lsf on the head node, which sets what LSF's commands need. By default "
        "they are found in PATH.",
    )
    owner: Annotated[str | None, LATER_JOBS] = Field(
        default=None,
        description="The account that profile belongs to, such as lsfadmin, where that is not root's: it "
        "could run anything as whoever runs gridwright.",
    )
    project: Annotated[str | None, LATER_JOBS] = Field(
        default=None, description="The project that jobs are charged to, as bsub -P has it."
    )
    queue: Annotated[str | None, LATER_JOBS] = Field(
        default=None, description="The queue of jobs that name none. By default LSF's own default queue."
    )


def _section_of(spec: GridSpec) -> LsfSection:
    """The section of a spec whose scheduler is LSF. Raises TypeError for another."""
    if not isinstance(spec.scheduler, LsfSection):
        raise TypeError(f"{spec.scheduler.type} is not lsf")
    return spec.scheduler


_WORD = re.compile(r"TERM_[A-Z_]+")


@dataclass(frozen=True, slots=True)
class Ending:
    """How a job ended."""

    state: JobState
    reason: str | None = None
    exit_status: int | None = None
    signal: int | None = None


def ending(stat: str, exit_code: str, reason: str) -> Ending:
    """How a job ended that LSF has as DONE or EXIT, with its exit code and its termination reason."""
    if stat == "DONE":
        return Ending(JobState.COMPLETED, exit_status=0)
    code = int(exit_code) if exit_code.isdigit() else None
    status = code if code is not None and code <= 128 else None
    signal = code - 128 if code is not None and code > 128 else None
    word = _WORD.search(reason)
    if word is None:
        return Ending(JobState.FAILED, None, status, signal)
    state, sentence = _terminations().get(word[0], (JobState.FAILED, f"LSF says {word[0]}"))
    if state is JobState.FAILED:
        return Ending(state, sentence or None, status, signal)
    return Ending(state, sentence or None)


@cache
def _terminations() -> dict[str, tuple[JobState, str]]:
    with (Path(__file__).parent / "data" / "terminations.csv").open(newline="", encoding="utf-8") as file:
        return {row["word"]: (JobState(row["state"]), row["sentence"]) for row in csv.DictReader(file)}


_FIELDS = (
    "jobid jobindex stat queue job_description exec_host exit_code exit_reason start_time finish_time "
    "max_mem pend_reason"
)
"""Names of fields of bjobs -o (IBM Spectrum LSF 10.1, command reference)."""
DESCRIPTION = "gridwright "
"""What the description of our jobs begins with (bsub -Jd); the tag follows."""
_FACTORS = {"K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}
_RUNNING = {"RUN": None, "SSUSP": "LSF has suspended it", "USUSP": "it is suspended (bstop)"}
_LOST = {"UNKWN": "its node does not answer", "ZOMBI": "its node does not answer, and it is to be ended"}


def description(tag: JobTag) -> str:
    """The description of a job in LSF."""
    return f"{DESCRIPTION}~{tag}"


def _read_queue(tools: BatchTools) -> list[BatchRow]:
    """The jobs of this user and of Gridwright, also those that ended within CLEAN_PERIOD.

    Raises GridwrightError (ENVIRONMENT).
    """
    return list(rows(_records(tools, ["bjobs", "-a", "-o", _FIELDS, "-json"])))


def rows(found: Sequence[Mapping[str, str]]) -> Iterator[BatchRow]:
    """The rows of jobs that are ours."""
    for each in found:
        tag = tag_of(each.get("JOB_DESCRIPTION", ""))
        number = re.match(r"(\d+)(?:\[(\d+)\])?$", each.get("JOBID", ""))
        if tag is None or number is None:
            continue
        index = number[2] or each.get("JOBINDEX", "0")
        position = int(index) if index.isdigit() and int(index) else WHOLE
        yield _row(each, int(number[1]), position, tag)


def _row(each: Mapping[str, str], number: int, position: int, tag: JobTag) -> BatchRow:
    stat = each.get("STAT", "")
    state, reason, exit_status, signal = JobState.WAITING, None, None, None
    if stat in ("DONE", "EXIT"):
        end = ending(stat, each.get("EXIT_CODE", ""), each.get("EXIT_REASON", ""))
        state, reason, exit_status, signal = end.state, end.reason, end.exit_status, end.signal
    elif stat in _RUNNING:
        state, reason = JobState.RUNNING, _RUNNING[stat]
    elif stat in _LOST:
        state, reason = JobState.RUNNING, _LOST[stat]
    else:
        reason = each.get("PEND_REASON", "").strip().rstrip(";").replace("; ", ", ") or None
        if stat == "PSUSP":
            reason = "it is held (bstop)"
    return BatchRow(
        number=number,
        tag=tag,
        positions=(position,),
        state=state,
        exit_status=exit_status,
        signal=signal,
        reason=reason,
        node=plain_node(each.get("EXEC_HOST", "")),
        queue=each.get("QUEUE") or None,
        started=moment(each.get("START_TIME", "")),
        ended=moment(each.get("FINISH_TIME", "")) if state.final else None,
        most_bytes=size(each.get("MAX_MEM", "")),
    )


def moment(text: str, now: float | None = None) -> float | None:
    """Seconds since 1970 of a time such as `Nov 25 02:38`, to the minute; it has no year, and is not to come.

    What follows, as in `Nov 25 02:38 L`, says how it is meant.
    """
    match = re.match(r"([A-Z][a-z]{2}\s+\d+ \d+:\d+(?::\d+)?)(?: (\d{4}))?", text)
    if match is None:
        return None
    today = time.localtime(now)
    form = "%b %d %H:%M:%S %Y" if match[1].count(":") == 2 else "%b %d %H:%M %Y"
    for year in (int(match[2]) if match[2] else today.tm_year, today.tm_year - 1):
        try:
            seconds = time.mktime(time.strptime(f"{match[1]} {year}", form))
        except ValueError:
            continue
        if match[2] or seconds <= time.mktime(today) + 86_400.0:
            return seconds
    return None


def size(text: str, unit: int = 1) -> int:
    """A size such as `522 MBytes` or `5.2G` in bytes; 0 where there is none. `unit` if it names none."""
    match = re.match(r"([0-9.]+)\s*([KMGT]?)", text)
    return int(float(match[1]) * (_FACTORS[match[2]] if match[2] else unit)) if match else 0


_AT_ONCE = 200
_JOB = re.compile(r"^Job <(\d+)(?:\[(\d+)\])?>,(.*)$", re.MULTILINE)
EVENT = re.compile(r"^[A-Z][a-z]{2} ([A-Z][a-z]{2}\s+\d+ \d+:\d+:\d+(?: \d{4})?): (.*)$", re.MULTILINE)
"""A line of a job's history: when, and what."""


def _read_history(tools: BatchTools, requested: Mapping[JobTag, int | None]) -> list[BatchRow]:
    """What bhist has of these jobs, by their numbers. Raises GridwrightError (ENVIRONMENT)."""
    numbers = [str(number) for number in requested.values() if number is not None]
    rows: list[BatchRow] = []
    for first in range(0, len(numbers), _AT_ONCE):
        command = ["bhist", "-a", "-l", "-UF", "-n", "0", *numbers[first : first + _AT_ONCE]]
        printed = tools.query(command, allowed=_says)
        rows += [row for row in parse_history(printed.decode(errors="replace")) if row.tag in requested]
    return rows


def _job_blocks(text: str) -> Iterator[tuple[re.Match[str], list[tuple[str, str]], str]]:
    """What bhist -l -UF and bacct -l -UF print of each job: its first line, its events, and all of it.

    The first line has number, index in an array and the rest; an event has its time and what it was.
    """
    begins = list(_JOB.finditer(text))
    for named, end in zip(begins, [*(each.start() for each in begins[1:]), len(text)], strict=True):
        events = [(each[1], each[2]) for each in EVENT.finditer(text, named.start(), end)]
        yield named, events, text[named.start() : end]


def parse_history(text: str) -> Iterator[BatchRow]:
    """The ends in what `bhist -l -UF` prints: a block for each job, with a line for each event."""
    for named, events, block in _job_blocks(text):
        described = re.search(r"Job Description <([^>]*)>", block)
        tag = tag_of(described[1]) if described else None
        if tag is None or (how := _ending(events)) is None:
            continue
        started = next((when for when, what in events if what.startswith(("Started", "Starting"))), "")
        node = next((each for _, what in events if (each := _node(what)) is not None), None)
        yield BatchRow(
            number=int(named[1]),
            tag=tag,
            positions=(int(named[2]) if named[2] else WHOLE,),
            state=how.state,
            exit_status=how.exit_status,
            signal=how.signal,
            reason=how.reason,
            node=node,
            started=moment(started),
            ended=moment(events[-1][0]),
        )


def _node(event: str) -> str | None:
    found = re.search(r"(?:Dispatched|Started)[^<]*(?:<\d+>[^<]*)?<([^>]*)>", event)
    return plain_node(found[1]) if found else None


def _ending(events: Sequence[tuple[str, str]]) -> Ending | None:
    """How a job ended by its events; None where it has not."""
    stat, code, reason = "", "", ""
    for _, what in events:
        if what.startswith("Done successfully"):
            stat = "DONE"
        elif exited := re.match(r"Exited with exit code (\d+)", what):
            stat, code = "EXIT", exited[1]
        elif signalled := re.match(r"Exited by signal (\d+)", what):
            stat, code = "EXIT", str(128 + int(signalled[1]))
        elif what.startswith(("Exited", "Completed <exit>")):
            stat = "EXIT"
        reason = what if "TERM_" in what else reason
    return ending(stat, code, reason) if stat else None


_AWAY = (
    "lsf is down",
    "cannot connect to lsf",
    "failed in an lsf library call",
    "lim is down",
    "batch daemon not responding",
    "cannot locate master",
    "unable to contact",
)
"""What LSF's commands say while mbatchd or LIM do not answer; they try again by themselves and wait."""
_UNCLEAR = ("communication time out", "connection reset", "bad data", "error in receiving")
_NO_JOBS = ("no unfinished job found", "no job found", "no matching job found")
_OURS = (
    "LSB_BJOBS_FORMAT",
    "LSB_BHOSTS_FORMAT",
    "LSB_BQUEUES_FORMAT",
    "LSB_DEFAULTQUEUE",
    "LSB_DEFAULTPROJECT",
)
"""Variables of the caller's that would change what the commands print."""


def tools(section: LsfSection, head: HeadNode) -> BatchTools:
    """The commands, as the section finds them. Raises as `check_run`."""
    environment = {name: value for name, value in os.environ.items() if name not in _OURS}
    environment |= {"LC_ALL": "C", "LSB_NTRIES": "3", "LSB_DISPLAY_YEAR": "Y"}
    prefix: Sequence[str] = ()
    if section.profile is not None:
        instead = "source it in the shell that runs gridwright, without `profile`"
        check_run(head, section.profile, instead, section.owner)
        prefix = ("/bin/sh", "-c", '. "$0" && exec "$@"', str(section.profile))
    return BatchTools(head, "LSF", environment, meaning, prefix)


def meaning(said: str) -> Answered:
    """Whether a message says that mbatchd was not reached, or that it is not clear, or something else."""
    return Answered.of_message(said, unclear=_UNCLEAR, away=_AWAY)


def _says(answer: CommandOutput, texts: Sequence[str] = _NO_JOBS) -> bool:
    """Whether a command printed one of some texts; by default that there are no such jobs."""
    printed = (answer.stdout + answer.stderr).decode(errors="replace").lower()
    return any(each in printed for each in texts)


def _records(
    tools: BatchTools, command: Sequence[str], *, allowed: Callable[[CommandOutput], bool] = lambda _: False
) -> list[dict[str, str]]:
    """The records that a command prints with -o FIELDS -json, by the names of fields in capitals.

    Raises GridwrightError (ENVIRONMENT) where it is no such JSON.
    """
    printed = tools.query(command, allowed=lambda answer: _says(answer) or allowed(answer))
    text = printed.decode("utf-8", errors="replace")
    begin = text.find("{")
    if begin < 0:
        if not text.strip() or any(each in text.lower() for each in _NO_JOBS):
            return []
        raise _unreadable(command, text)
    try:
        # Control characters stand in its strings as they are.
        found = json.JSONDecoder(strict=False).raw_decode(text[begin:])[0]["RECORDS"]
    except (ValueError, KeyError, TypeError) as error:
        raise _unreadable(command, str(error)) from error
    return [
        {str(name): str(value) for name, value in each.items()}
        for each in found
        if isinstance(each, dict) and "ERROR" not in each
    ]


def _unreadable(command: Sequence[str], why: str) -> Exception:
    return environment_error(
        f"what {command[0]} prints cannot be read as JSON: {why.strip()[:200]}",
        remedy=f"run {command[0]} -o FIELDS -json by hand; LSF has it since 10.1 with Fix Pack 2",
    )


def plain_node(text: str) -> str | None:
    """The first host of an allocation: hostA of `hostA:hostA` and of `4*hostA`; None for no host."""
    first = re.sub(r"^\d+\*", "", text.partition(":")[0].strip())
    return None if first in ("", "-") else first


_FIGURES = re.compile(r"^\s*(CPU_T\s.*)\n\s*(\S.*)$", re.MULTILINE)
_DEFAULT_PROJECT = "default"
_MINUTE_S = 60.0
_LONG_S = 120.0


def _read_accounting(tools: BatchTools, since: float, until: float) -> list[JobUsage]:
    """Jobs of all users that ended from `since` to `until`, as far as LSF's current accounting file goes.

    Raises GridwrightError (ENVIRONMENT) where LSF does not answer.
    """
    # bacct takes times to the minute.
    between = ",".join(
        time.strftime("%Y/%m/%d/%H:%M", time.localtime(each)) for each in (since, until + _MINUTE_S)
    )
    printed = tools.query(
        ["bacct", "-u", "all", "-l", "-UF", "-C", between],
        allowed=_says,
        timeout_s=_LONG_S,
    )
    usage = parse_accounting(printed.decode(errors="replace"))
    return [each for each in usage if each.ended is not None and since <= each.ended <= until]


def parse_accounting(text: str) -> Iterator[JobUsage]:
    """The jobs in what `bacct -l -UF` prints: a block for each, with its events and a table of figures."""
    for named, events, block in _job_blocks(text):
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
        from gridwright.schedulers.state_directory import state_directory

        self.open(spec, head).jobs()
        directories = make_batch_directories(state_directory(spec), "lsf")
        with BatchRecord(directories.record) as record:
            own, numbers = list(recorded_usage(record)), set(record.identifiers())
        others = _read_accounting(tools(_section_of(spec), head), since, until)
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
        each["HOST_NAME"]: _node_state(each, largest, free)
        for each in _records(tools, ["bhosts", "-o", "host_name status max njobs", "-json"])
        if each.get("HOST_NAME")
    }
    hosts, limits = _long(tools)
    queues = {}
    for record in _records(tools, ["bqueues", "-o", "queue_name status", "-json"]):
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


def _node_state(each: Mapping[str, str], largest: Mapping[str, str], free: Mapping[str, str]) -> NodeState:
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
        self._section = _section_of(spec)
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
        return _read_queue(self._tools)

    def past(self, requested: Mapping[JobTag, int | None], since: float) -> list[BatchRow]:
        """What bjobs has still, and bhist of the others."""
        rows = [row for row in self.queue() if row.tag in requested and row.state.final]
        known = {row.tag for row in rows}
        left = {tag: number for tag, number in requested.items() if tag not in known}
        return [*rows, *_read_history(self._tools, left)]

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
                allowed=lambda answer: _says(answer, (*_NO_JOBS, *_FINISHED)),
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
