"""Reads what became of jobs from qacct: how they ended, and what they used."""

from __future__ import annotations

import calendar
import csv
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from gridwright.node_programs.batch_job.job_file import DOOMED, WHOLE
from gridwright.schedulers.batch.system import BatchRow, BatchTools
from gridwright.schedulers.job import JobState
from gridwright.schedulers.job_tag import JobTag, tag_of
from gridwright.schedulers.usage import JobUsage
from gridwright.state_parts import this_user

_RESCHEDULED = frozenset({24, 25, 30})
"""Runs after which the job runs again (sge_status(5)): migrating, rescheduling, on application error."""
_SINGLY = 20
"""So many jobs are asked for one by one; of more, all that began since the first of them come first."""
_SKEW_S = 3600.0
"""Clocks of the head node and of this machine may differ by so much."""
_NO_ACCOUNT = "sge"
"""What jobs without an account have (qsub(1), -A)."""
_NONE = ("no jobs running since startup", "not found", "no such file", "no total system usage")
_FACTORS = {"": 1.0, "K": 1024.0, "M": 1024.0**2, "G": 1024.0**3, "T": 1024.0**4}


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
