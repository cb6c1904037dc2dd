"""What is left of a Spectrum Scale while some of its NSD servers or disks are dead."""

from __future__ import annotations

from collections.abc import Sequence

from gridwright.filesystems.loss import DeadPart, PartGroup, Remains
from gridwright.filesystems.resources import Contribution
from gridwright.filesystems.scale.model import ScaleFileSystem


def parts(filesystem: ScaleFileSystem, contribution: Contribution) -> Sequence[PartGroup]:
    """Its NSD servers, and the disks of all of them."""
    servers = PartGroup("nsd", "server", filesystem.nsd.count)
    if not contribution.targets:
        return (servers,)
    return (servers, PartGroup("disk", "target", contribution.targets))


def without(contribution: Contribution, dead: Sequence[DeadPart]) -> Remains:
    """Nothing: every file, and metadata with it, is spread over all disks of all servers.

    A spec describes neither a second server of a disk nor copies of data in another failure group.
    """
    disk = any(each.role == "disk" for each in dead)
    lost = disk or not contribution.outlives_server
    what = "a dead disk" if disk else "the disks of a dead server"
    after = (
        "they are lost, unless it keeps copies" if lost else "they wait until a server has the disks again"
    )
    return Remains(0.0, "lost" if lost else "unavailable", 1.0, f"every file has blocks on {what}: {after}")
