"""Reads the accounting of a scheduler: jobs of Slurm (sacct) and LSF (lsb.acct, bacct) as launches.

Launches lie in the fewest streams in which none runs beside another.

sacct does not escape what it prints: a name can hold the separator, and a submit line even line breaks.
Such a record is put together again where only one way of doing so gives each field a value that fits it.
`sacct --json`, of 21.08 and later, spells numbers and states differently in each release.

`lsb.acct` has one line for each event, its fields as `lsb.acct(5)` has them:

    "JOB_FINISH" "10.1" 1527327585 7610 1000 33554438 1 1527326745 0 0 1527326746 "user" "queue" ...

Fields are numbers, and texts in quotes in which a quote is doubled. `bacct -l` has a paragraph for each job,
wrapped at 80 columns, its dates mostly without a year.
"""

from __future__ import annotations

import datetime
import heapq
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from typing import Any

from gridwright.handed_files import parsed_json
from gridwright.runs.launch_record import LaunchRecord
from gridwright.schedulers.usage import parse_elapsed, parse_size, parse_time, parse_usage

_ELEMENT = re.compile(r"\[[\d,:%-]*\]$")
_LONGEST_NAME = 80
_MOST = 1e18
"""No time in seconds, and no size in bytes, is as large; NaN is no figure either."""


@dataclass(slots=True)
class AccountedJob:
    """What accounting tells of a job that has ended; what it does not tell is None.

    Times in Unix time, durations in seconds. `cores` are those it was given, on all its nodes.
    """

    id: str
    name: str
    node: str
    ok: bool
    reason: str | None = None
    cores: int = 1
    submitted: float | None = None
    started: float | None = None
    ended: float | None = None
    real_s: float | None = None
    user_s: float | None = None
    """All CPU time, where user and system are not told apart."""
    system_s: float | None = None
    peak_memory_bytes: int | None = None
    read_bytes: int | None = None
    written_bytes: int | None = None
    """As its processes asked for them, cached or not."""
    device_read_bytes: int | None = None
    device_written_bytes: int | None = None
    """As the block layer counted them."""
    restarts: int = 0

    def __post_init__(self) -> None:
        """Raises ValueError for a figure that no job has: a file may hold any."""
        for name in self.__slots__:
            value = getattr(self, name)
            if isinstance(value, (int, float)) and not -_MOST <= value <= _MOST:
                raise ValueError(f"{name} is no such figure")

    def launch(self, number: int, log: str) -> LaunchRecord:
        """The launch; all elements of a job array have one name."""
        cpu_s = None if self.user_s is None else self.user_s + (self.system_s or 0.0)
        return LaunchRecord(
            number=number,
            test=job_name(self.name) or self.id,
            class_="command",
            stream=1,
            node=self.node,
            cores=max(1, self.cores),
            started=self.started,
            ended=self.ended,
            real_s=self.real_s,
            user_s=self.user_s,
            system_s=self.system_s,
            peak_memory_bytes=self.peak_memory_bytes,
            read_bytes=self.read_bytes,
            written_bytes=self.written_bytes,
            device_read_bytes=self.device_read_bytes,
            device_written_bytes=self.device_written_bytes,
            cpu_real_ratio=cpu_s / self.real_s if cpu_s is not None and self.real_s else None,
            ok=self.ok,
            reason=self.reason,
            log=log,
            job=self.id,
            submitted=self.submitted,
            restarts=self.restarts,
        )


@dataclass(slots=True)
class Accounts:
    """All jobs of one file, and those that are no launches."""

    jobs: list[AccountedJob] = field(default_factory=list)
    unfinished: int = 0
    """Pending, running, or ended before they began."""
    unreadable: list[int] = field(default_factory=list)
    """Lines that hold no record that can be read, from 1."""

    def add(self, number: int, read: Callable[[], AccountedJob | None]) -> None:
        """Read a job and take it; None is one that is no launch. `number` is where it stands."""
        try:
            job = read()
        except (AttributeError, TypeError, LookupError, ValueError, ArithmeticError):
            self.unreadable.append(number)
            return
        if job is None:
            self.unfinished += 1
        else:
            self.jobs.append(job)


def job_name(name: str) -> str:
    """A job's name in one line, without the indices of its array."""
    plain = "".join(letter if letter.isprintable() else " " for letter in _ELEMENT.sub("", name))
    return " ".join(plain.split())[:_LONGEST_NAME]


def _command_name(command: str) -> str:
    """The name of a job that has none: that of its program, which options of LSF may stand before."""
    parts = (part.split() for part in command.split(";"))
    return next((words[0].rsplit("/", 1)[-1] for words in parts if words and words[0][0] != "#"), "")


_STAMP_RESOLUTION_S = 1.0


def assign_streams(launches: Sequence[LaunchRecord]) -> list[LaunchRecord]:
    """Give each launch a stream, the first that is free; keep their order.

    Logs and schedulers write times in whole seconds, so less than a second in common does not count. A
    launch without times goes to stream 1.
    """
    spans = [
        (launch.started, launch.ended, index)
        for index, launch in enumerate(launches)
        if launch.started is not None and launch.ended is not None
    ]
    streams = [1] * len(launches)
    busy: list[tuple[float, int]] = []
    free: list[int] = []
    for started, ended, index in sorted(spans):
        while busy and busy[0][0] <= started:
            heapq.heappush(free, heapq.heappop(busy)[1])
        stream = heapq.heappop(free) if free else len(busy) + 1
        heapq.heappush(busy, (ended - _STAMP_RESOLUTION_S, stream))
        streams[index] = stream
    return [replace(launch, stream=stream) for launch, stream in zip(launches, streams, strict=True)]


_ENDED_WELL = "COMPLETED"
_UNFINISHED = frozenset(
    {
        "PENDING",
        "RUNNING",
        "SUSPENDED",
        "CONFIGURING",
        "COMPLETING",
        "RESIZING",
        "REQUEUE_HOLD",
        "SPECIAL_EXIT",
    }
)
_STATES = _UNFINISHED | {
    *(_ENDED_WELL, "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "PREEMPTED"),
    *("REQUEUED", "BOOT_FAIL", "DEADLINE", "REVOKED", "LAUNCH_FAILED", "STOPPED", "SIGNALING"),
    *("STAGE_OUT", "RECONFIG_FAIL"),
}


def _state_of(text: str) -> str | None:
    """The first word of `CANCELLED by 0`; None if Slurm has no such state."""
    word = text.split(" ", 1)[0].rstrip("+").upper()
    return word if word in _STATES else None


def _has_ended(state: str) -> bool:
    """Whether a job in this state does not go on."""
    return state not in _UNFINISHED


def _reason_of(state: str, text: str, exit_status: int, signal: int) -> str | None:
    """Why a job failed, in one line; None if it did not."""
    if state == _ENDED_WELL:
        return None
    words = " ".join(text.split()) or state
    if exit_status:
        return f"{words}: exit status {exit_status}"
    return f"{words}: signal {signal}" if signal else words


SACCT_FORMAT = (
    "JobID,JobName,Submit,Start,End,ElapsedRaw,State,ExitCode,NodeList,AllocCPUS,UserCPU,SystemCPU,MaxRSS,"
    "NTasks,TRESUsageInTot,TRESUsageOutTot"
)
"""What to ask sacct for."""

_FREE_TEXT = ("JobName", "SubmitLine", "Comment", "AdminComment", "WorkDir")
_ID = re.compile(r"\d+(?:_\d+|_\[[\d,%-]+\]|\+\d+)?(?:\.\w+)?")
_END = "end of the line"
_MOST_SEPARATORS = 50
"""In the texts of a record: to try all ways to part them takes the square of their number."""
_MOST_LINES = 200
"""Lines of one record: a submit line can hold a whole script."""
_SHAPES = {
    "JobID": _ID,
    "JobIDRaw": _ID,
    "ExitCode": re.compile(r"\d+:\d+|"),
    "ElapsedRaw": re.compile(r"\d+|"),
    "Elapsed": re.compile(r"(?:\d+-)?\d+:\d\d:\d\d|"),
    "AllocCPUS": re.compile(r"\d+|"),
    "State": re.compile(r"[A-Z_+]+(?: by \d+)?"),
    "NTasks": re.compile(r"\d+|"),
    _END: re.compile(_END),
}


def read_sacct_rows(lines: Iterable[str]) -> Accounts:
    """Read what sacct printed, its header first. Raises ValueError that says which fields are lacking."""
    iterator = iter(lines)
    header = _columns(next(iterator, ""))
    accounts = Accounts()
    job: _Job | None = None
    for number, row in _rows(iterator, header, accounts):
        base, _, step = row["JobID"].partition(".")
        if step and job is not None and job.id == base:
            job.steps.append(row)
            continue
        if job is not None:
            accounts.add(job.number, job.finished)
        # A step whose job could not be read is none of its own.
        job = None if step else _Job(number, base, row, [])
    if job is not None:
        accounts.add(job.number, job.finished)
    return accounts


def _columns(header: str) -> list[str]:
    names = header.rstrip("\r\n").split("|")
    lacking = [
        wanted
        for wanted, ways in {
            "JobID": ("JobID",),
            "State": ("State",),
            "ElapsedRaw": ("ElapsedRaw", "Elapsed"),
        }.items()
        if not any(way in names for way in ways)
    ]
    if lacking:
        raise ValueError(", ".join(lacking))
    # --parsable ends each line with a separator.
    return names if names[-1] else [*names[:-1], _END]


def _rows(
    lines: Iterator[str], columns: Sequence[str], accounts: Accounts
) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield records with their first lines; the lines of those that cannot be read are noted."""
    pending, begun, held = "", 0, 0
    for number, line in enumerate(lines, start=2):
        if pending and _row(line, columns) is not None:
            # This line is a record of its own, so what was held is none.
            accounts.unreadable.append(begun)
            pending, held = "", 0
        if not pending:
            begun = number
        pending, held = pending + line, held + 1
        if not pending.strip():
            pending, held = "", 0
            continue
        if pending.count("|") < len(columns) - 1 and held < _MOST_LINES:
            continue
        if (row := _row(pending, columns)) is not None:
            yield begun, row
            pending, held = "", 0
        elif held >= _MOST_LINES:
            accounts.unreadable.append(begun)
            pending, held = "", 0
    if pending.strip():
        accounts.unreadable.append(begun)


def _row(text: str, columns: Sequence[str]) -> Mapping[str, str] | None:
    """The fields of a record by name; None where they cannot be told apart."""
    parts = text.rstrip("\r\n").split("|")
    if columns[-1] == _END and not parts[-1]:
        parts[-1] = _END
    extra = len(parts) - len(columns)
    if not 0 <= extra <= _MOST_SEPARATORS:
        return None
    free = [index for index, name in enumerate(columns) if name in _FREE_TEXT]
    found = [row for row in _joined(parts, columns, free, extra) if _fits(row)]
    return found[0] if len(found) == 1 else None


def _joined(
    parts: Sequence[str], columns: Sequence[str], free: Sequence[int], extra: int
) -> Iterator[Mapping[str, str]]:
    """All ways to give the separators that are too many to one or two of the fields of free text."""
    if extra == 0:
        yield dict(zip(columns, parts, strict=True))
        return
    alone = [{index: extra} for index in free]
    shared = [{a: part, b: extra - part} for a, b in combinations(free, 2) for part in range(1, extra)]
    for more in (*alone, *shared):
        rest, row = list(parts), {}
        for index, name in enumerate(columns):
            number = more.get(index, 0) + 1
            row[name] = "|".join(rest[:number])
            del rest[:number]
        yield row


def _fits(row: Mapping[str, str]) -> bool:
    shapes = (shape.fullmatch(row[name]) for name, shape in _SHAPES.items() if name in row)
    return all(shapes) and _state_of(row["State"]) is not None


@dataclass(slots=True)
class _Job:
    """The row of a job, and those of its steps."""

    number: int
    """The line on which it begins."""
    id: str
    row: Mapping[str, str]
    steps: list[Mapping[str, str]]

    def finished(self) -> AccountedJob | None:
        """The job; None if it has not run to an end."""
        state = _state_of(self.row["State"]) or ""
        started, ended = parse_time(self.row.get("Start", "")), parse_time(self.row.get("End", ""))
        real_s = _seconds(self.row)
        never_began = state != _ENDED_WELL and not real_s and (started is None or "Start" not in self.row)
        if not _has_ended(state) or never_began:
            return None
        exit_status, _, signal = self.row.get("ExitCode", "").partition(":")
        user_s, system_s = self._cpu()
        return AccountedJob(
            id=self.id,
            name=self.row.get("JobName", ""),
            node=_node(self.row.get("NodeList", "")),
            ok=state == _ENDED_WELL,
            reason=_reason_of(state, self.row["State"], int(exit_status or 0), int(signal or 0)),
            cores=int(self.row.get("AllocCPUS") or 1),
            submitted=parse_time(self.row.get("Submit", "")),
            started=started,
            ended=ended,
            real_s=real_s,
            user_s=user_s,
            system_s=system_s,
            peak_memory_bytes=max((size for size in map(_memory, self.steps) if size), default=None),
            read_bytes=self._moved("TRESUsageInTot", "Read"),
            written_bytes=self._moved("TRESUsageOutTot", "Write"),
        )

    def _cpu(self) -> tuple[float | None, float | None]:
        """User and system time; where sacct has but their sum, it stands under user."""
        if "UserCPU" in self.row and "SystemCPU" in self.row:
            return parse_elapsed(self.row["UserCPU"]), parse_elapsed(self.row["SystemCPU"])
        return parse_elapsed(self.row.get("TotalCPU", "")), None

    def _moved(self, usage: str, kind: str) -> int | None:
        """Bytes that the tasks of all steps moved; None where no step tells."""
        told = [_moved(step, usage, kind) for step in self.steps]
        known = [size for size in told if size is not None]
        return sum(known) if known else None


def _seconds(row: Mapping[str, str]) -> float | None:
    raw = row.get("ElapsedRaw", "")
    return float(raw) if raw.isdigit() else parse_elapsed(row.get("Elapsed", ""))


def _node(nodes: str) -> str:
    return "" if nodes in {"None assigned", "Unknown"} else nodes


def _memory(step: Mapping[str, str]) -> int | None:
    """The most memory of a step: all its tasks together where that is told, else its largest task."""
    return parse_usage(step.get("TRESUsageInTot", "")).get("mem") or parse_size(step.get("MaxRSS", ""))


def _moved(step: Mapping[str, str], usage: str, kind: str) -> int | None:
    total = parse_usage(step.get(usage, "")).get("fs/disk")
    if total is not None:
        return total
    mean, tasks = parse_size(step.get(f"AveDisk{kind}", "")), step.get("NTasks", "")
    if mean is not None and tasks.isdigit():
        return mean * int(tasks)
    return parse_size(step.get(f"MaxDisk{kind}", ""))


Document = Mapping[str, Any]


def read_sacct_json(content: bytes) -> Accounts:
    """Read the document. Raises ValueError that says what is wrong with it."""
    document = parsed_json(content)
    jobs = document.get("jobs") if isinstance(document, dict) else None
    if not isinstance(jobs, list):
        raise ValueError("it has no list of jobs")
    accounts = Accounts()
    for number, job in enumerate(jobs, start=1):
        accounts.add(number, partial(_json_job, job))
    return accounts


def _json_job(job: Document) -> AccountedJob | None:
    """One job; None if it has not run to an end."""
    word = _word(job["state"]["current"])
    state, times = _state_of(word), job["time"]
    if state is None:
        raise ValueError(word)
    started, ended, real_s = _instant(times["start"]), _instant(times["end"]), _number(times["elapsed"])
    if not _has_ended(state) or (started is None and state != _ENDED_WELL):
        return None
    steps = job.get("steps") or []
    user_s, system_s = _cpu(job, steps, "user"), _cpu(job, steps, "system")
    exit_status, signal = _exit(job, steps)
    return AccountedJob(
        id=_id(job),
        name=str(job.get("name") or ""),
        node=_nodes(job.get("nodes")),
        ok=state == _ENDED_WELL,
        reason=_reason_of(state, word, exit_status, signal),
        cores=_count(job.get("tres", {}).get("allocated"), "cpu") or 1,
        submitted=_instant(times.get("submission")),
        started=started,
        ended=ended,
        real_s=real_s,
        user_s=user_s,
        system_s=system_s,
        peak_memory_bytes=max((_usage(step, "requested", "mem") or 0 for step in steps), default=0) or None,
        read_bytes=_json_moved(steps, "requested"),
        written_bytes=_json_moved(steps, "consumed"),
        restarts=int(_number(job.get("restart_cnt")) or 0),
    )


def _id(job: Document) -> str:
    array = job.get("array") or {}
    whole, element = _number(array.get("job_id")), _number(array.get("task_id"))
    # Slurm has 0 where there is no array, and null or "not set" where there is no element.
    if whole and element is not None:
        return f"{int(whole)}_{int(element)}"
    return str(job["job_id"])


def _number(value: object) -> float | None:
    """A number, which since Slurm 23.02 is `{"set": true, "infinite": false, "number": 3}`."""
    if isinstance(value, Mapping):
        value = value.get("number") if value.get("set", True) and not value.get("infinite") else None
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _instant(value: object) -> float | None:
    return _number(value) or None


def _word(value: object) -> str:
    """A state, which since Slurm 23.11 is a list of flags."""
    if isinstance(value, list):
        return str(value[0]) if value else ""
    return str(value)


def _nodes(value: object) -> str:
    return "" if value in (None, "None assigned", "Unknown") else str(value)


def _cpu(job: Document, steps: Iterable[Document], kind: str) -> float | None:
    """CPU seconds of all steps: those of the job itself are zeros in some releases."""
    told = [each for each in (_json_seconds(step["time"].get(kind)) for step in steps) if each is not None]
    return round(sum(told), 6) if told else _json_seconds(job["time"].get(kind))


def _json_seconds(value: object) -> float | None:
    if not isinstance(value, Mapping):
        return _number(value)
    whole, part = _number(value.get("seconds")), _number(value.get("microseconds"))
    return None if whole is None else whole + (part or 0.0) / 1e6


def _exit(job: Document, steps: Iterable[Document]) -> tuple[int, int]:
    """Exit status and signal: those of the job, or else of the first step that has one."""
    for each in (job, *steps):
        code = each.get("exit_code") or {}
        status = int(_number(code.get("return_code")) or 0)
        signal = code.get("signal") or {}
        number = int(_number(signal.get("id", signal.get("signal_id"))) or 0)
        if status or number:
            return status, number
    return 0, 0


def _count(items: object, kind: str, name: str | None = None) -> int | None:
    """How much of a resource a list tells."""
    for item in items if isinstance(items, list) else []:
        if item.get("type") == kind and (name is None or item.get("name") == name):
            number = _number(item.get("count"))
            return None if number is None else int(number)
    return None


def _usage(step: Document, direction: str, kind: str, name: str | None = None) -> int | None:
    tres = step.get("tres") or {}
    return _count((tres.get(direction) or {}).get("total"), kind, name)


def _json_moved(steps: Iterable[Document], direction: str) -> int | None:
    """Bytes that all steps read (`requested`, as Slurm names it) or wrote (`consumed`)."""
    told = [_usage(step, direction, "fs", "disk") for step in steps]
    known = [size for size in told if size is not None]
    return sum(known) if known else None


_FIELD = re.compile(r'"((?:[^"]|"")*)"|(\S+)')
_DONE, _EXIT = 64, 32
_BLOCK_BYTES = 512
"""What ru_inblock and ru_oublock count on Linux (getrusage(2))."""
_KIB = 1024
_BEFORE_HOSTS = 22
"""The field that tells how many hosts were asked for; two lists of hosts follow."""
_RUSAGE = 19


def read_lsb_acct(lines: Iterable[str]) -> Accounts:
    """Read the jobs that finished; other events are passed over."""
    accounts = Accounts()
    for number, line in enumerate(lines, start=1):
        if line.startswith('"JOB_FINISH"'):
            accounts.add(number, partial(_event_job, line))
    return accounts


@dataclass(slots=True)
class _Event:
    """The fields of one event, read one after the other."""

    fields: Sequence[str]
    at: int

    def text(self) -> str:
        self.at += 1
        return self.fields[self.at - 1]

    def number(self) -> float:
        return float(self.text())

    def texts(self) -> list[str]:
        return [self.text() for _ in range(int(self.number()))]


def _event_job(line: str) -> AccountedJob | None:
    """One job; None if it ended before it began. Raises ValueError and IndexError if it is damaged."""
    fields = [
        found[2] if found[2] is not None else found[1].replace('""', '"') for found in _FIELD.finditer(line)
    ]
    ended, job_id, cores = float(fields[2]), int(fields[3]), int(fields[6])
    submitted, started = float(fields[7]), float(fields[10])
    event = _Event(fields, _BEFORE_HOSTS)
    event.texts()
    hosts = event.texts()
    state, _ = int(event.number()), event.number()
    name, command = event.text(), event.text()
    usage = [event.number() for _ in range(_RUSAGE)]
    event.text(), event.text()
    exit_status, _ = int(event.number()), event.number()
    event.text(), event.text()
    element, most_kib = int(event.number()), event.number()
    if not started or state not in (_DONE, _EXIT):
        return None
    return AccountedJob(
        id=f"{job_id}[{element}]" if element else str(job_id),
        name=name or _command_name(command),
        node=",".join(dict.fromkeys(host.rpartition("*")[2] for host in hosts)),
        ok=state == _DONE,
        reason=_reason(state, exit_status),
        cores=cores,
        submitted=submitted,
        started=started,
        ended=ended,
        real_s=ended - started,
        user_s=_known(usage[0]),
        system_s=_known(usage[1]),
        peak_memory_bytes=_bytes(most_kib, _KIB),
        device_read_bytes=_bytes(usage[10], _BLOCK_BYTES),
        device_written_bytes=_bytes(usage[11], _BLOCK_BYTES),
    )


def _reason(state: int, exit_status: int) -> str | None:
    if state == _DONE:
        return None
    code, signal = exit_status >> 8, exit_status & 0x7F
    return f"EXIT: signal {signal}" if signal else f"EXIT: exit status {code}"


def _known(value: float) -> float | None:
    """LSF has -1 for what it does not know."""
    return None if value < 0 else value


def _bytes(value: float, unit: int) -> int | None:
    """A size; zero, too, is what LSF has where it did not look."""
    return round(value * unit) if value > 0 else None


_JOB = re.compile(r"\s*Job <(\d+(?:\[\d+\])?)>")
_WRAPPED = re.compile(r"\s{10,}(?=\S)")
_EVENT = re.compile(r"\s*(\w{3} \w{3} +\d+ \d\d:\d\d:\d\d(?: \d{4})?): (.*)")
_DISPATCHED = re.compile(
    r"(?:\[\d+\] )?(?:[Dd]ispatched|[Ss]tarted).*?(?: to| on(?: Host\(s\))?)? (<.*?>)(?:[,;.]|$)"
)
_SLOTS = re.compile(r"Allocated <?(\d+)>? Slot\(s\)|(\d+) Processors Requested")
_LONGEST = 1 << 16
_MOST_BACCT_LINES = 10_000
"""Characters of what was wrapped, and lines, of a job: the rest is left out."""
_YEARS_BACK = 28
"""After so many years each date has had each day of the week."""


def read_bacct(lines: Iterable[str], now: float) -> Accounts:
    """Read the jobs; `now` (Unix time) is when at the latest they ended."""
    accounts = Accounts()
    for begun, paragraph in _paragraphs(lines):
        accounts.add(begun, partial(_bacct_job, paragraph, now))
    return accounts


def _paragraphs(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the lines of each job, unwrapped, and the number of the first."""
    held: list[str] = []
    begun = 0
    for number, line in enumerate(lines, start=1):
        text = line.rstrip("\r\n")
        if _JOB.match(text):
            if held:
                yield begun, held
            begun, held = number, [text.strip()]
        elif held and text.lstrip().startswith("---"):
            yield begun, held
            held = []
        elif held and held[-1] and _WRAPPED.match(text) and not held[-1].startswith(("CPU_T", "Accounting")):
            if len(held[-1]) < _LONGEST:
                held[-1] += text.lstrip()
        elif held and len(held) < _MOST_BACCT_LINES:
            held.append(text.strip())
    if held:
        yield begun, held


def _bacct_job(lines: list[str], now: float) -> AccountedJob | None:
    """One job; None if it was never dispatched. Raises ValueError, KeyError and IndexError."""
    title, found = lines[0], _JOB.match(lines[0])
    if found is None:
        raise ValueError(title)
    figures = _figures(lines)
    submitted = started = ended = None
    node, cores, ending = "", 1, ""
    for line in lines[1:]:
        event = _EVENT.match(line)
        if event is None:
            continue
        at, text = _bacct_instant(event[1], now), event[2]
        if text.startswith("Submitted"):
            submitted = at
        elif dispatched := _DISPATCHED.match(text):
            started, node = at, _hosts(dispatched[1])
        elif text.startswith("Completed"):
            ended, ending = at, text
        if slots := _SLOTS.search(text):
            cores = int(slots[1] or slots[2])
    if started is None or ended is None:
        return None
    ok = figures["STATUS"] == "done"
    return AccountedJob(
        id=found[1],
        name=_attribute(title, "Job Name") or _command_name(_attribute(title, "Command") or ""),
        node=node,
        ok=ok,
        reason=None if ok else ending.rstrip(". "),
        cores=cores,
        submitted=submitted,
        started=started,
        ended=ended,
        real_s=ended - started,
        user_s=float(figures["CPU_T"]),
        peak_memory_bytes=parse_size(figures.get("MEM", "").removesuffix("b")),
    )


def _attribute(title: str, name: str) -> str | None:
    found = re.search(rf"(?:^|, ){name} <(.*?)>(?:, [A-Z]|$)", title)
    return found[1] if found else None


def _hosts(text: str) -> str:
    names = (name.rpartition("*")[2] for name in re.findall(r"<(.*?)>", text))
    return ",".join(dict.fromkeys(names))


def _figures(lines: list[str]) -> dict[str, str]:
    """The table of figures: names in one line, values in the next."""
    at = next(index for index, line in enumerate([*lines, "CPU_T"]) if line.startswith("CPU_T"))
    return dict(zip(lines[at].split(), lines[at + 1].split(), strict=False))


def _bacct_instant(text: str, now: float) -> float:
    """Unix time, in local time; the year that is not told is the last in which the day of the week fits."""
    words = text.split()
    if len(words) == 5:
        return time.mktime(datetime.datetime.strptime(text, "%a %b %d %H:%M:%S %Y").timetuple())  # noqa: DTZ007
    this_year = time.localtime(now).tm_year
    for year in range(this_year, this_year - _YEARS_BACK, -1):
        try:
            day = datetime.datetime.strptime(f"{' '.join(words[1:])} {year}", "%b %d %H:%M:%S %Y")  # noqa: DTZ007
        except ValueError:
            continue
        at = time.mktime(day.timetuple())
        if f"{day:%a}" == words[0] and at <= now:
            return at
    raise ValueError(text)
