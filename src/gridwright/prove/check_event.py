"""Findings about nodes as events of a run."""

from __future__ import annotations

from dataclasses import asdict

from ClusterShell.NodeSet import NodeSet

from gridwright.nodes.checks import NodeFinding
from gridwright.runs.journal import Event


def check_event(finding: NodeFinding) -> Event:
    """The event of a finding; its text names the nodes folded, as `compute[1-16]`."""
    nodes = NodeSet.fromlist(list(finding.nodes))
    text = f"{nodes}: {finding.found}; expected: {finding.expected}. {_sentence(finding.why)}"
    return {"event": "check"} | asdict(finding) | {"nodes": list(nodes), "text": text}


def _sentence(why: str) -> str:
    return f"{why[:1].upper()}{why[1:]}"
