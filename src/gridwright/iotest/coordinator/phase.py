"""Runs one phase on all nodes: each prepares, all start at one instant, and their results come together.

What comes of it are the same figures as if all streams had run on one node.
"""

from __future__ import annotations

import asyncio
import math
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, NamedTuple

from gridwright.interference.watch import Moment
from gridwright.iotest.coordinator.coordinator import Coordinator
from gridwright.iotest.coordinator.remote_node import NodeFailed, RemoteNode
from gridwright.iotest.engine import PhasePlan, Sample
from gridwright.iotest.messages import (
    Emit,
    Finish,
    Go,
    PhaseEnded,
    Report,
    RunPhase,
    Started,
    phase_progress,
    sample_taken,
)
from gridwright.iotest.outcome import Method, OperationOutcome, Outcome, of_all_nodes
from gridwright.iotest.steadiness import MachineForecasts, Steadiness, by_earlier_rate
from gridwright.runs.iotest_events import Progress
from gridwright.runs.load_record import NodeLoad
from gridwright.runs.phase_record import Latency, Steady

LEAD_S = 0.05
"""The start is at least so far ahead that the order for it is there before."""
LEAD_PER_NODE_S = 0.0005
"""More for each node: the orders are written one after the other (measured: 0.1 ms each)."""
_QUIET_S = 45.0
"""A worker reports at least once a second, also while nothing moves; one that does not hangs."""
_SHOWN_S = 0.25
STANDSTILL_S = 8.0
"""Where nothing moves on any node for so long, it is time to ask why: a server that restarts takes less."""


@dataclass(slots=True)
class NodeRun:
    """What a node did in a phase."""

    node: str
    outcome: Outcome | None = None
    load: NodeLoad | None = None
    """Of the node, meanwhile."""
    failed: NodeFailed | None = None
    start_s: float | None = None
    """When its streams started, less when they were to, in seconds by the clock here."""
    history: list[Sample] = field(default_factory=list)
    progress: Progress | None = None

    @property
    def written_bytes(self) -> int:
        """What it has written, as far as it told."""
        told = self.history[-1].written_bytes if self.history else 0
        return max(told, self.progress.written_bytes if self.progress else 0)


@dataclass(slots=True)
class GridPhase:
    """Runs one phase; `plans` has what each node is to do."""

    coordinator: Coordinator
    op: str
    plans: Mapping[str, PhasePlan]
    emit: Emit
    longest_s: float | None = None
    """With --until-steady, the longest it may last."""
    library: str = ""
    earlier_rate: float | None = None
    """Bytes a second of all nodes, with the closing fsync, of an earlier phase on the same file system."""
    runs: dict[str, NodeRun] = field(default_factory=dict)
    _begin: Moment = field(init=False)
    _at: float = 0.0
    _wall: float = 0.0
    _shown: tuple[float, int] = (0.0, 0)
    _forecasts: MachineForecasts = field(default_factory=MachineForecasts)
    _moved: tuple[float, tuple[int, int]] = (0.0, (-1, 0))
    _steady: Steadiness = field(default_factory=lambda: Steadiness(None))
    _joined: list[Sample] = field(default_factory=list)
    _joined_of: frozenset[str] = frozenset()

    @property
    def here(self) -> NodeLoad:
        """What happened on this machine from the start of the phase to its end."""
        watch = self.coordinator.watch
        return watch.between(self._begin, watch.look())

    @property
    def history(self) -> list[Sample]:
        """What all nodes had done at each sample that all have given; those that failed left out."""
        return self._together()

    async def run(self) -> Steady | None:
        """Run it to its end, on all nodes that can; `runs` has what came of each."""
        self.runs = {name: NodeRun(name) for name in self.plans}
        self._steady = Steadiness(self.longest_s)
        nodes = [self.coordinator.nodes[name] for name in self.plans]
        async with self.coordinator.heeding_stop():
            await self._keep_failures(nodes, self._arm)
            armed = [node for node in nodes if self._goes_on(node)]
            await self.coordinator.run_on_nodes(armed, lambda node: node.measure_clock(3))
            self._begin = self.coordinator.watch.look()
            self._go(armed)
            watching = asyncio.create_task(self._watch())
            try:
                await self._keep_failures(armed, self._follow)
            finally:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)
        return self._steady.result(self._together())

    def _goes_on(self, node: RemoteNode) -> bool:
        run = self.runs[node.name]
        return run.failed is None and run.outcome is None

    async def _keep_failures(self, nodes: list[RemoteNode], act: Callable[[RemoteNode], Any]) -> None:
        results = await self.coordinator.run_on_nodes(nodes, act)
        for name, result in results.items():
            if isinstance(result, NodeFailed):
                self.runs[name].failed = result

    async def _arm(self, node: RemoteNode) -> None:
        """Have a node prepare its streams."""
        node.order(RunPhase(self.op, self.plans[node.name], self._report_s()))
        message = await node.hear(self.coordinator.limits.order_s, f"preparing phase {self.op}")
        if isinstance(message, PhaseEnded):
            run = self.runs[node.name]
            run.outcome, run.load = message.outcome, message.load

    def _report_s(self) -> float:
        """Few nodes report four times a second, a hundred or more once: more than that nobody could read."""
        return min(1.0, max(_SHOWN_S, len(self.plans) / 100))

    def _go(self, nodes: list[RemoteNode]) -> None:
        """Let all start at one instant, by the clock of each."""
        slowest = max((node.clock.round_trip_s for node in nodes), default=0.0)
        lead = LEAD_S + 2 * slowest + LEAD_PER_NODE_S * len(nodes)
        self._at, self._wall = time.monotonic() + lead, time.time() + lead
        for node in nodes:
            node.send(Go(self._at + node.clock.monotonic_s))

    async def _follow(self, node: RemoteNode) -> None:
        """Listen to a node until its part of the phase has ended."""
        run = self.runs[node.name]
        while run.outcome is None:
            message = await node.hear(_QUIET_S, f"running phase {self.op}")
            match message:
                case Started(at=at):
                    run.start_s = at - node.clock.monotonic_s - self._at
                case Report():
                    self._report(run, message)
                case PhaseEnded(outcome=outcome, load=load):
                    run.outcome, run.load = outcome, load

    def _report(self, run: NodeRun, message: Report) -> None:
        if message.progress is not None:
            run.progress = message.progress
        for sample in message.samples:
            before = run.history[-1] if run.history else Sample(0.0, 0, 0, 0)
            run.history.append(
                Sample(
                    sample.elapsed_s,
                    before.read_bytes + sample.read_bytes,
                    before.written_bytes + sample.written_bytes,
                    before.operations + (sample.operations or 0),
                )
            )
            # In time as it goes by here: the clocks of nodes differ.
            at = self._wall + (run.start_s or 0.0) + sample.elapsed_s
            self.emit(sample_taken(self.op, at, sample, node=run.node))

    async def _watch(self) -> None:
        """Show all nodes together, and end a phase whose rate is steady."""
        while True:
            await asyncio.sleep(_SHOWN_S)
            progress = [run.progress for run in self.runs.values() if run.progress and run.failed is None]
            if not progress:
                continue
            self._forecasts.see(
                time.monotonic(),
                (
                    (self.coordinator.nodes[name].boot_id, run.progress)
                    for name, run in self.runs.items()
                    if run.progress and run.failed is None
                ),
            )
            self._show(progress)
            self._look_at_standstill(progress)
            syncing = any(each.syncing for each in progress)
            if self.longest_s is not None and self._steady.reached(self._together(), syncing=syncing):
                for node in self.coordinator.here:
                    node.send(Finish())

    def _look_at_standstill(self, progress: list[Progress]) -> None:
        """Have the cause looked for where nothing has moved on any node for a while."""
        moved = (sum(each.moved_bytes for each in progress), sum(each.operations for each in progress))
        now = time.monotonic()
        if moved != self._moved[1]:
            self._moved = (now, moved)
        elif now - self._moved[0] > STANDSTILL_S:
            self.coordinator.look_at_library(self.library)

    def _show(self, progress: list[Progress]) -> None:
        whole = Progress(
            syncing=all(each.syncing for each in progress),
            elapsed_s=max(each.elapsed_s for each in progress),
            read_bytes=sum(each.read_bytes for each in progress),
            written_bytes=sum(each.written_bytes for each in progress),
            operations=sum(each.operations for each in progress),
            # Nodes may be containers of one machine, whose memory each of them tells.
            unflushed_bytes=max((each.unflushed_bytes or 0 for each in progress), default=0) or None,
            flush_s=self._forecasts.seconds,
        )
        if whole.flush_s is None and whole.written_bytes:
            forecast = by_earlier_rate(whole.written_bytes, whole.elapsed_s, self.earlier_rate)
            whole = replace(whole, flush_s=forecast)
        moved, now = whole.moved_bytes, time.monotonic()
        since, before = self._shown
        rate = None
        if now - since >= 1.0:
            self._shown = (now, moved)
            rate = (moved - before) / (now - since) if since else None
        self.emit(phase_progress(self.op, whole, rate))

    def _together(self) -> list[Sample]:
        """What all nodes had done at each sample that all have given; those that failed left out."""
        histories = {
            run.node: run.history for run in self.runs.values() if run.failed is None and run.history
        }
        if self._joined_of != histories.keys():
            # A node came to, or failed: what it did is in every sum.
            self._joined, self._joined_of = [], frozenset(histories)
        common = min((len(history) for history in histories.values()), default=0)
        for number in range(len(self._joined), common):
            samples = [history[number] for history in histories.values()]
            self._joined.append(
                Sample(
                    max(sample.elapsed_s for sample in samples),
                    sum(sample.read_bytes for sample in samples),
                    sum(sample.written_bytes for sample in samples),
                    sum(sample.operations for sample in samples),
                )
            )
        return self._joined


QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p99_9": 0.999}


@dataclass(frozen=True, slots=True)
class Part:
    """What one node measured. `start_s` is when its streams started, by a clock that all parts share."""

    node: str
    outcome: Outcome
    start_s: float
    history: Sequence[Sample] = ()
    """What it had moved at each of its samples."""


def merged(parts: Sequence[Part]) -> Outcome:
    """Put the outcomes of nodes together; times count from the start of the node that started first.

    `seconds_last` is when the last stream of all ended, `seconds_first` when the first one did, and
    `bytes_first` what all had moved by then: of the node that it is on the engine says so, of the others
    it is interpolated between two samples. Latencies are put together count by count, and percentiles
    taken of the whole. Raises ValueError without parts.
    """
    begin = min(part.start_s for part in parts)
    outcomes = [part.outcome for part in parts]
    counts = _added(outcome.latency_counts for outcome in outcomes)
    seconds_first, bytes_first = _first(parts, begin)
    return Outcome(
        **of_all_nodes(outcomes),
        seconds_first=seconds_first,
        bytes_first=bytes_first,
        seconds_last=_latest(parts, begin, lambda outcome: outcome.seconds_last),
        wall_s=_latest(parts, begin, lambda outcome: outcome.wall_s),
        latency_us=percentiles(counts),
        latency_counts=counts,
        cached_fraction=_cached(outcomes),
        operations=_operations(outcomes),
        method=_method(parts),
    )


def percentiles(counts: Sequence[tuple[int, int]]) -> Latency | None:
    """Percentiles in microseconds of (nanoseconds, count) pairs in order.

    As HdrHistogram has them: of n requests, the time that at least ceil(q n) of them did not exceed.
    """
    if not counts:
        return None
    reached = list(accumulate(count for _, count in counts))
    found: dict[str, Any] = {
        name: counts[bisect_left(reached, max(1, math.ceil(quantile * reached[-1])))][0] / 1000
        for name, quantile in QUANTILES.items()
    }
    return Latency(**found, max=counts[-1][0] / 1000)


def moved_by(history: Sequence[Sample], at_s: float) -> float:
    """Bytes that a node had moved `at_s` after its start, between two samples in proportion."""
    before = Sample(0.0, 0, 0, 0)
    for sample in history:
        if sample.elapsed_s >= at_s:
            span = sample.elapsed_s - before.elapsed_s
            share = (at_s - before.elapsed_s) / span if span > 0 else 1.0
            return _moved(before) + max(0.0, share) * (_moved(sample) - _moved(before))
        before = sample
    return float(_moved(before))


def _moved(sample: Sample) -> int:
    return sample.read_bytes + sample.written_bytes


def _first(parts: Sequence[Part], begin: float) -> tuple[float | None, int | None]:
    """When the first stream of all ended, in seconds of I/O, and what all had moved by then."""
    ends = [each for part in parts if (each := _first_end(part)) is not None]
    if not ends:
        return None, None
    first, end, seconds, moved = min(ends, key=lambda each: each.end)
    others = sum(
        min(moved_by(part.history, end - part.start_s), part.outcome.bytes)
        for part in parts
        if part is not first
    )
    return first.start_s - begin + seconds, moved + round(others)


class _End(NamedTuple):
    """When the first stream of a node ended, by the shared clock; its seconds of I/O, and what had moved."""

    part: Part
    end: float
    seconds: float
    moved: int


def _first_end(part: Part) -> _End | None:
    seconds, moved = part.outcome.seconds_first, part.outcome.bytes_first
    walls = [stream.wall_s for stream in part.outcome.streams if stream.wall_s > 0]
    if seconds is None or moved is None or not walls:
        return None
    return _End(part, part.start_s + min(walls), seconds, moved)


def _latest(parts: Sequence[Part], begin: float, end: Callable[[Outcome], float | None]) -> float | None:
    ends = [(part.start_s - begin, end(part.outcome)) for part in parts]
    return max((start + seconds for start, seconds in ends if seconds is not None), default=None)


def _added(all_counts: Iterable[Sequence[tuple[int, int]]]) -> list[tuple[int, int]]:
    total: dict[int, int] = {}
    for counts in all_counts:
        for value, count in counts:
            total[value] = total.get(value, 0) + count
    return sorted(total.items())


def _cached(outcomes: Sequence[Outcome]) -> float | None:
    """The part of what was read that was cached; None if a node that read cannot say."""
    readers = [(outcome.cached_fraction, outcome.read_bytes) for outcome in outcomes if outcome.read_bytes]
    cached = [fraction * read for fraction, read in readers if fraction is not None]
    if not readers or len(cached) < len(readers):
        return None
    return sum(cached) / sum(read for _, read in readers)


def _operations(outcomes: Sequence[Outcome]) -> dict[str, OperationOutcome]:
    """Metadata operations by kind: all of them, over the time of the node that took longest."""
    operations: dict[str, OperationOutcome] = {}
    for outcome in outcomes:
        for name, done in outcome.operations.items():
            before = operations.get(name, OperationOutcome(0, 0.0))
            operations[name] = OperationOutcome(before.count + done.count, max(before.seconds, done.seconds))
    return operations


def _method(parts: Sequence[Part]) -> Method:
    """How the calls were made: as on the first node, unless another one did otherwise."""
    method = parts[0].outcome.method
    other = [part for part in parts if part.outcome.method != method]
    if not other:
        return method
    note = other[0].outcome.method.note or "the calls were made otherwise"
    alike = of_all_nodes([part.outcome.method for part in parts])
    return replace(method, **alike, note=f"on node {other[0].node}: {note}")
