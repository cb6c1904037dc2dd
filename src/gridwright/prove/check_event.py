"""Findings about nodes as events of a run."""

from __future__ import annotations

from gridwright.doctor.check import CheckResult
from gridwright.runs.records import NodeCheck
from gridwright.spec.hosts import fold_hosts


def check_event(result: CheckResult) -> NodeCheck:
    """The event of a check that failed; its text names the nodes folded, as `compute[1-16]`."""
    where = f"{fold_hosts(result.nodes)}: " if result.nodes else ""
    return NodeCheck(
        level=result.level,
        name=result.name,
        text=f"{where}{result.found}; expected: {result.expected}. {result.reason}",
        remedy=result.remedy,
        nodes=list(result.nodes),
        found=result.found,
        expected=result.expected,
        why=result.reason,
    )
