"""The verdict on a run: made once, when the run ends, and stored in run.json.

Headline, colour, exit status, JSON and marks in charts are functions of its kind.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

from gridwright.errors import ExitStatus
from gridwright.runs.answers import all_met
from gridwright.runs.phase_record import Status
from gridwright.runs.records import FindingRecord, IotestRecord, NodeCheck, RunRecord
from gridwright.runs.workload_record import WorkloadRecord

VerdictKind = Literal["met", "missed", "unproven", "unrequired", "interrupted", "failed", "running"]
"""`unproven`: a requirement was not measured, or its figures do not count. `unrequired`: nothing is
required."""
JUDGED_KINDS: tuple[VerdictKind, ...] = ("met", "missed", "unproven", "unrequired")
"""Verdicts on a run that ended."""
WRONG_DATA = "wrong-data"
"""The finding of bytes that are not those written."""
_NODE_FAILURES = frozenset({"node-lost", "node-failed"})
"""Findings of nodes that failed while the others went on."""


def has_wrong_data(findings: Iterable[FindingRecord]) -> bool:
    """Whether bytes came back that are not those written."""
    return any(finding.name == WRONG_DATA for finding in findings)


def has_no_verdict(status: Status, findings: Iterable[FindingRecord]) -> bool:
    """Whether a run failed: then nobody knows what it would have shown. Wrong data are a verdict."""
    return status == "failed" and not has_wrong_data(findings)


def make_verdict(
    status: Status,
    iotest: IotestRecord | None,
    workload: WorkloadRecord | None,
    checks: Iterable[NodeCheck] = (),
) -> VerdictKind:
    """Judge a run by its parts; `checks` are what was wrong with nodes before anything was measured."""
    parts = [part for part in (iotest, workload) if part is not None]
    states = {status, *(part.status for part in parts)}
    if has_no_verdict(
        "failed" if "failed" in states else status, [f for part in parts for f in part.findings]
    ):
        return "failed"
    for state in ("interrupted", "running"):
        if state in states:
            return state
    answers: list[bool | None] = []
    if iotest is not None and (iotest.requires_something or iotest.met is False):
        answers.append(iotest.met)
    if workload is not None and not unrequired(workload):
        answers.append(workload_met(workload))
    if False in answers or any(check.level == "error" for check in checks):
        return "missed"
    if not answers:
        return "unrequired" if parts else "unproven"
    return "met" if all_met(answers) else "unproven"


def verdict_on(
    run: RunRecord, iotest: IotestRecord | None, workload: WorkloadRecord | None = None
) -> VerdictKind:
    """The stored verdict; of a run that goes on, was killed, or is of an earlier release, one made now."""
    for kind in get_args(VerdictKind):
        if run.verdict == kind and run.status != "running":
            return kind  # type: ignore[no-any-return]
    kind = make_verdict(run.status, iotest, workload, run.checks)
    # Earlier releases stored no more than whether all was met.
    return "missed" if run.met is False and kind in JUDGED_KINDS else kind


def met_of(kind: VerdictKind) -> bool | None:
    """Whether all that is required is met; None where nothing is, or it is open."""
    return {"met": True, "missed": False}.get(kind)


def exit_status(ended: ExitStatus, kind: str | None, findings: Iterable[FindingRecord]) -> ExitStatus:
    """The exit status of a command that made a run; `ended` is how its processes ended.

    A node that failed while the others went on is a failure of the environment, whatever these measured.
    """
    if ended != ExitStatus.DONE:
        return ended
    if any(finding.name in _NODE_FAILURES for finding in findings):
        return ExitStatus.ENVIRONMENT
    return ExitStatus.MISSED if kind in ("missed", "unproven") else ExitStatus.DONE


def workload_met(record: WorkloadRecord) -> bool | None:
    """Whether every launch is right and all that is required is met; None where nothing is, or it is open."""
    if record.summary.failed or any(not launch.ok for launch in record.launches):
        return False
    # Earlier releases called right answers alone met.
    return record.met if record.summary.launches and record.requirements else None


def unrequired(record: WorkloadRecord) -> bool:
    """Whether it ran well, and nothing is required of it: there is no verdict then."""
    ran = bool(record.summary.launches) and not record.refused
    nothing = not record.requires_something and workload_met(record) is None
    return ran and nothing and not (record.doubtful and record.requirements)
