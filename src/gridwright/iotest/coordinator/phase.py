"""Runs one phase on all nodes: each prepares, all start at one instant, and their results come together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gridwright.interference.watch import Moment
from gridwright.iotest.coordinator.coordinator import Coordinator
from gridwright.iotest.coordinator.remote_node import NodeFailed, RemoteNode
from gridwright.iotest.engine import PhasePlan, Sample
from gridwright.iotest.events import Emit, phase_progress, sample_taken
from gridwright.iotest.flushing import MachineForecasts, by_earlier_rate
from gridwright.iotest.messages import Finish, Go, PhaseEnded, Report, RunPhase, Started
from gridwright.iotest.outcome import Outcome
from gridwright.iotest.steadiness import Steadiness
from gridwright.runs.iotest_events import Progress
from gridwright.runs.load_record import NodeLoad
from gridwright.runs.phase_record import Steady

LEAD_S = 0.05
"""The start is at least so far ahead that the order for it is there before."""
LEAD_PER_NODE_S = 0.0005
"""More for each node: the orders are written one after the other (measured: 0.1 ms each)."""
QUIET_S = 45.0
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
            message = await node.hear(QUIET_S, f"running phase {self.op}")
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
