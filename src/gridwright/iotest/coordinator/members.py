"""The nodes that test a library: which of them writes and reads what, and which have failed.

No node is asked for the plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gridwright.errors import Finding, Problem
from gridwright.iotest.coordinator.coordinator import Coordinator
from gridwright.iotest.coordinator.remote_node import Given, LibraryFailedThere, NodeFailed, RemoteNode
from gridwright.iotest.engine import StreamPlan
from gridwright.iotest.measure import LibraryFailed
from gridwright.iotest.messages import Emit, Numbered, RetainedSet
from gridwright.iotest.options import IotestOptions, LibraryTarget, OnNodeFailure
from gridwright.iotest.stream_plan import Place, Room, SpacePlan, divide, stream_counts


@dataclass(frozen=True, slots=True)
class NodeShare:
    """A node's part in a test: its cores, streams and scratch directory."""

    node: str
    cores: int
    streams: int
    directory: str = ""


def streams_of(options: IotestOptions, cores: int) -> int:
    """Streams of one node: what the user said, else one for each core of that node."""
    return options.streams if options.streams is not None else cores


def step_streams(share: NodeShare, streams: int | None) -> int:
    """Streams of one node in a step of a sweep; its own number where there is no sweep."""
    return share.streams if streams is None else streams


def target_of(target: LibraryTarget, cores: Sequence[int]) -> LibraryTarget:
    """A library as all nodes together see it; `cores` of each node."""
    alike = len(set(cores)) == 1
    return LibraryTarget(
        library=target.library,
        path=target.path,
        filesystem=target.filesystem,
        requires_bytes_per_s_per_core=target.requires_bytes_per_s_per_core,
        cores=max(cores),
        nodes=len(cores),
        all_cores=None if alike else sum(cores),
        layout=target.layout,
    )


def space_of(
    rooms: Mapping[str, Room],
    shares: Sequence[NodeShare],
    target: LibraryTarget,
    options: IotestOptions,
    *,
    shared: bool,
) -> SpacePlan:
    """File sizes: of a file system that all share, its room is divided among all streams once.

    Otherwise the node with the least room decides for all, so that all do the same. Raises NotEnoughSpace.
    """

    def most(share: NodeShare) -> int:
        # A mixed phase takes two streams, whatever was asked for.
        return max(2, stream_counts(share.cores)[-1] if options.sweep else share.streams)

    path = Path(target.path)
    if shared:
        known = [room.inodes for room in rooms.values() if room.inodes is not None]
        room = Room(min(room.usable_bytes for room in rooms.values()), min(known, default=None))
        return divide(room, path, options, library=target.library, streams=sum(map(most, shares)))
    plans = [
        divide(rooms[share.node], path, options, library=target.library, streams=most(share))
        for share in shares
    ]
    return SpacePlan(min(plan.file_bytes for plan in plans), min(plan.small_files for plan in plans))


def ring(names: Sequence[str], *, pairs: bool) -> dict[str, str]:
    """Whose files each node reads: its own, or, in pairs, those of the node before it."""
    return {name: names[index - 1] if pairs else name for index, name in enumerate(names)}


@dataclass(frozen=True, slots=True)
class NodePlans:
    """Makes the streams of each node.

    `shares` are those of all nodes that began, in order: a node that failed keeps its numbers, so that
    those of the others stay what is stamped into their files.
    """

    shares: Sequence[NodeShare]
    file_bytes: int
    shared: str | None = None
    """The path of the file that all streams share; None where each has one of its own."""

    def writers(self, streams: int | None) -> dict[str, list[StreamPlan]]:
        """A write phase; `streams` of each node in a sweep."""
        counts = [step_streams(share, streams) for share in self.shares]
        return {
            share.node: place.writers(count, self.file_bytes)
            for share, place, count in zip(self.shares, self._places(counts), counts, strict=True)
        }

    def mixed(self, readers: Mapping[str, Sequence[StreamPlan]]) -> dict[str, list[StreamPlan]]:
        """A mixed phase: on each node half of the streams write while half read; it takes two."""
        halves = [max(1, share.streams // 2) for share in self.shares]
        found = {}
        for share, place, half in zip(self.shares, self._places(halves), halves, strict=True):
            reading = list(readers.get(share.node, ()))[: max(1, share.streams - half)]
            found[share.node] = reading + place.mixed_writers(half, self.file_bytes)
        return found

    def metadata(self) -> dict[str, list[StreamPlan]]:
        """A metadata phase."""
        counts = [share.streams for share in self.shares]
        return {
            share.node: place.metadata(share.streams)
            for share, place in zip(self.shares, self._places(counts), strict=True)
        }

    def readers(
        self, readable: Mapping[str, Sequence[StreamPlan]], streams: int | None, *, pairs: bool
    ) -> dict[str, list[StreamPlan]]:
        """A read phase on the nodes that have something to read."""
        with_files = [share for share in self.shares if readable.get(share.node)]
        sources = ring([share.node for share in with_files], pairs=pairs)
        return {
            share.node: list(readable[sources[share.node]])[: step_streams(share, streams)]
            for share in with_files
        }

    def _places(self, counts: Sequence[int]) -> list[Place]:
        first, places = 0, []
        for share, count in zip(self.shares, counts, strict=True):
            places.append(Place(share.directory, first, self.shared))
            first += count
        return places


def reused_readers(kept: RetainedSet, block: int) -> list[StreamPlan]:
    """Readers of the set of files that a node kept."""
    return Place(kept.directory).reused_readers(kept.files.file_bytes, block, kept.files.first_file)


class NodesFailed(Exception):
    """A node failed, and the user wants the test to stop then."""


class Members:
    """The nodes of a library's test: asked together, and left out one by one where they fail."""

    def __init__(
        self,
        coordinator: Coordinator,
        target: LibraryTarget,
        shares: Sequence[NodeShare],
        emit: Emit,
        on_failure: OnNodeFailure,
    ) -> None:
        """Nodes that are lost already take no part."""
        self.coordinator = coordinator
        self.shares = list(shares)
        self.lost: dict[str, str] = {}
        """Nodes that take no further part in this library's test, and why."""
        self._target = target
        self._emit = emit
        self._on_failure = on_failure
        coordinator.tell_of_lost()
        for node in coordinator.nodes.values():
            if node.failure is not None:
                self.lost[node.name] = node.failure

    @property
    def stopped(self) -> bool:
        """Whether the user wants the test to end."""
        return self.coordinator.stop.is_set()

    @property
    def here(self) -> list[RemoteNode]:
        """The nodes that take part, in order."""
        nodes = (self.coordinator.nodes[share.node] for share in self.shares)
        return [node for node in nodes if node.here and node.name not in self.lost]

    @property
    def names(self) -> list[str]:
        """Their names."""
        return [node.name for node in self.here]

    @property
    def shares_here(self) -> list[NodeShare]:
        """The parts of those that take part."""
        names = set(self.names)
        return [share for share in self.shares if share.node in names]

    async def ask(self, message: Numbered, kind: type[Given], doing: str) -> dict[str, Given]:
        """Ask all; by name, what those answer that do not fail. Raises LibraryFailed and NodesFailed."""
        limit = self.coordinator.limits.order_s
        results = await self.coordinator.run_on_nodes(
            self.here, lambda node: node.ask(message, kind, limit, doing)
        )
        failed = {name: result for name, result in results.items() if isinstance(result, NodeFailed)}
        await self.find_causes(failed)
        self.settle(failed)
        return {name: result for name, result in results.items() if not isinstance(result, NodeFailed)}

    async def find_causes(self, failed: Mapping[str, NodeFailed]) -> None:
        """Look for what is wrong first, where nodes are lost or failed: it is told before them."""
        gone = [name for name in self.coordinator.nodes if self._is_news(name, failed)]
        if gone and not self.stopped:
            silent = [name for name in gone if self.coordinator.nodes[name].failure is not None]
            await self.coordinator.causes_for(self._target.library, silent)

    def _is_news(self, name: str, failed: Mapping[str, NodeFailed]) -> bool:
        node = self.coordinator.nodes[name]
        return name not in self.lost and (name in failed or (node.failure is not None and not node.told))

    def settle(self, failed: Mapping[str, NodeFailed]) -> None:
        """Leave out and name nodes that failed.

        Raises LibraryFailed if none is left, and NodesFailed if one is enough.
        """
        before = len(self.lost)
        for share in self.shares:
            node = self.coordinator.nodes[share.node]
            error = failed.get(share.node)
            if share.node in self.lost or (error is None and node.failure is None):
                continue
            self.lost[share.node] = node.failure or (error.reason if error else "")
            if self.stopped:
                continue
            if node.failure is None and isinstance(error, LibraryFailedThere):
                self._emit(_failed_here(share.node, error))
        if self.stopped:
            return
        self.coordinator.tell_of_lost()
        if not self.here:
            cause = self._cause()
            raise LibraryFailed(
                Problem(
                    what=f"library {self._target.library}: no node is left to test it"
                    + (f": {cause}" if cause else ""),
                    where=self._target.path,
                    remedy="see what is said of each node",
                )
            )
        if len(self.lost) > before and self._on_failure == "stop":
            raise NodesFailed

    def _cause(self) -> str | None:
        """What all nodes were lost by, as far as is known."""
        known = {self.coordinator.blame.of(name) for name in self.lost}
        alike = known.pop() if len(known) == 1 else None
        return alike or self.coordinator.cause_at(self._target.library)


def _failed_here(node: str, error: LibraryFailedThere) -> Finding:
    where = f" ({error.problem.where})" if error.problem.where else ""
    return Finding(
        "error",
        "node-failed",
        f"node {node}: {error.reason}{where}; its figures are left out",
        error.problem.remedy or "see the message",
    )
