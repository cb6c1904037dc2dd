"""What is left of a Spectrum Scale while some of its NSD servers or disks are dead."""

from __future__ import annotations

from collections.abc import Sequence

from gridwright.filesystems.loss import DeadPart, PartGroup, Remains
from gridwright.filesystems.resources import Contribution
from gridwright.filesystems.scale.model import ScaleFileSystem


def parts(filesystem: ScaleFileSystem, contribution: Contribution) -> Sequence[PartGroup]:
    """Its NSD servers, and the disks of all of them."""
    if filesystem.nsd is None:
        return ()
    servers = PartGroup("nsd", "server", filesystem.nsd.count)
    if not contribution.targets:
        return (servers,)
    return (servers, PartGroup("disk", "target", contribution.targets))


def without(filesystem: ScaleFileSystem, contribution: Contribution, dead: Sequence[DeadPart]) -> Remains:
    """What the living servers of each pair pass of what both passed; nothing without both of a pair.

    Every file, and metadata with it, is spread over all disks, so that the slowest pair has its share
    of each: who serves its pair's disks alone passes half of what both did, and the others wait for it.
    """
    servers = filesystem.nsd.count if filesystem.nsd is not None else 0
    numbers = {each.number for each in dead if each.role == "nsd"}
    disks = [each for each in dead if each.role == "disk"]
    gone = [pair for pair in range(servers // 2) if {2 * pair + 1, 2 * pair + 2} <= numbers]
    if disks or not contribution.outlives_server:
        return _without_data(filesystem, len(gone), has_dead_disk=bool(disks))
    if not gone:
        words = "the other server of the pair serves its disks, too: half as fast"
        return Remains(0.5, "kept", 0.0, words, room_part=1.0)
    if filesystem.replicas > 1 and len(gone) < servers // 2:
        left = (servers // 2 - len(gone)) / (servers // 2)
        return Remains(
            left, "kept", 0.0, "the other copy of each block is on another pair; one copy is left of some"
        )
    return Remains(
        0.0,
        "unavailable",
        1.0,
        "every file has blocks on disks of that pair: they wait for one of its servers",
    )


def _without_data(filesystem: ScaleFileSystem, pairs: int, *, has_dead_disk: bool) -> Remains:
    """Where disks are gone for good."""
    if filesystem.replicas > 1 and has_dead_disk and not pairs:
        return Remains(1.0, "kept", 0.0, "the other copy of its blocks is on another pair")
    what = "a dead disk" if has_dead_disk else "the disks of a dead server"
    return Remains(0.0, "lost", 1.0, f"every file has blocks on {what}: they are lost, as there is one copy")
