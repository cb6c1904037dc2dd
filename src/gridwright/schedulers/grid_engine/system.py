"""Grid Engine as a batch system: jobs go in with qsub, end with qdel, and are told by qstat and qacct.

qhost and qconf show its queues and nodes.
"""

from __future__ import annotations

import calendar
import csv
import math
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from xml.etree import ElementTree

from gridwright.errors import Problem
from gridwright.node_programs.batch_job.job_file import DOOMED, WHOLE
from gridwright.schedulers.batch.system import (
    BatchCall,
    BatchFacts,
    BatchQueue,
    BatchRow,
    BatchTools,
    Unclear,
    tagged_name,
)
from gridwright.schedulers.grid_engine.commands import parse_answer, section_of, text_of, tools
from gridwright.schedulers.head_node import HeadNode
from gridwright.schedulers.job import JobRequest, JobState, JobTag, NodeState, tag_of
from gridwright.schedulers.job_request import expand_indices, index_ranges
from gridwright.schedulers.usage import JobUsage
from gridwright.spec.model import GridSpec
from gridwright.state_parts import this_user

_FACTORS = {
    "": 1,
    "k": 1000,
    "K": 1024,
    "m": 1000**2,
    "M": 1024**2,
    "g": 1000**3,
    "G": 1024**3,
    "t": 1000**4,
    "T": 1024**4,
}
"""Of sizes (sge_types(1), memory_specifier)."""
_HOSTS = 'for host do qconf -se "$host"; done'
_DOWN = {
    "u": "it does not answer",
    "d": "it is disabled (qmod -d)",
    "D": "its calendar has it disabled",
    "E": "its queue is in error (qmod -c clears that)",
    "c": "its configuration is ambiguous",
    "o": "its queue is no longer configured for it",
    "s": "it is suspended",
    "S": "another queue suspends it",
    "C": "its calendar suspends it",
    "a": "its load is over the threshold of its queue",
    "A": "its load is over the threshold of its queue",
}
"""States of a queue on a node in which it starts no job (qstat(1)), the gravest first."""


@dataclass(frozen=True, slots=True)
class Complex:
    """A resource that jobs can ask for."""

    name: str
    consumable: str
    """NO, YES for each slot, JOB for the whole job."""


def read_complexes(tools: BatchTools) -> dict[str, Complex]:
    """The resources that jobs can ask for, by name and by shortcut. Raises GridwrightError (ENVIRONMENT)."""
    found = {}
    for line in tools.query(["qconf", "-sc"]).decode(errors="replace").splitlines():
        cells = line.split()
        if len(cells) == 8 and not line.startswith("#"):
            found[cells[0]] = found[cells[1]] = Complex(cells[0], cells[5])
    return found


def read_environments(tools: BatchTools) -> list[str]:
    """The names of parallel environments."""
    printed = tools.query(
        ["qconf", "-spl"], allowed=lambda answer: b"no parallel env" in answer.stderr.lower()
    )
    return printed.decode(errors="replace").split()


def read_facts(tools: BatchTools, memory: str, requested: Sequence[str]) -> BatchFacts:
    """Queues and nodes as they are now. Raises GridwrightError (ENVIRONMENT).

    `requested` are queues: the first that exists is the default; `memory` is the complex of memory.
    """
    hosts = parse_answer(tools.query(["qhost", "-q", "-F", "-xml"]), "qhost")
    names = [name for each in hosts.iter("host") if (name := each.get("name", "")) not in ("", "global")]
    totals = _totals(tools, names, memory)
    nodes = {}
    members: dict[str, list[str]] = {}
    working: set[str] = set()
    for host in hosts.iter("host"):
        name = host.get("name", "")
        queues = _queues(host)
        if not queues:
            continue  # A host for administration, which runs no jobs.
        nodes[name] = _node(name, host, queues, memory, totals.get(name))
        for queue, values in queues.items():
            members.setdefault(queue, []).append(name)
            if not _trouble(values.get("state_string", "")):
                working.add(queue)
    limits = _limits(tools)
    found = {
        name: BatchQueue(name=name, up=name in working, nodes=members.get(name, []), longest_s=limit)
        for name, limit in limits.items()
    }
    return BatchFacts(
        queues=found, nodes=nodes, default_queue=next((each for each in requested if each in found), None)
    )


def _totals(tools: BatchTools, names: Sequence[str], memory: str) -> dict[str, int]:
    """Memory of nodes as they were configured with it, in bytes; not of those that were not."""
    if not names:
        return {}
    printed = tools.query(["/bin/sh", "-c", _HOSTS, "hosts", *names]).decode(errors="replace")
    found = {}
    name = ""
    for line in printed.splitlines():
        key, _, rest = line.strip().partition(" ")
        if key == "hostname":
            name = rest.strip()
        elif key == "complex_values":
            values = dict(each.strip().partition("=")[::2] for each in rest.split(","))
            if memory in values:
                found[name] = size(values[memory])
    return found


def _queues(host: ElementTree.Element) -> dict[str, dict[str, str]]:
    """The queues of a node, each with its values."""
    return {
        queue.get("name", ""): {each.get("name", ""): each.text or "" for each in queue.iter("queuevalue")}
        for queue in host.iter("queue")
    }


def _trouble(letters: str) -> str | None:
    """Why a queue starts no job on a node; None where it does."""
    return next((words for letter, words in _DOWN.items() if letter in letters), None)


def _node(
    name: str,
    host: ElementTree.Element,
    queues: Mapping[str, Mapping[str, str]],
    memory: str,
    total: int | None,
) -> NodeState:
    values = {each.get("name", ""): each.text or "" for each in host.iter("resourcevalue")}
    values = {each.get("name", ""): each.text or "" for each in host.iter("hostvalue")} | values
    letters = [queue.get("state_string", "") for queue in queues.values()]
    troubles = [_trouble(letter) for letter in letters]
    used = sum(_count(queue.get("slots_used", "")) for queue in queues.values())
    if "slots" in values:
        free = _count(values["slots"])
        cores = free + used
    else:
        cores = max(_count(queue.get("slots", "")) for queue in queues.values())
        free = max(0, cores - used)
    if total is None:
        total, left = size(values.get("mem_total", "")), size(values.get("mem_free", ""))
    else:
        left = size(values.get(memory, ""))
    up = None in troubles
    return NodeState(
        name=name,
        up=up,
        state="".join(sorted(set("".join(letters)))) or "ok",
        cores=cores,
        memory_bytes=total,
        free_cores=max(0, free),
        free_memory_bytes=max(0, left),
        reason=None if up else troubles[0],
    )


def _limits(tools: BatchTools) -> dict[str, float | None]:
    """All queues, with the longest time that their jobs run: of nodes that differ, the longest of all."""
    printed = tools.query(["qconf", "-sq", "*"], allowed=lambda answer: b"No cluster queue" in answer.stderr)
    found: dict[str, float | None] = {}
    name = ""
    for line in printed.decode(errors="replace").splitlines():
        key, _, rest = line.partition(" ")
        if key == "qname":
            name = rest.strip()
            found[name] = None
        elif key == "h_rt":
            limits = [seconds(each.strip(" []").rpartition("=")[2]) for each in rest.split(",")]
            found[name] = None if None in limits else max(limit for limit in limits if limit is not None)
    return found


def seconds(text: str) -> float | None:
    """A time such as 3600, 24:00:00 or INFINITY, which is None."""
    if not re.fullmatch(r"[0-9:]+", text):
        return None
    total = 0
    for part in text.split(":"):
        total = total * 60 + int(part or 0)
    return float(total)


def size(text: str) -> int:
    """A size such as 2G or 23.541G in bytes; 0 where it is none."""
    match = re.fullmatch(r"([0-9.]+)([kKmMgGtT]?)", text.strip())
    return int(float(match[1]) * _FACTORS[match[2]]) if match else 0


def _count(text: str) -> int:
    match = re.match(r"[0-9.]+", text.strip())
    return int(float(match[0])) if match else 0


NOT_STARTED = "Grid Engine could not start it, and does not try again (state E)"


def _read_queue(tools: BatchTools) -> list[BatchRow]:
    """The jobs of this user and of Gridwright. Raises GridwrightError (ENVIRONMENT)."""
    return list(parse_queue(parse_answer(tools.query(["qstat", "-xml"]), "qstat")))


def parse_queue(root: ElementTree.Element) -> Iterator[BatchRow]:
    """The rows of jobs that are ours, whatever the tree above them."""
    for each in root.iter("job_list"):
        tag = tag_of(text_of(each, "JB_name"))
        number = text_of(each, "JB_job_number")
        if tag is None or not number.isdigit():
            continue
        letters = text_of(each, "state")
        queue, _, node = text_of(each, "queue_name").partition("@")
        tasks = text_of(each, "tasks")
        state, reason = _state_of(letters)
        yield BatchRow(
            number=int(number),
            tag=tag,
            positions=expand_indices(tasks) if tasks else (WHOLE,),
            state=state,
            reason=reason,
            node=node or None,
            queue=queue or None,
            started=moment(text_of(each, "JAT_start_time")),
            leaving="d" in letters,
        )


def _state_of(letters: str) -> tuple[JobState, str | None]:
    """Our state for the letters of qstat(1), and what they say of a job that waits."""
    if "E" in letters:
        return JobState.WAITING, NOT_STARTED
    if "d" in letters and "r" not in letters and "t" not in letters:
        return JobState.WAITING, "it is being deleted"
    if any(each in letters for each in "rtR") and "q" not in letters:
        return JobState.RUNNING, "it is being deleted" if "d" in letters else None
    if any(each in letters for each in "sST"):
        return JobState.RUNNING, "it is suspended"
    if "h" in letters:
        return JobState.WAITING, "it is held: for jobs that it waits for, or by an order (qhold)"
    return JobState.WAITING, None


def moment(text: str) -> float | None:
    """Seconds since 1970 of a time of qstat, in UTC."""
    try:
        return float(calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%S")))
    except ValueError:
        return None


def read_messages(tools: BatchTools, number: int) -> str | None:
    """Why a job waits, as sge_qmaster tells it; None where it does not."""
    printed = tools.query(["qstat", "-j", str(number), "-xml"])
    try:
        root = parse_answer(printed, "qstat")
    except Exception:
        return None
    found = [text_of(each, "MES_message") for each in root.iter("element")]
    found += [text_of(each, "QIM_message") for each in root.iter("element")]
    return "; ".join(dict.fromkeys(each for each in found if each)) or None


EXCLUSIVE = "exclusive"
"""The complex with which a job has a node for itself, by its usual name (complex(5), EXCL)."""
_MAIL = {"begin": "b", "end": "e", "fail": "a"}
_AT_ONCE = 200


class GridEngine:
    """One Grid Engine; see BatchSystem."""

    name = "Grid Engine"
    number_variable = "JOB_ID"
    position_variable = "SGE_TASK_ID"
    kept_prefixes: Sequence[str] = ("SGE_", "JOB_ID", "NSLOTS", "NHOSTS", "PE_HOSTFILE", "QUEUE", "TMPDIR")
    limits_memory = False
    forgets_after_s = 60.0
    """Its accounting is flushed within 15 s by default (sge_conf(5), accounting_flush_time)."""

    def __init__(self, spec: GridSpec, head: HeadNode) -> None:
        self._section = section_of(spec)
        self._tools = tools(self._section, head)

    @cached_property
    def _complexes(self) -> Mapping[str, Complex]:
        return read_complexes(self._tools)

    @cached_property
    def _environments(self) -> Sequence[str]:
        return read_environments(self._tools)

    def facts(self) -> BatchFacts:
        """Its queues and nodes."""
        section = self._section
        requested = [section.queue] if section.queue else list(section.queues)[:1]
        return read_facts(self._tools, section.memory, requested)

    def request_problems(self, request: JobRequest) -> list[Problem]:
        """What it lacks for a request."""
        found = []
        section, options = self._section, request.options
        if request.cores > 1 and section.parallel_environment not in self._environments:
            what = (
                f"{request.cores} cores need a parallel environment, and Grid Engine has none named "
                f"{section.parallel_environment}"
            )
            found.append(
                Problem(what, remedy="name another with parallel_environment in the spec (qconf -spl)")
            )
        if section.memory not in self._complexes:
            what = f"Grid Engine has no complex {section.memory}"
            found.append(Problem(what, remedy="name another with memory in the spec (qconf -sc)"))
        if request.exclusive and EXCLUSIVE not in self._complexes:
            what = f"Grid Engine has no complex {EXCLUSIVE}, with which a job has a node for itself"
            found.append(Problem(what, remedy="have it added (qconf -mc), or submit without --exclusive"))
        for licence in (*options.licences, *options.gres):
            name = licence.partition(":")[0]
            if name not in self._complexes:
                what = f"Grid Engine has no complex {name}"
                found.append(Problem(what, remedy="name one of qconf -sc, or have it added (qconf -mc)"))
        if options.constraint is not None and not re.fullmatch(r"[!-~]+", options.constraint):
            what = "its constraint is no list of resources"
            found.append(Problem(what, remedy="write one, such as arch=lx-amd64,mem_free=4G"))
        return found

    def submit(self, call: BatchCall) -> int:
        """Submit one job with qsub; its number."""
        printed = self._tools.hand_in(self.command(call)).stdout.decode(errors="replace")
        match = re.match(r"(\d+)(?:\.\S+)?\s*$", printed.strip().rpartition("\n")[2])
        if match is None:
            raise Unclear(f"qsub printed no number of a job: {printed.strip()[:200]}")
        return int(match[1])

    def command(self, call: BatchCall) -> list[str]:
        """The call of qsub. -clear leaves out what files of defaults would add."""
        request, section, options = call.request, self._section, call.request.options
        command = ["qsub", "-clear", "-terse", "-N", tagged_name(request.label, call.tag)]
        command += ["-o", "/dev/null", "-j", "y", "-wd", "/", "-b", "y", "-shell", "no"]
        command += ["-r", "y" if request.restart else "n"]
        if request.cores > 1:
            command += ["-pe", section.parallel_environment, str(request.cores)]
        if resources := self._resources(call):
            command += ["-l", ",".join(resources)]
        if request.queue:
            command += ["-q", request.queue]
        if call.elements is not None:
            command += ["-t", f"1-{call.elements}"]
        for option, numbers in (
            ("-hold_jid", [each.number for each in call.after if not each.each]),
            ("-hold_jid_ad", [each.number for each in call.after if each.each]),
        ):
            if numbers:
                command += [option, ",".join(map(str, dict.fromkeys(numbers)))]
        if section.project:
            command += ["-P", section.project]
        if options.account:
            command += ["-A", options.account]
        if options.reservation:
            command += ["-ar", options.reservation]
        if options.begin is not None:
            command += ["-a", time.strftime("%Y%m%d%H%M.%S", time.gmtime(math.ceil(options.begin)))]
        if options.nice:
            command += ["-p", str(max(-1023, min(1024, -options.nice)))]
        if options.mail:
            events = "".join(_MAIL[each] for each in options.mail_on if each in _MAIL)
            command += ["-M", options.mail, "-m", events or "n"]
        return [*command, *call.program]

    def _resources(self, call: BatchCall) -> list[str]:
        request, memory = call.request, self._section.memory
        found = []
        if call.memory_bytes is not None:
            # A limit, and a consumable of slots, is that of one slot.
            share = request.cores if self._complexes[memory].consumable != "JOB" else 1
            found.append(f"{memory}={math.ceil(int(call.memory_bytes) / share)}")
        if request.time_limit_s is not None:
            found.append(f"h_rt={max(1, math.ceil(request.time_limit_s))}")
        if request.node is not None:
            found.append(f"hostname={request.node}")
        if request.exclusive:
            found.append(f"{EXCLUSIVE}=true")
        for licence in (*request.options.licences, *request.options.gres):
            name, _, count = licence.partition(":")
            found.append(f"{name}={count.rpartition(':')[2] or 1}")
        if request.options.constraint:
            found.append(request.options.constraint)
        return found

    def queue(self) -> list[BatchRow]:
        """The jobs of this user and of Gridwright that wait or run."""
        return _read_queue(self._tools)

    def past(self, requested: Mapping[JobTag, int | None], since: float) -> list[BatchRow]:
        """What qacct has of these jobs."""
        return past(self._tools, requested, since)

    def cancel(self, targets: Collection[tuple[int, Sequence[int] | None]]) -> None:
        """End jobs with qdel."""
        names = []
        for number, positions in targets:
            if positions is None:
                names.append(str(number))
            else:
                names += [f"{number}.{index_range}" for index_range in index_ranges(positions)]
        for first in range(0, len(names), _AT_ONCE):
            # It fails where one of the jobs has ended meanwhile, and goes on with the others.
            self._tools.query(
                ["qdel", *names[first : first + _AT_ONCE]],
                allowed=lambda answer: (
                    b"denied:" in answer.stdout + answer.stderr
                    or b"does not exist" in answer.stdout + answer.stderr
                ),
            )

    def why_waits(self, number: int) -> str | None:
        """What the scheduler of Grid Engine says of a job that waits."""
        return read_messages(self._tools, number)


_RESCHEDULED = frozenset({24, 25, 30})
"""Runs after which the job runs again (sge_status(5)): migrating, rescheduling, on application error."""
_SINGLY = 20
"""So many jobs are asked for one by one; of more, all that began since the first of them come first."""
_SKEW_S = 3600.0
"""Clocks of the head node and of this machine may differ by so much."""
_NO_ACCOUNT = "sge"
"""What jobs without an account have (qsub(1), -A)."""
_NONE = ("no jobs running since startup", "not found", "no such file", "no total system usage")


def _since(moment: float) -> list[str]:
    return ["-b", time.strftime("%Y%m%d%H%M", time.gmtime(max(0.0, moment - _SKEW_S))), "-j"]


def read_accounts(tools: BatchTools, chosen: Sequence[str]) -> list[dict[str, str]]:
    """What qacct tells of chosen jobs, each by its fields. Raises GridwrightError (ENVIRONMENT)."""
    printed = tools.query(
        ["qacct", *chosen],
        allowed=lambda answer: any(each in answer.stderr.decode(errors="replace").lower() for each in _NONE),
    )
    return list(parse_accounts(printed.decode(errors="replace")))


def parse_accounts(text: str) -> Iterator[dict[str, str]]:
    """The jobs in what `qacct -j` prints: one a block, a field a line."""
    for block in re.split(r"^=+\n", text, flags=re.MULTILINE):
        lines = (line.split(None, 1) for line in block.splitlines())
        fields = {parts[0]: parts[1].strip() if len(parts) > 1 else "" for parts in lines if parts}
        if fields.get("jobnumber", "").isdigit():
            yield fields


def past(tools: BatchTools, requested: Mapping[JobTag, int | None], since: float) -> list[BatchRow]:
    """How jobs ended that are in the accounting. Raises GridwrightError (ENVIRONMENT).

    A job whose node was lost has no time of its begin there, and is found by its name alone.
    """
    rows: list[BatchRow] = []
    if len(requested) > _SINGLY:
        rows += _rows(read_accounts(tools, _since(since)))
    known = {row.tag for row in rows}
    for tag in requested:
        if tag not in known:
            rows += _rows(read_accounts(tools, ["-j", f"*~{tag}"]))
    return [row for row in rows if row.tag in requested]


def _rows(accounts: Sequence[Mapping[str, str]]) -> list[BatchRow]:
    return [row for account in accounts if (row := row_of(account)) is not None]


def row_of(fields: Mapping[str, str]) -> BatchRow | None:
    """How a job of this user ended; None where it is not ours, or runs again."""
    tag, code = tag_of(fields.get("jobname", "")), _whole(fields.get("failed", ""))
    # qacct finds jobs by their names, of all users: any of them may have given a job our name.
    if tag is None or code in _RESCHEDULED or fields.get("owner") != this_user():
        return None
    task = fields.get("taskid", "")
    state, sentence, status, signal = ended(fields)
    return BatchRow(
        number=int(fields["jobnumber"]),
        tag=tag,
        positions=(int(task) if task.isdigit() else WHOLE,),
        state=state,
        exit_status=status,
        signal=signal,
        reason=sentence or None,
        node=fields.get("hostname") or None,
        queue=fields.get("qname") or None,
        started=_moment(fields.get("start_time", "")),
        ended=_moment(fields.get("end_time", "")),
        most_bytes=int(_number(fields.get("maxvmem", ""))),
    )


def ended(fields: Mapping[str, str]) -> tuple[JobState, str, int | None, int | None]:
    """State, why, exit status and signal of a job in the accounting."""
    code, status = _whole(fields.get("failed", "")), _whole(fields.get("exit_status", ""))
    if code in (0, 100):
        if status > 128:
            killed = "it was killed with all its processes: deleted with qdel, or on its node"
            return JobState.FAILED, killed, None, status - 128
        state = JobState.COMPLETED if status == 0 else JobState.FAILED
        return state, "", status, None
    state, sentence = _failures().get(code, (JobState.FAILED, f"Grid Engine says: {fields['failed']}"))
    return state, sentence, None, None


@cache
def _failures() -> dict[int, tuple[JobState, str]]:
    with (Path(__file__).parent / "data" / "failures.csv").open(newline="", encoding="utf-8") as file:
        return {int(row["code"]): (JobState(row["state"]), row["sentence"]) for row in csv.DictReader(file)}


def used(tools: BatchTools, since: float, until: float) -> list[JobUsage]:
    """What jobs used that ended within a time. Raises GridwrightError (ENVIRONMENT).

    qacct chooses by the begin of jobs, so those that ran for more than 30 days are not seen.
    """
    found = []
    for fields in read_accounts(tools, _since(since - 30 * 86_400.0)):
        moment = _moment(fields.get("end_time", ""))
        if moment is None or not since <= moment <= until:
            continue
        if _whole(fields.get("failed", "")) not in _RESCHEDULED:
            found.append(_usage(fields, moment))
    return found


def _usage(fields: Mapping[str, str], ended_at: float) -> JobUsage:
    task, name = fields.get("taskid", ""), fields.get("jobname", "")
    project, account = fields.get("project", "NONE"), fields.get("account", _NO_ACCOUNT)
    ours = tag_of(name) is not None
    doomed = ours and fields.get("exit_status") == str(DOOMED)
    return JobUsage(
        id=fields["jobnumber"] + (f"_{task}" if task.isdigit() else ""),
        name=name.rpartition("~")[0] if ours else name,
        state=JobState.CANCELLED if doomed else ended(fields)[0],
        user=fields.get("owner"),
        account=account if account != _NO_ACCOUNT else None if project == "NONE" else project,
        queue=fields.get("qname"),
        node=fields.get("hostname"),
        cores=_whole(fields.get("slots", "1")) or 1,
        submitted=_moment(fields.get("qsub_time", "")),
        started=None if doomed else _moment(fields.get("start_time", "")),
        ended=ended_at,
        cpu_s=_number(fields.get("cpu", "")),
        memory_peak_bytes=int(_number(fields.get("maxvmem", ""))) or None,
    )


def _whole(text: str) -> int:
    match = re.match(r"\d+", text)
    return int(match[0]) if match else 0


def _number(text: str) -> float:
    """A figure of qacct with its unit: 3.387MB, 0.011s, 15.729KB."""
    match = re.match(r"([0-9.]+(?:e[+-]?\d+)?)\s*([KMGT]?)", text)
    return float(match[1]) * _FACTORS[match[2]] if match else 0.0


def _moment(text: str) -> float | None:
    """Seconds since 1970 of a time of qacct in UTC; None where there was none."""
    try:
        seconds = float(calendar.timegm(time.strptime(text, "%a %b %d %H:%M:%S %Y")))
    except ValueError:
        return None
    return seconds or None
