"""The record of a phase on several nodes: the figures of all, and beside them those of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any

from gridwright.errors import Finding
from gridwright.iotest import figures
from gridwright.iotest.grid_phase import NodeRun
from gridwright.iotest.merge import Part, merged
from gridwright.iotest.node_plan import NodeShare
from gridwright.iotest.options import LibraryTarget
from gridwright.iotest.outcome import Outcome
from gridwright.iotest.stalls import stalls_of
from gridwright.iotest.steady import SteadyResult
from gridwright.runs.records import OF_EACH_NODE
from gridwright.units import format_rate

UNEVEN = 0.5
"""A node that gives less than this part of the median per core is reported: its network, its client or the
targets that its files lie on differ from those of the others."""
Figures = dict[str, Any]


def counts(run: NodeRun) -> bool:
    """Whether what a node did is part of the figures."""
    return run.failed is None and run.outcome is not None and not run.outcome.failure


@dataclass(frozen=True, slots=True)
class Whole:
    """What is the same for all nodes of a phase."""

    target: LibraryTarget
    memory_backed: bool
    steady: SteadyResult | None
    lost: Mapping[str, str]
    """Nodes that failed before, with the reason."""
    stopped: bool


def phase_record(
    op: str, head: Figures, runs: Mapping[str, NodeRun], shares: Sequence[NodeShare], whole: Whole
) -> Figures:
    """The record of a phase, see `gridwright.runs.records.PhaseRecord`.

    Its figures are those of the nodes that came through, over the cores of these.
    """
    through = [share for share in shares if share.node in runs and counts(runs[share.node])]
    nodes = [_node(op, share, runs.get(share.node), whole) for share in shares]
    if not through:
        return head | _nothing(stopped=whole.stopped) | {"nodes": nodes}
    outcome = merged([_part(runs[share.node]) for share in through])
    cores = sum(share.cores for share in through)
    found = figures.phase_figures(
        op,
        outcome,
        target=replace(whole.target, nodes=len(through), all_cores=cores),
        memory_backed=whole.memory_backed,
        steady=whole.steady,
    )
    used = figures.used(head["used"], outcome) | {"streams": len(outcome.streams)}
    steady = asdict(whole.steady) if whole.steady else None
    return head | {"used": used} | found | {"steady": steady, "nodes": nodes}


def _outcome(run: NodeRun) -> Outcome:
    if run.outcome is None:
        raise RuntimeError(f"node {run.node} has no outcome")
    return run.outcome


def _part(run: NodeRun) -> Part:
    return Part(run.node, _outcome(run), run.start_s or 0.0, run.history)


def _node(op: str, share: NodeShare, run: NodeRun | None, whole: Whole) -> Figures:
    """The record of one node, see `gridwright.runs.records.NodePhase`."""
    head: Figures = {"node": share.node, "cores": share.cores, "streams": share.streams}
    if run is None or not counts(run):
        return head | {"status": "failed", "reason": _reason(share.node, run, whole.lost)}
    outcome = _outcome(run)
    found = figures.phase_figures(
        op,
        outcome,
        target=replace(whole.target, cores=share.cores, nodes=1, all_cores=None),
        memory_backed=whole.memory_backed,
        steady=None,
    )
    return (
        head
        | {"streams": len(outcome.streams)}
        | {key: found[key] for key in OF_EACH_NODE}
        | {"start_offset_s": run.start_s, "stalls": [asdict(stall) for stall in stalls_of(outcome)]}
    )


def _reason(node: str, run: NodeRun | None, lost: Mapping[str, str]) -> str:
    if run is not None and run.failed is not None:
        return run.failed.reason
    if run is not None and run.outcome is not None and run.outcome.failure:
        return f"{run.outcome.failure.op}: {run.outcome.failure.message}"
    return lost.get(node, "it took no part")


def _nothing(*, stopped: bool) -> Figures:
    """The figures of a phase that no node came through."""
    status = "interrupted" if stopped else "failed"
    rest = {"status": status, "per_stream_bytes_per_s": [], "latency_us": {}, "cached": False}
    return dict.fromkeys(OF_EACH_NODE) | rest


def uneven(library: str, record: Figures) -> Finding | None:
    """Say which node is slow where the others are not."""
    key = "ops_per_s" if record["op"] == "metadata" else "per_core_bytes_per_s"
    rates = {node["node"]: node[key] for node in record["nodes"] if node.get(key)}
    if len(rates) < 2:
        return None
    usual = median(rates.values())
    slowest = min(rates, key=lambda name: rates[name])
    if rates[slowest] >= UNEVEN * usual:
        return None
    low, middle = (
        (f"{rates[slowest]:.0f}", f"{usual:.0f} operations/s")
        if record["op"] == "metadata"
        else (format_rate(rates[slowest], per_core=True), format_rate(usual, per_core=True))
    )
    return Finding(
        "warning",
        "uneven-nodes",
        f"library {library}, phase {record['op']}: node {slowest} gives {low}, and the median is {middle}",
        "compare its network, mount options and client with those of another node",
    )
