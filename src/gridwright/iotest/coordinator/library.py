"""Tests one library on all nodes at once, from the coordinator: opens, plans, runs the phases, cleans up.

Layouts of files in a test on several nodes: each node runs what its kind of file system asks for.

Opens a library on all nodes of a test, and finds out whether they see the same one.

The record of a phase on several nodes: the figures of all, and beside them those of each.

Tells what disturbed the nodes of a phase, where several of them may be containers of one machine.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from gridwright.commands import CommandOutput
from gridwright.errors import ExitStatus, Finding, GridwrightError, Problem
from gridwright.filesystems.health import Run
from gridwright.interference.judge import disturbances, on_node
from gridwright.iotest.coordinator.coordinator import Coordinator
from gridwright.iotest.coordinator.members import (
    Members,
    NodePlans,
    NodeShare,
    reused_readers,
    space_of,
    step_streams,
    streams_of,
    target_of,
)
from gridwright.iotest.coordinator.phase import GridPhase, NodeRun, Part, merged
from gridwright.iotest.coordinator.remote_node import LibraryFailedThere, NodeFailed, RemoteNode
from gridwright.iotest.engine import PhasePlan, StreamPlan
from gridwright.iotest.library_facts import (
    cached_finding,
    left_finding,
    outcome_problem,
    reading_set_finding,
    retained_set_finding,
    written_first_finding,
    wrong_data,
)
from gridwright.iotest.measure import LibraryFailed, WrongData, lay_out, seen
from gridwright.iotest.messages import (
    Close,
    Closed,
    CommandRan,
    Emit,
    Open,
    Prepare,
    Prepared,
    RetainedSet,
    RunCommand,
    See,
    Seen,
    Share,
    Shared,
    Tidied,
    TidyAfter,
)
from gridwright.iotest.messages import Opened as OpenedThere
from gridwright.iotest.options import IotestOptions, LibraryTarget, TriedLayout
from gridwright.iotest.outcome import (
    Outcome,
    make_phase_record,
    phase_figures,
    phase_limits,
    planned_use,
    requested_settings,
)
from gridwright.iotest.scratch import MARKER, FileSet
from gridwright.iotest.steadiness import burst_finding, falling_finding, stall_finding, stalls_of, with_levels
from gridwright.iotest.stream_plan import (
    SWEPT,
    Room,
    SpacePlan,
    readable,
    shared_name,
    stream_counts,
    summarise_sweep,
)
from gridwright.messages import shared_fields
from gridwright.runs.iotest_events import DeviceDetected, LayoutSeen, LibraryBegun, PhaseBegun, PhaseDone
from gridwright.runs.load_record import Interference, NodeLoad
from gridwright.runs.phase_record import NodePhaseRecord, Op, PhaseRecord, Status, Steady
from gridwright.units import format_rate


def disturbers(
    loads: Mapping[str, NodeLoad], here: NodeLoad, *, sequential: bool
) -> dict[str, list[Interference]]:
    """What disturbed each node; `here` is the machine of the coordinator.

    A container sees what its machine does, but not who: other nodes of this test on the same machine are no
    disturbers. On the machine of the coordinator it is the coordinator that sees the others.
    """
    found = {}
    for node, load in loads.items():
        beside = sum(
            other.own_s for name, other in loads.items() if name != node and other.machine == load.machine
        )
        seen = load.own_s + load.foreign_s + load.kernel_s
        busy = seen if load.machine == here.machine else max(seen, load.busy_s - beside)
        found[node] = on_node(node, disturbances(replace(load, busy_s=busy), sequential=sequential))
        if load.machine == here.machine:
            known = {each.kind for each in found[node]}
            machine = disturbances(replace(here, devices=[], runs=[]), sequential=sequential)
            found[node] += on_node(
                node, [interference for interference in machine if interference.kind not in known]
            )
    return found


UNEVEN, UNEVEN_SIGMAS = 0.2, 4.0
"""A node is reported whose rate per core is below the median of the others by this part of it, and by so many
standard deviations of theirs (1.4826 times the median absolute deviation): its network, its client or the
targets of its files differ from theirs."""


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
    interferences = disturbers(loads, whole.here, sequential=whole.begun.op != "metadata")
    nodes = [_node(share, runs.get(share.node), whole, interferences.get(share.node, [])) for share in shares]
    if not through:
        status: Status = "interrupted" if whole.stopped else "failed"
        return PhaseRecord(**shared_fields(whole.begun, PhaseRecord), status=status, nodes=nodes)
    outcome = merged([_part(runs[share.node]) for share in through])
    record = make_phase_record(
        whole.begun,
        outcome,
        cores=sum(share.cores for share in through),
        memory_backed=whole.memory_backed,
        steady=whole.steady,
    )
    return replace(
        record,
        used=replace(record.used, streams=len(outcome.streams)),
        disturbances=[interference for node in nodes for interference in node.disturbances],
        disturbed=any(node.disturbed for node in nodes),
        nodes=nodes,
    )


def _outcome(run: NodeRun) -> Outcome:
    if run.outcome is None:
        raise RuntimeError(f"node {run.node} has no outcome")
    return run.outcome


def _part(run: NodeRun) -> Part:
    return Part(run.node, _outcome(run), run.start_s or 0.0, run.history)


def _node(
    share: NodeShare, run: NodeRun | None, whole: Whole, interferences: list[Interference]
) -> NodePhaseRecord:
    node, cores = share.node, share.cores
    if run is None or not counts(run):
        reason = _reason(node, run, whole.lost)
        return NodePhaseRecord(node=node, cores=cores, streams=share.streams, status="failed", reason=reason)
    outcome = _outcome(run)
    measured = phase_figures(whole.begun.op, outcome, cores=cores, memory_backed=whole.memory_backed)
    measured = replace(measured, load=run.load, disturbances=interferences, disturbed=bool(interferences))
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
    slowest = min(rates, key=lambda name: rates[name])
    others = [rate for name, rate in rates.items() if name != slowest]
    usual = median(others)
    deviation = 1.4826 * median(abs(rate - usual) for rate in others)
    if rates[slowest] >= usual - max(UNEVEN * usual, UNEVEN_SIGMAS * deviation):
        return None
    low, middle = (
        (f"{rates[slowest]:.0f}", f"{usual:.0f} operations/s")
        if counted
        else (format_rate(rates[slowest], per_core=True), format_rate(usual, per_core=True))
    )
    return Finding(
        "warning",
        "uneven-nodes",
        f"library {library}, phase {record.op}: node {slowest} gives {low}, and the median of the "
        f"{'others' if len(others) > 1 else 'other'} is {middle}",
        "compare its network, mount options and client with those of another node",
    )


@dataclass(slots=True)
class OpenedLibrary:
    """What the nodes say of a library."""

    memory_backed: bool = False
    rooms: dict[str, Room] = field(default_factory=dict)
    kept: dict[str, RetainedSet | None] = field(default_factory=dict)
    """The newest set of files that each node kept."""


async def open_library(
    members: Members,
    target: LibraryTarget,
    options: IotestOptions,
    run: str,
    emit: Emit,
    *,
    called: str = "",
) -> OpenedLibrary:
    """Have all nodes look at the library. Raises LibraryFailed and NodesFailed."""
    # Whether a rate is steady is seen on all nodes together.
    order = Open(target, replace(options, until_steady_s=None), run, called)
    answers = await members.ask(order, OpenedThere, "opening the library")
    opened = OpenedLibrary()
    told = set()
    for name, answer in answers.items():
        if not opened.rooms:
            emit(DeviceDetected(device=answer.device))
        opened.rooms[name] = answer.room
        opened.kept[name] = answer.kept
        opened.memory_backed |= answer.memory_backed
        for finding in answer.findings:
            if finding.text not in told:
                told.add(finding.text)
                emit(finding)
    return opened


async def is_shared(members: Members, target: LibraryTarget, options: IotestOptions, emit: Emit) -> bool:
    """Find out whether all nodes see the directory that one of them has made.

    Raises LibraryFailed where the test needs that and it is not so.
    """
    first, *others = members.shares_here
    if not others:
        return True
    paths = [f"{first.directory}/{MARKER}"]
    answers = await members.ask(See(paths), Seen, "looking for a directory")
    blind = [name for name, answer in answers.items() if name != first.node and not all(answer.seen)]
    if not blind or members.stopped:
        return not blind
    who = f"{', '.join(blind[:3])}{' and others' if len(blind) > 3 else ''}"
    see = f"{who} {'does' if len(blind) == 1 else 'do'} not see what {first.node} has made"
    if options.pairs or options.shared_file:
        flag = "--pairs" if options.pairs else "--shared-file"
        raise LibraryFailed(
            Problem(
                what=f"library {target.library}: {flag} needs one that all nodes share, and {see} there",
                where=target.path,
                remedy=f"mount the same file system on all nodes, or leave out {flag}",
            )
        )
    if len(blind) < len(others):
        emit(_partly_shared(target, see))
    return False


def _partly_shared(target: LibraryTarget, see: str) -> Finding:
    return Finding(
        "warning",
        "library-not-shared",
        f"library {target.library}: {see} in {target.path}, though other nodes do",
        "mount the same file system on all nodes",
    )


_ANSWER_S = 10.0
"""For an answer to come, beyond the time that the command may take."""


async def lay_out_all(members: Members, layout: TriedLayout) -> None:
    """Have each node give its scratch directory the layout, before files are made in it.

    Raises GridwrightError where a file system refuses it, LibraryFailed and NodesFailed.
    """
    directories = {share.node: share.directory for share in members.shares_here}
    runs = {node.name: _runs_on(node) for node in members.here}
    refused: list[GridwrightError] = []

    async def set_on(node: RemoteNode) -> None:
        try:
            await asyncio.to_thread(lay_out, layout, runs[node.name], directories[node.name])
        except GridwrightError as error:
            # Raised when all have answered: a node is asked one thing at a time.
            refused.append(error)

    results = await members.coordinator.run_on_nodes(members.here, set_on)
    if members.stopped:
        return
    if refused:
        raise refused[0]
    failed = {name: result for name, result in results.items() if isinstance(result, NodeFailed)}
    await members.find_causes(failed)
    members.settle(failed)


async def seen_by(
    members: Members, node: RemoteNode, layout: TriedLayout, files: Sequence[StreamPlan], library: str
) -> list[LayoutSeen | Finding]:
    """The layout that a file of one node has; nothing where the node is lost meanwhile.

    Raises GridwrightError where it is not told, LibraryFailed and NodesFailed.
    """
    run = _runs_on(node)
    try:
        return await asyncio.to_thread(lambda: list(seen(layout, run, files, library)))
    except NodeFailed as failed:
        members.settle({node.name: failed})
    except GridwrightError:
        if not members.stopped:
            raise
    return []


def _runs_on(node: RemoteNode) -> Run:
    """Runs commands on a node; for threads beside the loop that serves it. Raises NodeFailed, too."""
    loop = asyncio.get_running_loop()

    def run(command: Sequence[str], *, timeout_s: float = 30.0) -> CommandOutput:
        order = RunCommand(list(command), timeout_s)
        asked = node.ask(order, CommandRan, timeout_s + _ANSWER_S, f"running {command[0]}")
        try:
            answer = asyncio.run_coroutine_threadsafe(asked, loop).result()
        except LibraryFailedThere as failed:
            raise GridwrightError(failed.problem, status=ExitStatus.ENVIRONMENT) from failed
        return CommandOutput(answer.status, answer.stdout.encode(), answer.stderr.encode())

    return run


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
            fields["layout"] = self._layout.requested if self._layout else None
            streams = max(share.streams for share in self._members.shares)
            self._emit(LibraryBegun(streams=streams, **fields))
            async with self._coordinator.heeding_stop():
                phases = await self._prepare()
            if self._options.sweep:
                await self._sweep(phases)
                phases = [op for op in phases if op not in SWEPT]
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
        if {"read", "mixed"} & set(phases) and "write" not in phases and not self._reuse_file_sets(opened):
            phases.insert(0, "write")
            self._emit(written_first_finding())
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

    def _reuse_file_sets(self, opened: OpenedLibrary) -> bool:
        """Take the kept sets of all nodes, where each has one of the same test."""
        kept = [opened.kept.get(name) for name in self._members.names]
        sets = [each for each in kept if each is not None]
        if self._options.shared_file or len(sets) < len(kept) or len({each.files.seed for each in sets}) != 1:
            return False
        self._seed = sets[0].files.seed
        for name, each in zip(self._members.names, sets, strict=True):
            self._readable[name] = reused_readers(each, self._options.block_bytes)
            self._emit(reading_set_finding(len(self._readable[name]), each.directory, each.bytes))
        return True

    async def _sweep(self, phases: list[Op]) -> None:
        rates: dict[Op, list[tuple[int, float | None]]] = {}
        for streams in stream_counts(self._target.cores):
            for op in SWEPT:
                if op in phases and not self._members.stopped:
                    result = await self._phase(op, streams)
                    rates.setdefault(op, []).append((streams, result.rate_last_bytes_per_s))
        for op, points in rates.items():
            self._emit(summarise_sweep(op, points, self._target))

    async def _phase(self, op: Op, streams: int | None) -> PhaseRecord:
        """Run one phase on all nodes and emit its record."""
        if self._options.shared_file and op in {"write", "mixed"}:
            await self._share(op)
        plans = self._plan(op, streams)
        members = [name for name in self._members.names if plans.get(name)]
        seconds, per_stream = phase_limits(self._options, op)
        begun = PhaseBegun(
            limit_s=seconds,
            limit_bytes=per_stream,
            op=op,
            started=time.time(),
            asked=requested_settings(self._options, sum(share.streams for share in self._members.shares)),
            used=planned_use(
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
        longest = self._options.until_steady_s if op in SWEPT else None
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
        record = with_levels(record_of_all(phase.runs, shares, whole), seconds, phase.history)
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
            results = await self._coordinator.run_on_nodes(
                [node], lambda node: node.ask(order, Shared, limit, "making a file")
            )
            failed = {key: result for key, result in results.items() if isinstance(result, NodeFailed)}
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
        for finding_of in (burst_finding, falling_finding):
            for found in finding_of(self._given.library, record):
                self._emit(found)
        if not self._members.stopped and (finding := uneven(self._given.library, record)) is not None:
            self._emit(finding)

    def _error(self, run: NodeRun) -> NodeFailed | None:
        """How a node failed in a phase: as a whole, or a call on the library."""
        if run.failed is not None or run.outcome is None or not run.outcome.failure:
            return run.failed
        problem = outcome_problem(
            run.outcome.failure,
            library=self._given.library,
            direct=self._options.engine == "direct",
        )
        return LibraryFailedThere(run.node, problem)

    async def _close(self) -> None:
        """Have all nodes keep or remove their files, and one remove those of nodes that cannot."""
        keep = self._options.keep and not self._members.stopped and bool(self._readable)
        limit = _CLOSE_AFTER_STOP_S if self._members.stopped else self._coordinator.limits.order_s
        results = await self._coordinator.run_on_nodes(
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
            tidied = await self._coordinator.run_on_nodes(
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
        self._emit(retained_set_finding(len(sizes), share.directory, sum(sizes)))
        return Close(FileSet(self._seed, self._options.block_bytes, sizes, files[0].file))
