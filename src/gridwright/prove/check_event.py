"""Findings about nodes as events of a run."""

from __future__ import annotations

from dataclasses import asdict

from gridwright.grid.slurm.node_facts import fold
from gridwright.nodes.checks import NodeFinding
from gridwright.runs.journal import Event


def check_event(finding: NodeFinding) -> Event:
    """The event of a finding; its text names the nodes folded, as `compute[1-16]`."""
    where = f"{fold(finding.nodes)}: " if finding.nodes else ""
    text = f"{where}{finding.found}; expected: {finding.expected}. {_sentence(finding.why)}"
    return {"event": "check"} | asdict(finding) | {"text": text}


def _sentence(why: str) -> str:
    return f"{why[:1].upper()}{why[1:]}"
