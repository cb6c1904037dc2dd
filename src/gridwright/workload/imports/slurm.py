"""Reads what sacct printed, as text and as JSON: a line for each job, and one for each of its steps.

`sacct --json`, of 21.08 and later, spells numbers and states differently in each release.

sacct does not escape what it prints: a name can hold the separator, and a submit line even line breaks.
Such a record is put together again where only one way of doing so gives each field a value that fits it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

from gridwright.handed_files import parsed_json
from gridwright.schedulers.usage import parse_elapsed, parse_size, parse_time, parse_usage
from gridwright.workload.imports.job import AccountedJob, Accounts

ENDED_WELL = "COMPLETED"
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
    *(ENDED_WELL, "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "PREEMPTED"),
    *("REQUEUED", "BOOT_FAIL", "DEADLINE", "REVOKED", "LAUNCH_FAILED", "STOPPED", "SIGNALING"),
    *("STAGE_OUT", "RECONFIG_FAIL"),
}


def state_of(text: str) -> str | None:
    """The first word of `CANCELLED by 0`; None if Slurm has no such state."""
    word = text.split(" ", 1)[0].rstrip("+").upper()
    return word if word in _STATES else None


def has_ended(state: str) -> bool:
    """Whether a job in this state does not go on."""
    return state not in _UNFINISHED


def reason_of(state: str, text: str, exit_status: int, signal: int) -> str | None:
    """Why a job failed, in one line; None if it did not."""
    if state == ENDED_WELL:
        return None
    words = " ".join(text.split()) or state
    if exit_status:
        return f"{words}: exit status {exit_status}"
    return f"{words}: signal {signal}" if signal else words


FORMAT = (
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


def read_rows(lines: Iterable[str]) -> Accounts:
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
    return all(shapes) and state_of(row["State"]) is not None


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
        state = state_of(self.row["State"]) or ""
        started, ended = parse_time(self.row.get("Start", "")), parse_time(self.row.get("End", ""))
        real_s = _seconds(self.row)
        never_began = state != ENDED_WELL and not real_s and (started is None or "Start" not in self.row)
        if not has_ended(state) or never_began:
            return None
        exit_status, _, signal = self.row.get("ExitCode", "").partition(":")
        user_s, system_s = self._cpu()
        return AccountedJob(
            id=self.id,
            name=self.row.get("JobName", ""),
            node=_node(self.row.get("NodeList", "")),
            ok=state == ENDED_WELL,
            reason=reason_of(state, self.row["State"], int(exit_status or 0), int(signal or 0)),
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


def read_document(content: bytes) -> Accounts:
    """Read the document. Raises ValueError that says what is wrong with it."""
    document = parsed_json(content)
    jobs = document.get("jobs") if isinstance(document, dict) else None
    if not isinstance(jobs, list):
        raise ValueError("it has no list of jobs")
    accounts = Accounts()
    for number, job in enumerate(jobs, start=1):
        accounts.add(number, partial(_job, job))
    return accounts


def _job(job: Document) -> AccountedJob | None:
    """One job; None if it has not run to an end."""
    word = _word(job["state"]["current"])
    state, times = state_of(word), job["time"]
    if state is None:
        raise ValueError(word)
    started, ended, real_s = _instant(times["start"]), _instant(times["end"]), _number(times["elapsed"])
    if not has_ended(state) or (started is None and state != ENDED_WELL):
        return None
    steps = job.get("steps") or []
    user_s, system_s = _cpu(job, steps, "user"), _cpu(job, steps, "system")
    exit_status, signal = _exit(job, steps)
    return AccountedJob(
        id=_id(job),
        name=str(job.get("name") or ""),
        node=_nodes(job.get("nodes")),
        ok=state == ENDED_WELL,
        reason=reason_of(state, word, exit_status, signal),
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
