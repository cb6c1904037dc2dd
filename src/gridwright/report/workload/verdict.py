"""The verdict on a mixed workload in words: did every launch end with the right answer."""

from __future__ import annotations

from gridwright.report.figures import ABSENT, count
from gridwright.runs.workload_record import LaunchRecord, WorkloadRecord

_LONGEST = 300
"""A reason can hold the whole of a traceback; the table of failed launches has all of it."""


def imported(record: WorkloadRecord) -> bool:
    """Whether it was read from logs: such a run has no matrix, and nobody checked its answers."""
    return record.matrix is None


def workload_met(record: WorkloadRecord) -> bool | None:
    """Whether every launch is right; None if there was none, or this was not judged."""
    if record.summary.failed or any(not launch.ok for launch in record.launches):
        return False
    return record.met if record.summary.launches else None


def first_failed(record: WorkloadRecord) -> LaunchRecord | None:
    """The failed launch that ended first, so the one that a chain of failures began with."""
    failed = [launch for launch in record.launches if not launch.ok]
    return min(failed, key=lambda x: (x.ended is None, x.ended or 0.0, x.number), default=None)


def judged_sentence(record: WorkloadRecord) -> str:
    """What a workload that ran to its end amounts to."""
    launches, failed = record.summary.launches, record.summary.failed
    if not launches:
        return "No test was launched, so there is no workload to judge."
    if workload_met(record) is False:
        number = failed or sum(not launch.ok for launch in record.launches)
        return f"{count(number)} of {_launches(launches)} failed; {_first(record)}.{_lost(record)}"
    if imported(record):
        return f"{_every(launches)} ended without an error."
    if record.met is None:
        return f"{_every(launches)} ended, but whether their answers are right is not known."
    right = "the right answer" if launches == 1 else "right answers"
    return f"{_every(launches)} ended with {right}.{_lost(record)}"


def unjudged_sentence(record: WorkloadRecord, opening: str = "") -> str:
    """How far a workload came that did not run to its end."""
    launches, failed = record.summary.launches, record.summary.failed
    also = f", {count(failed)} of which failed" if failed else ""
    if opening:
        ended = f"{_launches(launches) if launches else 'no launch'} had ended{also}"
        return f"{opening}, so the workload is not judged; until then {ended}."
    return f"{_launches(launches) if launches else 'No launch'} of the workload had ended{also}."


def _lost(record: WorkloadRecord) -> str:
    """The nodes that were lost under launches which then ran elsewhere; empty if none was."""
    again = sum(launch.restarts > 0 for launch in record.launches)
    if not again:
        return ""
    nodes = sorted({node for launch in record.launches for node in launch.lost_on})
    where = f" after {', '.join(nodes)} {'was' if len(nodes) == 1 else 'were'} lost" if nodes else ""
    return f" {_launches(again)} had to be started again{where}."


def _first(record: WorkloadRecord) -> str:
    launch = first_failed(record)
    if launch is None:
        return "the reason is not known"
    reason = (launch.reason or "no reason known").strip().rstrip(".")
    short = reason if len(reason) <= _LONGEST else f"{reason[: _LONGEST - 1]}…"
    return f"the first, {launch.test or ABSENT} (launch {launch.number}): {short}"


def _launches(number: int) -> str:
    return f"{count(number)} launch{'' if number == 1 else 'es'}"


def _every(number: int) -> str:
    return "The only launch" if number == 1 else f"All {_launches(number)}"
