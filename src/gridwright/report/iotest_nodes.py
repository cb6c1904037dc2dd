"""The nodes of a throughput test side by side: a chart and tables, for the page and for the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from gridwright.messages import shared_fields
from gridwright.report.figures import (
    ABSENT,
    MB,
    against,
    binary,
    count,
    latency,
    megabytes,
    plain,
    seconds,
    share,
    volume,
)
from gridwright.report.plot import COLOURS, Chart, bars_axis, layout_of, length_axis, safe
from gridwright.report.table import Cell, Table, phase_of, table_of
from gridwright.runs.phase_record import NodePhaseRecord, PhaseFigures, PhaseRecord, RecordedNode
from gridwright.runs.records import LibraryRecord

MOST_NODES = 40
"""More bars than this nobody tells apart; those of the slowest nodes are drawn."""
_ROW, _BAR = 14, 16
_FOLDED = 12


def node_phases(library: LibraryRecord) -> list[PhaseRecord]:
    """For each operation the phase that speaks for it, where several nodes were tested."""
    ops = dict.fromkeys(phase.op for phase in library.phases if phase.nodes)
    phases = [phase_of(library, op) for op in ops]
    return [phase for phase in phases if phase is not None and phase.nodes]


def slowest(phases: Sequence[PhaseRecord], most: int) -> list[str]:
    """Names of the nodes in the order of the grid; of more than `most`, those with the lowest rates.

    A node that failed comes before any that did not.
    """
    names = list(dict.fromkeys(node.node for phase in phases for node in phase.nodes))
    if len(names) <= most:
        return names
    rates: dict[str, list[float]] = {name: [] for name in names}
    for phase in phases:
        for node in phase.nodes:
            rates[node.node].append(figure(phase, node) or 0.0)
    lowest = set(sorted(names, key=lambda name: min(rates[name]))[:most])
    return [name for name in names if name in lowest]


def figure(phase: PhaseRecord, node: NodePhaseRecord) -> float | None:
    """The figure of a node in a phase: operations/s of metadata, else bytes/s."""
    return node.ops_per_s if phase.op == "metadata" else node.rate_last_bytes_per_s


def nodes_chart(library: LibraryRecord, place: str) -> Chart | None:
    """MB/s of each node in each phase, a bar each."""
    phases = [phase for phase in node_phases(library) if phase.op != "metadata"]
    if not any(figure(phase, node) for phase in phases for node in phase.nodes):
        return None
    names = slowest(phases, MOST_NODES)
    layout = layout_of(
        xaxis=length_axis("MB/s of a node"),
        yaxis=bars_axis([safe(name) for name in names]),
        barmode="group",
        bargap=0.3,
        hovermode="closest",
        margin={"l": 16, "r": 16, "t": 40, "b": 16},
    )
    total = len(phases[0].nodes)
    note = f"The {len(names)} slowest of {total} nodes." if len(names) < total else ""
    height = len(names) * (_ROW + _BAR * len(phases)) + 110
    return Chart(
        f"nodes-{place}",
        "Nodes side by side",
        _spoken(library, phases),
        height,
        {"data": [_bars(phase, names) for phase in phases], "layout": layout},
        note,
    )


def _spoken(library: LibraryRecord, phases: Sequence[PhaseRecord]) -> str:
    said = []
    for phase in phases:
        known = [(rate, node.node) for node in phase.nodes if (rate := figure(phase, node))]
        if known:
            ends = [f"{megabytes(rate)} ({safe(node)})" for rate, node in (min(known), max(known))]
            said.append(f"{phase.op} from {' to '.join(ends)}")
    return f"MB/s of each node on {safe(library.library)}: {'; '.join(said)}."


def _bars(phase: PhaseRecord, names: Sequence[str]) -> dict[str, Any]:
    by_name = {node.node: node for node in phase.nodes}
    shown = [by_name[name] for name in names if name in by_name]
    rates = [figure(phase, node) for node in shown]
    return {
        "type": "bar",
        "orientation": "h",
        "name": phase.op,
        "y": [safe(node.node) for node in shown],
        "x": [None if rate is None else round(rate / MB, 3) for rate in rates],
        "marker": {"color": COLOURS.get(phase.op, "--muted")},
        "hovertext": [
            f"{safe(node.node)}: {phase.op} {megabytes(rate)} MB/s, "
            f"{megabytes(node.per_core_bytes_per_s)} per core"
            for node, rate in zip(shown, rates, strict=True)
        ],
        "hoverinfo": "text",
    }


def nodes_table(library: LibraryRecord) -> Table | None:
    """A row per node and phase, and one of all nodes together."""
    rows = [
        (phase, node)
        for phase in node_phases(library)
        for node in [*phase.nodes, _together(phase)]
        if phase.op != "metadata"
    ]
    if not rows:
        return None
    required = library.requires_bytes_per_s_per_core
    columns: dict[str, Callable[[tuple[PhaseRecord, NodePhaseRecord]], str | Cell]] = {
        "Node": lambda row: row[1].node,
        "Operation": lambda row: row[0].op,
        "Streams": lambda row: count(row[1].streams),
        "Data": lambda row: volume(row[1].bytes),
        "Time": lambda row: seconds(row[1].seconds_last),
        "First-done": lambda row: megabytes(row[1].rate_first_bytes_per_s),
        "Last-done": lambda row: megabytes(row[1].rate_last_bytes_per_s),
        "Per core": lambda row: against(row[1].per_core_bytes_per_s, required),
        "p99": lambda row: latency(row[1].latency_us.p99),
        "CPU s": lambda row: _cpu(row[1]),
        "Cached": lambda row: share(row[1].cached_fraction),
        "Began": lambda row: _began(row[1]),
        "State": _state,
    }
    table = table_of("Nodes side by side; rates in MB/s", rows, columns, "Node|Operation|State")
    note = "Began: when a node's streams started, less when all were to start."
    if any(node.status == "failed" for _, node in rows):
        note += " A node that failed is left out of the figures of all."
    return replace(table, note=note, folded=len(rows) > _FOLDED)


def _together(phase: PhaseRecord) -> NodePhaseRecord:
    """The figures of all nodes as a row below those of each."""
    through = [node for node in phase.nodes if node.status != "failed"]
    name = "all" if len(through) == len(phase.nodes) else f"all but {len(phase.nodes) - len(through)}"
    cores = sum(node.cores for node in through)
    figures = shared_fields(phase, PhaseFigures)
    return NodePhaseRecord(node=name, cores=cores, streams=phase.used.streams, **figures)


def _cpu(node: NodePhaseRecord) -> str:
    if node.cpu_user_s is None or node.cpu_system_s is None:
        return ABSENT
    return plain(node.cpu_user_s + node.cpu_system_s)


def _began(node: NodePhaseRecord) -> str:
    return ABSENT if node.start_offset_s is None else f"{node.start_offset_s * 1000:+.1f} ms"


def _state(row: tuple[PhaseRecord, NodePhaseRecord]) -> str | Cell:
    node = row[1]
    if node.status == "failed":
        return Cell("failed", "failed")
    longest = max((stall.seconds for stall in node.stalls), default=None)
    if longest is not None:
        return f"stood still for {longest:.1f} s"
    return "" if node.status == "complete" else node.status


def facts_table(nodes: Sequence[RecordedNode]) -> Table | None:
    """What the nodes are."""
    if not nodes:
        return None
    table = table_of(
        "Nodes of the throughput test",
        nodes,
        {
            "Node": lambda n: n.node,
            "Host": lambda n: n.host or ABSENT,
            "Cores": lambda n: count(n.cores),
            "Memory": lambda n: binary(n.memory_bytes),
            "Kernel": lambda n: n.kernel or ABSENT,
            "Gridwright": lambda n: n.version or ABSENT,
            "Clock": lambda n: ABSENT if n.clock_offset_s is None else f"{n.clock_offset_s * 1000:+.1f} ms",
        },
        "Node|Host|Kernel|Gridwright",
    )
    note = "Clock: that of the node less the one of the machine that ran the command."
    return replace(table, note=note, folded=len(nodes) > _FOLDED)
