"""What is left of a Spectrum Scale while some of its NSD servers or disks are dead."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from gridwright.filesystems.loss import DeadPart, DegradedRates, PartGroup
from gridwright.filesystems.resources import Contribution
from gridwright.filesystems.scale.model import ScaleFileSystem
from gridwright.filesystems.scale.quorum import quorum_names
from gridwright.filesystems.shared_disks import ClusterMachine

DESCRIPTORS = 3
"""Of a file system, each in a failure group of its own where there are so many; most of them have to be there
(IBM Storage Scale, file system descriptor quorum). With two groups one has two of them."""


def parts(filesystem: ScaleFileSystem, contribution: Contribution) -> Sequence[PartGroup]:
    """Its NSD servers, and the disks of all of them."""
    if filesystem.nsd is None:
        return ()
    servers = PartGroup("nsd", "server", filesystem.nsd.count)
    if not contribution.targets:
        return (servers,)
    return (servers, PartGroup("disk", "target", contribution.targets))


def without(
    filesystem: ScaleFileSystem, contribution: Contribution, dead: Sequence[DeadPart]
) -> DegradedRates:
    """What the living servers of each pair pass of what both passed; nothing without both of a pair.

    Every file, and metadata with it, is spread over all disks, so that the slowest pair has its share
    of each: who serves its pair's disks alone passes half of what both did, and the others wait for it.
    """
    servers = filesystem.nsd.count if filesystem.nsd is not None else 0
    numbers = {part.number for part in dead if part.role == "nsd"}
    disks = [part for part in dead if part.role == "disk"]
    gone = [pair for pair in range(servers // 2) if {2 * pair + 1, 2 * pair + 2} <= numbers]
    if disks or not contribution.outlives_server:
        return _without_data(filesystem, len(gone), dead_disks=len(disks))
    if not has_quorum(servers, filesystem.replicas, numbers):
        words = "most nodes with a vote are dead: the cluster has no quorum, and stops until one is back"
        return DegradedRates(0.0, "unavailable", 1.0, words)
    if not gone:
        words = "the other server of the pair serves its disks, too: half as fast"
        return DegradedRates(0.5, "kept", 0.0, words, room_part=1.0)
    if filesystem.replicas > 1 and len(gone) == 1 and servers // 2 >= DESCRIPTORS:
        left = (servers // 2 - 1) / (servers // 2)
        words = "the other copy of each block is on another pair; one copy is left of some"
        return DegradedRates(left, "kept", 0.0, words)
    if filesystem.replicas > 1 and len(gone) == 1:
        words = (
            "two of the three descriptors of the file system may be on disks of that pair: it stops, though "
            "a copy of every block is on the other pair"
        )
        return DegradedRates(0.0, "unavailable", 1.0, words)
    words = "every file has blocks on disks of that pair: they wait for one of its servers"
    return DegradedRates(0.0, "unavailable", 1.0, words)


def has_quorum(servers: int, replicas: int, dead: Collection[int]) -> bool:
    """Whether the cluster goes on without these servers, by their numbers from 1 on.

    More than half of the votes are there, or one of two that see tiebreaker disks (IBM Storage Scale).
    A vote that a node without disks has is taken to be there.
    """
    machines = [
        ClusterMachine(name=str(number), address="", is_server=True, pair=(number + 1) // 2)
        for number in range(1, servers + 1)
    ]
    votes = quorum_names([*machines, ClusterMachine(name="node", address="", is_server=False)], replicas)
    alive = [vote for vote in votes if vote == "node" or int(vote) not in dead]
    return bool(alive) if len(votes) == 2 else 2 * len(alive) > len(votes)


def _without_data(filesystem: ScaleFileSystem, pairs: int, *, dead_disks: int) -> DegradedRates:
    """Where disks are gone for good."""
    if filesystem.replicas > 1 and dead_disks == 1 and not pairs:
        return DegradedRates(1.0, "kept", 0.0, "the other copy of its blocks is on another pair")
    what = "a dead disk" if dead_disks else "the disks of a dead server"
    return DegradedRates(
        0.0, "lost", 1.0, f"every file has blocks on {what}: they are lost where no other copy is"
    )
