"""Parses what squeue prints in a format of our own: for releases without JSON, and for many jobs.

For 1000 ended jobs, 22.05 makes 3.8 MB of JSON in 0.36 s, and 0.1 MB of text in 0.04 s (one run here).
"""

from __future__ import annotations

import time

from gridwright.schedulers.slurm.job_name import expand_indices
from gridwright.schedulers.slurm.queue_row import QueueRow, decode_end, decode_wait_status

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
        partition=partition,
        user=user,
        node=node or None,
        submitted=_moment(submitted, now),
        started=_moment(started, now),
        ended=_moment(ended, now),
        exit_status=exit_status,
        signal=ended_by,
        restarts=int(restarts or 0),
    )
