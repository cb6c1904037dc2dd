"""The record of a phase on several nodes: the figures of all, and beside them those of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from gridwright.errors import Finding
from gridwright.iotest import figures
from gridwright.iotest.coordinator.disturbers import disturbers
from gridwright.iotest.coordinator.merge import Part, merged
from gridwright.iotest.coordinator.phase import NodeRun
from gridwright.iotest.coordinator.plan import NodeShare
from gridwright.iotest.outcome import Outcome
from gridwright.iotest.stalls import stalls_of
from gridwright.messages import shared_fields
from gridwright.runs.iotest_events import PhaseBegun
from gridwright.runs.load_record import Interference, NodeLoad
from gridwright.runs.phase_record import NodePhaseRecord, PhaseRecord, Status, Steady
from gridwright.units import format_rate

UNEVEN = 0.5
"""A node that gives less than this part of the median per core is reported: its network, its client or the
targets that its files lie on differ from those of the others."""


def counts(run: NodeRun) -> bool:
    """Whether what a node did is part of the figures."""
    return run.failed is None and run.outcome is not None and not run.outcome.failure


@dataclass(frozen=True, slots=True)
class Whole:
    """What is the same for all nodes of a phase."""

    begun: PhaseBegun
    memory_backed: bool
    steady: Steady | None
    lost: Mapping[str, str]
    """Nodes that failed before, with the reason."""
    stopped: bool
    here: NodeLoad
    """Of the coordinator's machine."""


def record_of_all(runs: Mapping[str, NodeRun], shares: Sequence[NodeShare], whole: Whole) -> PhaseRecord:
    """The record of a phase: the figures of the nodes that came through, over the cores of these."""
    through = [share for share in shares if share.node in runs and counts(runs[share.node])]
    loads = {name: run.load for name, run in runs.items() if counts(run) and run.load is not None}
    found = disturbers(loads, whole.here, sequential=whole.begun.op != "metadata")
    nodes = [_node(share, runs.get(share.node), whole, found.get(share.node, [])) for share in shares]
    if not through:
        status: Status = "interrupted" if whole.stopped else "failed"
        return PhaseRecord(**shared_fields(whole.begun, PhaseRecord), status=status, nodes=nodes)
    outcome = merged([_part(runs[share.node]) for share in through])
    record = figures.phase_record(
        whole.begun,
        outcome,
        cores=sum(share.cores for share in through),
        memory_backed=whole.memory_backed,
        steady=whole.steady,
    )
    return replace(
        record,
        used=replace(record.used, streams=len(outcome.streams)),
        disturbances=[each for node in nodes for each in node.disturbances],
        disturbed=any(node.disturbed for node in nodes),
        nodes=nodes,
    )


def _outcome(run: NodeRun) -> Outcome:
    if run.outcome is None:
        raise RuntimeError(f"node {run.node} has no outcome")
    return run.outcome


def _part(run: NodeRun) -> Part:
    return Part(run.node, _outcome(run), run.start_s or 0.0, run.history)


def _node(share: NodeShare, run: NodeRun | None, whole: Whole, found: list[Interference]) -> NodePhaseRecord:
    node, cores = share.node, share.cores
    if run is None or not counts(run):
        reason = _reason(node, run, whole.lost)
        return NodePhaseRecord(node=node, cores=cores, streams=share.streams, status="failed", reason=reason)
    outcome = _outcome(run)
    measured = figures.phase_figures(whole.begun.op, outcome, cores=cores, memory_backed=whole.memory_backed)
    measured = replace(measured, load=run.load, disturbances=found, disturbed=bool(found))
    return NodePhaseRecord(
        node=node,
        cores=cores,
        streams=len(outcome.streams),
        **shared_fields(measured, NodePhaseRecord),
        start_offset_s=run.start_s,
        stalls=stalls_of(outcome),
    )


def _reason(node: str, run: NodeRun | None, lost: Mapping[str, str]) -> str:
    if run is not None and run.failed is not None:
        return run.failed.reason
    if run is not None and run.outcome is not None and run.outcome.failure:
        return f"{run.outcome.failure.op}: {run.outcome.failure.message}"
    return lost.get(node, "it took no part")


def uneven(library: str, record: PhaseRecord) -> Finding | None:
    """Say which node is slow where the others are not."""
    counted = record.op == "metadata"
    found = {node.node: node.ops_per_s if counted else node.per_core_bytes_per_s for node in record.nodes}
    rates = {node: rate for node, rate in found.items() if rate}
    if len(rates) < 2:
        return None
    usual = median(rates.values())
    slowest = min(rates, key=lambda name: rates[name])
    if rates[slowest] >= UNEVEN * usual:
        return None
    low, middle = (
        (f"{rates[slowest]:.0f}", f"{usual:.0f} operations/s")
        if counted
        else (format_rate(rates[slowest], per_core=True), format_rate(usual, per_core=True))
    )
    return Finding(
        "warning",
        "uneven-nodes",
        f"library {library}, phase {record.op}: node {slowest} gives {low}, and the median is {middle}",
        "compare its network, mount options and client with those of another node",
    )
