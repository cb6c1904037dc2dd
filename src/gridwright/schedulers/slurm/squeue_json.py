"""Parses what `squeue --json` prints, for releases 22.05 to 24.11.

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
from collections.abc import Mapping
from typing import Any

from gridwright.schedulers.slurm.job_name import expand_indices
from gridwright.schedulers.slurm.queue_row import QueueRow, decode_end, decode_wait_status


def parse_squeue_json(output: bytes, *, now: float | None = None) -> list[QueueRow]:
    """Rows of the queue. Raises ValueError where the document is none of the known forms."""
    document = json.loads(output.decode(errors="surrogateescape"))
    jobs = document.get("jobs") if isinstance(document, dict) else None
    if not isinstance(jobs, list):
        raise ValueError("squeue --json printed no jobs")
    moment = time.time() if now is None else now
    try:
        return [_row(job, moment) for job in jobs]
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"squeue --json printed an unknown form: {error!r}") from error


def _number(value: Any) -> int | None:  # noqa: ANN401
    """A number in either form; None where none is set."""
    if isinstance(value, Mapping):
        return int(value["number"]) if value.get("set") and not value.get("infinite") else None
    return None if value is None else int(value)


def _moment(value: Any, now: float) -> float | None:  # noqa: ANN401
    seconds = _number(value)
    return float(seconds) if seconds and seconds <= now + 1 else None


def _end(value: Any) -> tuple[int | None, int | None]:  # noqa: ANN401
    if isinstance(value, Mapping) and "return_code" in value:
        signal = value.get("signal") or {}
        number = _number(signal.get("id", signal.get("signal_id")))
        return decode_end(_number(value["return_code"]) or 0, number or 0)
    return decode_wait_status(_number(value) or 0)


def _row(job: Mapping[str, Any], now: float) -> QueueRow:
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
        partition=job["partition"],
        user=job.get("user_name") or "",
        node=job["nodes"] or None,
        submitted=_moment(job["submit_time"], now),
        started=_moment(job["start_time"], now),
        ended=_moment(job["end_time"], now),
        exit_status=exit_status,
        signal=signal,
        restarts=_number(job["restart_cnt"]) or 0,
    )
