"""The nodes of a throughput test side by side, on the terminal."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from gridwright.report.figures import ABSENT, count, megabytes, plain
from gridwright.report.iotest_nodes import node_phases, slowest
from gridwright.report.terminal.frame import framed_table
from gridwright.runs.phase_record import NodePhaseRecord, PhaseRecord
from gridwright.runs.records import LibraryRecord

MOST_NODES = 24
"""Rows of a table on the terminal; the report has more, the record all."""


def nodes_table(library: LibraryRecord) -> Table | None:
    """A row per node with the figures of each phase, and one of all nodes together."""
    phases = node_phases(library)
    if not phases:
        return None
    names = slowest(phases, MOST_NODES)
    total = len(phases[0].nodes)
    of = f", the {len(names)} slowest of {total}" if len(names) < total else ""
    heads = [head for phase in phases for head in _heads(phase)]
    table = framed_table(f"{library.library} by node{of}", ["node"], [*heads, "state"])
    by_name = [{node.node: node for node in phase.nodes} for phase in phases]
    for name in names:
        found = [nodes.get(name) for nodes in by_name]
        cells = [cell for phase, node in zip(phases, found, strict=True) for cell in _of_node(phase, node)]
        failed = any(node is None or node.status == "failed" for node in found)
        disturbed = any(node is not None and node.disturbed for node in found)
        state = Text("failed", "bold red") if failed else "disturbed" if disturbed else ""
        table.add_row(name, *cells, state)
    table.add_section()
    cells = [cell for phase in phases for cell in _figures(phase.op, phase)]
    table.add_row("together", *cells, "")
    return table


def _heads(phase: PhaseRecord) -> list[str]:
    return ["metadata op/s"] if phase.op == "metadata" else [f"{phase.op} MB/s", "per core", "p99 ms"]


def _of_node(phase: PhaseRecord, node: NodePhaseRecord | None) -> list[str]:
    if node is None or node.status == "failed":
        return [ABSENT] * len(_heads(phase))
    return _figures(phase.op, node)


def _figures(op: str, figures: PhaseRecord | NodePhaseRecord) -> list[str]:
    if op == "metadata":
        return [count(figures.ops_per_s)]
    p99 = figures.latency_us.p99
    return [
        megabytes(figures.rate_last_bytes_per_s),
        megabytes(figures.per_core_bytes_per_s),
        plain(p99 / 1000) if p99 is not None else ABSENT,
    ]
