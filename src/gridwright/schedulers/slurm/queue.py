"""Reads Slurm's queue: one call of squeue for all jobs of this user, including those that ended recently.

Parses what squeue prints in a format of our own: for releases without JSON, and for many jobs.

For 1000 ended jobs, 22.05 makes 3.8 MB of JSON in 0.36 s, and 0.1 MB of text in 0.04 s (one run here).

Parses what `squeue --json` prints, for releases 22.05 to 24.11.

The forms that are read:
- 22.05 (plugin openapi/v0.0.38): numbers and null, one word for the state, the exit code as wait(2) has it.
  Tests hold a recording of 22.05.8.
- 23.02 (data_parser/v0.0.39): some numbers as {set, infinite, number}.
- 23.11 to 24.11 (v0.0.40 to v0.0.42): times so too, the state as a list of words, the exit code as
  {status, return_code, signal: {id, name}}.
The newer ones are held by samples built after Slurm's OpenAPI description, not recorded.
Arguments of jobs are in there byte for byte, so that it need not be UTF-8.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gridwright.errors import GridwrightError, environment_error
from gridwright.node_programs.batch_job.job_file import WHOLE
from gridwright.schedulers.batch.system import ServiceDown
from gridwright.schedulers.indices import expand_indices
from gridwright.schedulers.job_tag import JobTag, tag_of
from gridwright.schedulers.slurm.tools import Tools

HIGHEST_SIGNAL = 64
"""Linux has signals 1 to 64; Slurm puts numbers of its own above, such as 125 for out of memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """A job, or those elements of an array that Slurm keeps together; queued, or accounted."""

    job_id: int
    """Of the whole array, where it is one."""
    indices: tuple[int, ...] | None
    """Elements that it stands for; None where it is no array."""
    name: str
    words: tuple[str, ...]
    """Slurm's words for the state: the base state, then flags."""
    reason: str = ""
    queue: str | None
    """Its partition."""
    user: str = ""
    node: str | None
    submitted: float | None = None
    started: float | None
    """Seconds since 1970; a time to come is an estimate, and is None here."""
    ended: float | None
    exit_status: int | None
    signal: int | None
    restarts: int = 0
    accounted: bool = False
    """Whether it is of the accounting, which also has an exit status for what never ran."""

    @property
    def tag(self) -> JobTag | None:
        """Ours, in its name; None for the jobs of others."""
        return tag_of(self.name)

    @property
    def elements(self) -> tuple[int, ...]:
        """What it stands for in our record: WHOLE alone where it is no array."""
        return (WHOLE,) if self.indices is None else self.indices


def decode_end(exit_status: int, signal: int) -> tuple[int | None, int | None]:
    """Exit status and signal of the command, out of those of our script.

    The script ends with the status that the shell gives: 128 + n where signal n ended the command.
    """
    if signal:
        return None, signal if signal <= HIGHEST_SIGNAL else None
    if 128 < exit_status <= 128 + HIGHEST_SIGNAL:
        return None, exit_status - 128
    return exit_status, None


def decode_wait_status(status: int) -> tuple[int | None, int | None]:
    """The same out of a status as wait(2) gives it, which squeue shows."""
    return decode_end(status >> 8 & 0xFF, status & 0x7F)


def parse_squeue_json(output: bytes, *, now: float | None = None) -> list[QueueRow]:
    """Rows of the queue. Raises ValueError where the document is none of the known forms."""
    document = json.loads(output.decode(errors="surrogateescape"))
    jobs = document.get("jobs") if isinstance(document, dict) else None
    if not isinstance(jobs, list):
        raise ValueError("squeue --json printed no jobs")
    moment = time.time() if now is None else now
    try:
        return [_squeue_row(job, moment) for job in jobs]
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"squeue --json printed an unknown form: {error!r}") from error


def _number(value: Any) -> int | None:  # noqa: ANN401
    """A number in either form; None where none is set."""
    if isinstance(value, Mapping):
        return int(value["number"]) if value.get("set") and not value.get("infinite") else None
    return None if value is None else int(value)


def _squeue_moment(value: Any, now: float) -> float | None:  # noqa: ANN401
    seconds = _number(value)
    return float(seconds) if seconds and seconds <= now + 1 else None


def _end(value: Any) -> tuple[int | None, int | None]:  # noqa: ANN401
    if isinstance(value, Mapping) and "return_code" in value:
        signal = value.get("signal") or {}
        number = _number(signal.get("id", signal.get("signal_id")))
        return decode_end(_number(value["return_code"]) or 0, number or 0)
    return decode_wait_status(_number(value) or 0)


def _squeue_row(job: Mapping[str, Any], now: float) -> QueueRow:
    array, element = _number(job["array_job_id"]), _number(job["array_task_id"])
    indices: tuple[int, ...] | None = None
    if array and element is not None:
        indices = (element,)
    elif array and job.get("array_task_string"):
        indices = expand_indices(job["array_task_string"])
    state = job["job_state"]
    exit_status, signal = _end(job["exit_code"])
    return QueueRow(
        job_id=array or int(job["job_id"]),
        indices=indices,
        name=job["name"],
        words=tuple(state) if isinstance(state, list) else (state,),
        reason=job.get("state_description") or job["state_reason"],
        queue=job["partition"],
        user=job.get("user_name") or "",
        node=job["nodes"] or None,
        submitted=_squeue_moment(job["submit_time"], now),
        started=_squeue_moment(job["start_time"], now),
        ended=_squeue_moment(job["end_time"], now),
        exit_status=exit_status,
        signal=signal,
        restarts=_number(job["restart_cnt"]) or 0,
    )


_COLUMNS = (
    "JobArrayID",
    "Name",
    "State",
    "exit_code",
    "RestartCnt",
    "SubmitTime",
    "StartTime",
    "EndTime",
    "Partition",
    "UserName",
    "NodeList",
    "Reason",
)
SQUEUE_FORMAT = ",".join(f"{name}:|" for name in _COLUMNS[:-1]) + f",{_COLUMNS[-1]}:"
"""For squeue -O. A column without a width is not cut; only the reason, which is last, can have a |."""


def parse_squeue_text(output: bytes, *, now: float | None = None) -> list[QueueRow]:
    """Rows of the queue, out of what squeue -h -O SQUEUE_FORMAT prints with times in seconds since 1970.

    Raises ValueError for anything else.
    """
    moment = time.time() if now is None else now
    return [_row(line, moment) for line in output.decode(errors="replace").splitlines() if line.strip()]


def _moment(text: str, now: float) -> float | None:
    return float(text) if text.isdigit() and 0 < int(text) <= now + 1 else None


def _row(line: str, now: float) -> QueueRow:
    cells = [cell.strip() for cell in line.split("|", len(_COLUMNS) - 1)]
    if len(cells) != len(_COLUMNS):
        raise ValueError(f"squeue printed {line!r}")
    identifier, name, state, code, restarts, submitted, started, ended, partition, user, node, reason = cells
    job_id, is_array, elements = identifier.partition("_")
    status, colon, signal = code.partition(":")
    exit_status, ended_by = (
        decode_end(int(status), int(signal)) if colon else decode_wait_status(int(status or 0))
    )
    return QueueRow(
        job_id=int(job_id),
        indices=expand_indices(elements) if is_array else None,
        name=name,
        words=(state,),
        reason=reason,
        queue=partition,
        user=user,
        node=node or None,
        submitted=_moment(submitted, now),
        started=_moment(started, now),
        ended=_moment(ended, now),
        exit_status=exit_status,
        signal=ended_by,
        restarts=int(restarts or 0),
    )


MANY = 100
"""From so many jobs on, text is asked for: see squeue_text."""
_WHOSE = ["--me", "-a", "-t", "all"]


def read_queue(tools: Tools, expected: int) -> list[QueueRow]:
    """All jobs of this user; `expected` is about how many. Raises GridwrightError (ENVIRONMENT)."""
    if expected < MANY:
        try:
            return parse_squeue_json(tools.query(["squeue", *_WHOSE, "--json"]))
        except ServiceDown:
            raise
        except (GridwrightError, ValueError):
            # Built without JSON, or a form that is newer than this release: the text form is older than both.
            pass
    try:
        return parse_squeue_text(tools.query(["squeue", *_WHOSE, "-h", "-O", SQUEUE_FORMAT]))
    except ValueError as error:
        raise environment_error(
            f"squeue printed what cannot be read: {error}",
            where=tools.head.name,
            remedy="see squeue --version: releases 22.05 to 24.11 are known",
        ) from error


def by_tag(rows: Iterable[QueueRow]) -> dict[JobTag, list[QueueRow]]:
    """Rows of ours, by the submission and the attempt that they belong to."""
    found: dict[JobTag, list[QueueRow]] = {}
    for row in rows:
        if (tag := row.tag) is not None:
            found.setdefault(tag, []).append(row)
    return found
