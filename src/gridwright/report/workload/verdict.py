"""The verdict on a mixed workload in words: right answers, and what is required of it."""

from __future__ import annotations

from gridwright.report.figures import ABSENT, count, duration, plain
from gridwright.runs.launch_record import LaunchRecord
from gridwright.runs.records import interference_of_launches
from gridwright.runs.workload_judge import JudgedRequirement, ratio_of
from gridwright.runs.workload_record import WorkloadRecord
from gridwright.units import counted

_LONGEST = 300
"""A reason can hold the whole of a traceback; the table of failed launches has all of it."""


def imported(record: WorkloadRecord) -> bool:
    """Whether it was read from logs: such a run has no matrix, and nobody checked its answers."""
    return record.matrix is None


def first_failed(record: WorkloadRecord) -> LaunchRecord | None:
    """The failed launch that ended first, so the one that a chain of failures began with."""
    failed = [launch for launch in record.launches if not launch.ok]
    return min(failed, key=lambda x: (x.ended is None, x.ended or 0.0, x.number), default=None)


def judged_sentence(record: WorkloadRecord) -> str:
    """What a workload that ran to its end amounts to."""
    launches, failed = record.summary.launches, record.summary.failed
    if not launches:
        return "No test was launched, so there is no workload to judge."
    if failed or first_failed(record) is not None:
        number = failed or sum(not launch.ok for launch in record.launches)
        also = f"{_lost(record)}{_refused(record)}"
        return f"{count(number)} of {counted(launches, 'launch')} failed; {_first(record)}.{also}"
    right = "with the right answer" if launches == 1 else "with right answers"
    ended = "without an error" if imported(record) else right
    return (
        f"{_every(launches)} ended {ended}.{_lost(record)}{_refused(record)} "
        f"{_requirements(record)}{_disturbed(record)}"
    )


def _requirements(record: WorkloadRecord) -> str:
    """How the workload stands against what is required; what was missed first, and what held it back."""
    held = f" {record.summary.diagnosis}" if record.summary.diagnosis else ""
    missed = [_with_repeats(requirement) for requirement in record.requirements if requirement.met is False]
    others = [
        _with_repeats(requirement) for requirement in record.requirements if requirement.met is not False
    ]
    if not record.requires_something:
        ratio = ratio_of(record.launches)
        measured = f"; its CPU/real ratio was {plain(ratio)}" if ratio is not None else ""
        others = [f"no requirement on the workload{measured}"]
    said = " ".join(f"{each[0].upper()}{each[1:]}." for each in [*missed, *others])
    return f"{said}{held if missed or not record.requires_something else ''}"


def _with_repeats(requirement: JudgedRequirement) -> str:
    """One requirement and what was measured, of repeats the median."""
    said = _measured(requirement)
    if requirement.repeats is None or requirement.measured is None:
        return said
    said += f" (median of {requirement.repeats} repeats)"
    untold = ", but so few repeats of so much spread cannot tell it from that"
    return f"{said}{untold if requirement.met is None else ''}"


def _measured(requirement: JudgedRequirement) -> str:
    """One requirement and what was measured, as `CPU/real was 0.16 where 0.9 is required`."""
    if requirement.figure == "bytes_per_s_per_core":
        required = plain(requirement.required / 1e6)
        rates = f"{plain((requirement.measured or 0) / 1e6)} MB/s per core and requires {required}"
        share = f"{(requirement.waited_share or 0):.0%}".replace("%", " %")
        return f"launches waited for {requirement.of} {share} of their time, which delivered {rates}"
    if requirement.figure == "real_s":
        limit = f"where at most {duration(requirement.required)} are required"
        return f"it took {duration(requirement.measured)} {limit}"
    of = f" of {requirement.of}" if requirement.of else ""
    if requirement.measured is None:
        return f"the CPU/real ratio{of} was not measured, and {plain(requirement.required)} is required"
    required = plain(requirement.required)
    return f"the CPU/real ratio{of} was {plain(requirement.measured)} where {required} is required"


def unjudged_sentence(record: WorkloadRecord, opening: str = "") -> str:
    """How far a workload came that did not run to its end."""
    launches, failed = record.summary.launches, record.summary.failed
    also = f", {count(failed)} of which failed" if failed else ""
    if opening:
        ended = f"{counted(launches, 'launch') if launches else 'no launch'} had ended{also}"
        return f"{opening}, so the workload is not judged; until then {ended}."
    return f"{counted(launches, 'launch') if launches else 'No launch'} of the workload had ended{also}."


def _disturbed(record: WorkloadRecord) -> str:
    """What disturbed launches, and whether they are judged all the same; empty if nothing did."""
    said = interference_of_launches(record.launches, most=1)
    if not said:
        return ""
    if record.doubtful:
        return f" {said}, so that times prove nothing."
    return f" Judged although {said}." if record.allow_disturbed else f" {said}; their repeats do not count."


def _lost(record: WorkloadRecord) -> str:
    """The nodes that were lost under launches which then ran elsewhere; empty if none was."""
    again = sum(launch.restarts > 0 for launch in record.launches)
    if not again:
        return ""
    nodes = sorted({node for launch in record.launches for node in launch.lost_on})
    where = f" after {', '.join(nodes)} {'was' if len(nodes) == 1 else 'were'} lost" if nodes else ""
    return f" {counted(again, 'launch')} had to be started again{where}."


def _refused(record: WorkloadRecord) -> str:
    """The logs that are not among the launches; empty if there are none."""
    number = len(record.refused)
    if not number:
        return ""
    return f" {counted(number, 'log')} could not be read; the first: {record.refused[0].reason}."


def _first(record: WorkloadRecord) -> str:
    launch = first_failed(record)
    if launch is None:
        return "the reason is not known"
    reason = (launch.reason or "no reason known").strip().rstrip(".")
    short = reason if len(reason) <= _LONGEST else f"{reason[: _LONGEST - 1]}…"
    return f"the first, {launch.test or ABSENT} (launch {launch.number}): {short}"


def _every(number: int) -> str:
    return "The only launch" if number == 1 else f"All {counted(number, 'launch')}"
