"""Reads `sacct --json`, of Slurm 21.08 and later: numbers and states are spelled differently in each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from gridwright.handed_files import parsed_json
from gridwright.workload.accounting.job import AccountedJob, Accounts
from gridwright.workload.accounting.slurm_words import ENDED_WELL, has_ended, reason_of, state_of

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
        read_bytes=_moved(steps, "requested"),
        written_bytes=_moved(steps, "consumed"),
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
    told = [each for each in (_seconds(step["time"].get(kind)) for step in steps) if each is not None]
    return round(sum(told), 6) if told else _seconds(job["time"].get(kind))


def _seconds(value: object) -> float | None:
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


def _moved(steps: Iterable[Document], direction: str) -> int | None:
    """Bytes that all steps read (`requested`, as Slurm names it) or wrote (`consumed`)."""
    told = [_usage(step, direction, "fs", "disk") for step in steps]
    known = [size for size in told if size is not None]
    return sum(known) if known else None
