"""Reads `sacct --parsable2`, and `--parsable`: one line for each job, and one for each of its steps.

sacct does not escape what it prints: a name can hold the separator, and a submit line even line breaks.
Such a record is put together again where only one way of doing so gives each field a value that fits it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from gridwright.schedulers.sacct_figures import parse_elapsed, parse_size, parse_time, parse_usage
from gridwright.workload.accounting.job import AccountedJob, Accounts
from gridwright.workload.accounting.slurm_words import (
    ENDED_WELL,
    has_ended,
    reason_of,
    state_of,
)

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
