"""Reads jobs from bjobs -o FIELDS -json."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence

from gridwright.node_programs.batch_job.job_file import WHOLE
from gridwright.schedulers.batch.system import BatchRow
from gridwright.schedulers.batch.tools import BatchTools
from gridwright.schedulers.job import JobState
from gridwright.schedulers.job_tag import JobTag, tag_of
from gridwright.schedulers.lsf.commands import plain_node, records
from gridwright.schedulers.lsf.endings import ending

FIELDS = (
    "jobid jobindex stat queue job_description exec_host exit_code exit_reason start_time finish_time "
    "max_mem pend_reason"
)
"""Names of fields of bjobs -o (IBM Spectrum LSF 10.1, command reference)."""
DESCRIPTION = "gridwright "
"""What the description of our jobs begins with (bsub -Jd); the tag follows."""
_FACTORS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}
_RUNNING = {"RUN": None, "SSUSP": "LSF has suspended it", "USUSP": "it is suspended (bstop)"}
_LOST = {"UNKWN": "its node does not answer", "ZOMBI": "its node does not answer, and it is to be ended"}


def description(tag: JobTag) -> str:
    """The description of a job in LSF."""
    return f"{DESCRIPTION}~{tag}"


def read_queue(tools: BatchTools) -> list[BatchRow]:
    """The jobs of this user and of Gridwright, also those that ended within CLEAN_PERIOD.

    Raises GridwrightError (ENVIRONMENT).
    """
    return list(rows(records(tools, ["bjobs", "-a", "-o", FIELDS, "-json"])))


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


def size(text: str) -> int:
    """A size such as `522 MBytes` or `5.2 Gbytes` in bytes; 0 where there is none."""
    match = re.match(r"([0-9.]+)\s*([KMGT]?)", text)
    return int(float(match[1]) * _FACTORS[match[2]]) if match else 0
