"""Plans which node writes and reads what; no node is asked for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gridwright.iotest import sweep
from gridwright.iotest.engine import StreamPlan
from gridwright.iotest.messages import RetainedSet
from gridwright.iotest.options import IotestOptions, LibraryTarget
from gridwright.iotest.space import Room, SpacePlan, divide
from gridwright.iotest.stream_plan import Place


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
        return max(2, sweep.counts(share.cores)[-1] if options.sweep else share.streams)

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
