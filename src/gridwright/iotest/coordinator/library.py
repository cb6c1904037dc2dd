"""Tests one library on all nodes at once, from the coordinator: opens, plans, runs the phases, cleans up."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import replace

from gridwright.errors import Problem
from gridwright.iotest import failures, figures, sweep
from gridwright.iotest.coordinator.coordinator import Coordinator
from gridwright.iotest.coordinator.figures import Whole, record_of_all, uneven
from gridwright.iotest.coordinator.layouts import lay_out_all, seen_by
from gridwright.iotest.coordinator.members import Members
from gridwright.iotest.coordinator.opening import OpenedLibrary, is_shared, open_library
from gridwright.iotest.coordinator.phase import GridPhase, NodeRun
from gridwright.iotest.coordinator.plan import (
    NodePlans,
    NodeShare,
    kept_readers,
    space_of,
    step_streams,
    streams_of,
    target_of,
)
from gridwright.iotest.coordinator.remote_node import LibraryFailedThere, NodeFailed, RemoteNode
from gridwright.iotest.engine import PhasePlan, StreamPlan
from gridwright.iotest.events import Emit
from gridwright.iotest.falling import falling_finding, with_fall
from gridwright.iotest.library_facts import (
    cached_finding,
    kept_finding,
    kept_set_finding,
    laid_out,
    left_finding,
    wrong_data,
)
from gridwright.iotest.measure import LibraryFailed, WrongData
from gridwright.iotest.messages import (
    Close,
    Closed,
    Prepare,
    Prepared,
    See,
    Seen,
    Share,
    Shared,
    Tidied,
    TidyAfter,
)
from gridwright.iotest.options import IotestOptions, LibraryTarget
from gridwright.iotest.scratch import FileSet
from gridwright.iotest.space import SpacePlan
from gridwright.iotest.stalls import stall_finding, stalls_of
from gridwright.iotest.stream_plan import readable, shared_name
from gridwright.messages import shared_fields
from gridwright.runs.iotest_events import LibraryBegun, PhaseBegun, PhaseDone
from gridwright.runs.phase_record import Op, PhaseRecord

_CLOSE_AFTER_STOP_S = 15.0


class GridLibraryTest:
    """One library's test on all nodes; emits the events that one node's test does, and names nodes."""

    def __init__(
        self,
        coordinator: Coordinator,
        target: LibraryTarget,
        options: IotestOptions,
        emit: Emit,
        name: str = "",
    ) -> None:
        shares = [
            NodeShare(node.name, node.cores, streams_of(options, node.cores))
            for node in coordinator.nodes.values()
        ]
        self._coordinator = coordinator
        self._given = target
        self._target = target_of(target, [share.cores for share in shares])
        self._options = options
        self._emit = emit
        self._run = secrets.token_hex(8)
        self._name = name
        self._seed = options.seed if options.seed is not None else secrets.randbits(62)
        self._members = Members(coordinator, target, shares, emit, options.on_node_failure)
        self._memory_backed = False
        self._shared = False
        self._space = SpacePlan(0, 0)
        self._readable: dict[str, list[StreamPlan]] = {}
        self._plans = NodePlans((), 0)
        self._shared_names: dict[str, str] = {}
        self._written: dict[str, int] = {}
        """Bytes of the files that each node wrote last, as far as it told."""
        self._phases = 0
        self._layout = target.layout
        self._layout_seen = False

    async def run(self) -> None:
        """Run all phases. Raises LibraryFailed, WrongData, NotEnoughSpace and NodesFailed."""
        try:
            fields = shared_fields(self._target, LibraryBegun)
            fields["layout"] = self._layout.asked if self._layout else None
            streams = max(share.streams for share in self._members.shares)
            self._emit(LibraryBegun(streams=streams, **fields))
            async with self._coordinator.heeding_stop():
                phases = await self._prepare()
            if self._options.sweep:
                await self._sweep(phases)
                phases = [op for op in phases if op not in sweep.SWEPT]
            for op in phases:
                if self._members.stopped:
                    break
                await self._phase(op, None)
        finally:
            await self._close()

    async def _prepare(self) -> list[Op]:
        """Open the library, find files to read, plan sizes; returns the phases to run."""
        members = self._members
        opened = await open_library(
            members, self._given, self._options, self._run, self._emit, called=self._name
        )
        if members.stopped:
            return []
        self._memory_backed = opened.memory_backed
        phases = list(self._options.phases)
        if {"read", "mixed"} & set(phases) and "write" not in phases and not self._use_kept(opened):
            phases.insert(0, "write")
            self._emit(laid_out())
        answers = await members.ask(Prepare(), Prepared, "making a directory")
        members.shares = [
            replace(share, directory=answers[share.node].directory if share.node in answers else "")
            for share in members.shares
        ]
        if members.stopped:
            return []
        if self._layout is not None:
            await lay_out_all(members, self._layout)
            if members.stopped:
                return []
        self._shared = await is_shared(members, self._given, self._options, self._emit)
        names = set(members.names)
        self._space = space_of(
            {name: room for name, room in opened.rooms.items() if name in names},
            members.shares_here,
            self._target,
            self._options,
            shared=self._shared,
        )
        self._plans = NodePlans(members.shares, self._space.file_bytes)
        return phases

    def _use_kept(self, opened: OpenedLibrary) -> bool:
        """Take the kept sets of all nodes, where each has one of the same test."""
        kept = [opened.kept.get(name) for name in self._members.names]
        sets = [each for each in kept if each is not None]
        if self._options.shared_file or len(sets) < len(kept) or len({each.files.seed for each in sets}) != 1:
            return False
        self._seed = sets[0].files.seed
        for name, each in zip(self._members.names, sets, strict=True):
            self._readable[name] = kept_readers(each, self._options.block_bytes)
            self._emit(kept_set_finding(len(self._readable[name]), each.directory, each.bytes))
        return True

    async def _sweep(self, phases: list[Op]) -> None:
        rates: dict[Op, list[tuple[int, float | None]]] = {}
        for streams in sweep.counts(self._target.cores):
            for op in sweep.SWEPT:
                if op in phases and not self._members.stopped:
                    result = await self._phase(op, streams)
                    rates.setdefault(op, []).append((streams, result.rate_last_bytes_per_s))
        for op, points in rates.items():
            self._emit(sweep.summarise(op, points, self._target))

    async def _phase(self, op: Op, streams: int | None) -> PhaseRecord:
        """Run one phase on all nodes and emit its record."""
        if self._options.shared_file and op in {"write", "mixed"}:
            await self._share(op)
        plans = self._plan(op, streams)
        members = [name for name in self._members.names if plans.get(name)]
        seconds, per_stream = figures.limits(self._options, op)
        begun = PhaseBegun(
            limit_s=seconds,
            limit_bytes=per_stream,
            op=op,
            started=time.time(),
            asked=figures.asked(self._options, sum(share.streams for share in self._members.shares)),
            used=figures.planned(
                self._options,
                streams=sum(len(plans[name]) for name in members),
                seed=self._seed,
                file_bytes=max((plan.file_bytes for name in members for plan in plans[name]), default=None),
            ),
        )
        self._emit(begun)
        most = self._space.small_files if op == "metadata" else 0
        orders = {
            name: PhasePlan(tuple(plans[name]), self._seed, per_stream, seconds, most) for name in members
        }
        longest = self._options.until_steady_s if op in sweep.SWEPT else None
        rates, filesystem = (
            self._coordinator.write_rates,
            self._coordinator.filesystem_of(self._given.library),
        )
        phase = GridPhase(
            self._coordinator,
            op,
            orders,
            self._emit,
            longest,
            library=self._given.library,
            earlier_rate=rates.get(filesystem) if op == "write" else None,
        )
        steady = await phase.run()
        lost, stopped = self._members.lost, self._members.stopped
        whole = Whole(begun, self._memory_backed, steady, lost, stopped, here=phase.here)
        shares = [replace(share, streams=step_streams(share, streams)) for share in self._members.shares]
        record = with_fall(record_of_all(phase.runs, shares, whole), seconds, phase.history)
        self._emit(PhaseDone(phase=record))
        if op == "write":
            self._written |= {name: run.written_bytes for name, run in phase.runs.items()}
            if record.rate_last_bytes_per_s:
                rates[filesystem] = record.rate_last_bytes_per_s
        failed = {name: error for name, run in phase.runs.items() if (error := self._error(run)) is not None}
        await self._members.find_causes(failed)
        self._after(op, plans, phase.runs, record)
        if op == "write":
            await self._see_layout()
        return record

    async def _see_layout(self) -> None:
        """Ask once which layout the files of a node got."""
        known = (node for node in self._members.here if self._readable.get(node.name))
        node = next(known, None)
        if self._layout is None or self._layout_seen or node is None or self._members.stopped:
            return
        self._layout_seen = True
        files = self._readable[node.name]
        async with self._coordinator.heeding_stop():
            for told in await seen_by(self._members, node, self._layout, files, self._given.library):
                self._emit(told)

    async def _share(self, op: str) -> None:
        """Have one node make the file that all streams share, and the others wait until they see it.

        Where its node is lost later, the others go on with the file: it is the file system's.
        """
        self._phases += 1
        instead_of = self._shared_names.get(op)
        name = self._shared_names[op] = shared_name(self._phases)
        order = Share(name, instead_of)
        limit = self._coordinator.limits.order_s
        for holder in self._members.shares_here:
            node = self._coordinator.nodes[holder.node]
            results = await self._coordinator.on_each(
                [node], lambda node: node.ask(order, Shared, limit, "making a file")
            )
            failed = {key: each for key, each in results.items() if isinstance(each, NodeFailed)}
            self._members.settle(failed)
            if not failed:
                self._plans = replace(self._plans, shared=f"{holder.directory}/{name}")
                break
        if self._plans.shared is not None:
            await self._members.ask(See([self._plans.shared]), Seen, "looking for a file")

    def _plan(self, op: str, streams: int | None) -> dict[str, list[StreamPlan]]:
        if op == "write":
            return self._plans.writers(streams)
        if op == "metadata":
            return self._plans.metadata()
        files = {name: self._readable[name] for name in self._members.names if name in self._readable}
        readers = self._plans.readers(files, streams, pairs=self._options.pairs)
        if not readers:
            raise LibraryFailed(
                Problem(
                    what=f"library {self._given.library}: there is not one whole block to read",
                    where=self._given.path,
                    remedy="give the write phase more time (--seconds) or a --size",
                )
            )
        return readers if op == "read" else self._plans.mixed(readers)

    def _after(
        self, op: str, plans: dict[str, list[StreamPlan]], runs: dict[str, NodeRun], record: PhaseRecord
    ) -> None:
        """Say what is to be said of a phase; what was written can be read."""
        if op == "write":
            self._readable = {
                name: readable(plans[name], run.outcome, self._options.block_bytes)
                for name, run in runs.items()
                if run.failed is None and run.outcome is not None
            }
        for name, run in runs.items():
            if run.outcome is None:
                continue
            for stall in stalls_of(run.outcome):
                self._emit(
                    stall_finding(
                        stall, library=self._given.library, op=op, streams=len(plans[name]), node=name
                    )
                )
            if run.outcome.mismatch:
                self._emit(wrong_data(run.outcome.mismatch, node=name))
        self._members.settle(
            {name: error for name, run in runs.items() if (error := self._error(run)) is not None}
        )
        if any(run.outcome is not None and run.outcome.mismatch for run in runs.values()):
            raise WrongData
        if record.cached:
            self._emit(cached_finding(self._given.library, op, record.cached_fraction or 0.0))
        for fell in falling_finding(self._given.library, record):
            self._emit(fell)
        if not self._members.stopped and (finding := uneven(self._given.library, record)) is not None:
            self._emit(finding)

    def _error(self, run: NodeRun) -> NodeFailed | None:
        """How a node failed in a phase: as a whole, or a call on the library."""
        if run.failed is not None or run.outcome is None or not run.outcome.failure:
            return run.failed
        problem = failures.of_outcome(
            run.outcome.failure,
            library=self._given.library,
            direct=self._options.engine == "direct",
        )
        return LibraryFailedThere(run.node, problem)

    async def _close(self) -> None:
        """Have all nodes keep or remove their files, and one remove those of nodes that cannot."""
        keep = self._options.keep and not self._members.stopped and bool(self._readable)
        limit = _CLOSE_AFTER_STOP_S if self._members.stopped else self._coordinator.limits.order_s
        results = await self._coordinator.on_each(
            self._members.here,
            lambda node: node.ask(self._closing(node, keep), Closed, limit, "removing files"),
        )
        for name, result in results.items():
            if isinstance(result, LibraryFailedThere):
                self._emit(replace(result.problem, what=f"node {name}: {result.reason}"))
        gone = list(self._members.lost)
        survivor = next(iter(self._members.here), None)
        left = {name for name, result in results.items() if isinstance(result, NodeFailed)}
        if gone and survivor is not None and self._shared:
            tidied = await self._coordinator.on_each(
                [survivor], lambda node: node.ask(TidyAfter(gone), Tidied, limit, "removing files")
            )
            gone = [] if not any(isinstance(each, NodeFailed) for each in tidied.values()) else gone
        directories = {share.node: share.directory for share in self._members.shares if share.directory}
        self._emit_left({name: directories[name] for name in directories if name in left | set(gone)})

    def _emit_left(self, directories: Mapping[str, str]) -> None:
        """Name what could not be removed, with its size: nobody else knows that it is the test's."""
        if directories:
            self._emit(left_finding(self._given.library, directories, self._written))

    def _closing(self, node: RemoteNode, keep: bool) -> Close:
        files = self._readable.get(node.name) or []
        if not keep or not files:
            return Close()
        sizes = tuple(plan.file_bytes for plan in files)
        share = next(share for share in self._members.shares if share.node == node.name)
        self._emit(kept_finding(len(sizes), share.directory, sum(sizes)))
        return Close(FileSet(self._seed, self._options.block_bytes, sizes, files[0].file))
