"""What is left of a Lustre whose servers are one's own, while some of its parts are dead."""

from __future__ import annotations

from collections.abc import Sequence

from gridwright.filesystems.loss import DeadPart, DegradedRates, Fate, PartGroup, affected_files_part
from gridwright.filesystems.lustre.model import LustreFileSystem
from gridwright.filesystems.resources import Contribution
from gridwright.spec.filesystem import INSTANCE_STORE, Servers


def parts(filesystem: LustreFileSystem, contribution: Contribution) -> Sequence[PartGroup]:
    """Its servers, and the targets of all object storage servers, those of oss1 first."""
    groups = [PartGroup(role, "server", each.count) for role, each in filesystem.server_groups.items()]
    if contribution.targets:
        groups.insert(1, PartGroup("ost", "target", contribution.targets))
    return groups


def without(
    filesystem: LustreFileSystem, contribution: Contribution, dead: Sequence[DeadPart]
) -> DegradedRates:
    """What is left until something is mended.

    A spec describes no pair of servers that share disks, so no other server serves the targets of a dead one.
    New files are spread over the targets that are there. What cannot open files delivers nothing.
    """
    oss, mds, mgs = (_numbers(dead, role) for role in ("oss", "mds", "mgs"))
    disks = _numbers(dead, "ost")
    targets = contribution.targets
    gone = disks | _targets_of(oss, filesystem, targets)
    left = 1 - len(gone) / targets if targets else float(not oss)
    touched = affected_files_part(targets, contribution.stripes, len(gone)) if gone else 0.0
    fates: list[Fate] = []
    words: list[str] = []
    if gone:
        lost = bool(disks) or not contribution.outlives_server
        fates.append("lost" if lost else "unavailable")
        words.append(_targets_words(len(gone), targets, disks, lost=lost))
    metadata = filesystem.mds.count if filesystem.mds else 0
    if mds:
        fates.append("lost" if _on_instance_store(filesystem.mds) else "unavailable")
        touched = 1 - (1 - touched) * (1 - len(mds) / metadata)
        left = 0.0 if len(mds) == metadata else left
        words.append(
            "without a metadata server no file can be opened"
            if len(mds) == metadata
            else f"the directories of {len(mds)} of {metadata} metadata servers cannot be opened"
        )
    if mgs or (filesystem.mgs is None and 1 in mds):
        words.append("no node can mount it anew while its management server is dead")
    fate: Fate = "lost" if "lost" in fates else "unavailable" if fates else "kept"
    return DegradedRates(left, fate, touched, "; ".join(words))


def _numbers(dead: Sequence[DeadPart], role: str) -> set[int]:
    return {each.number for each in dead if each.role == role}


def _targets_of(servers: set[int], filesystem: LustreFileSystem, targets: int) -> set[int]:
    """The numbers of the targets that these object storage servers serve."""
    if filesystem.oss is None:
        return set()
    each = targets // filesystem.oss.count
    return {(server - 1) * each + place for server in servers for place in range(1, each + 1)}


def _targets_words(gone: int, targets: int, disks: set[int], *, lost: bool) -> str:
    head = f"{gone} of {targets} targets gone"
    if disks:
        return f"{head}: what was on a dead disk is lost, unless there is a backup"
    if lost:
        return f"{head}: they are disks of the server itself, and their files are lost with it"
    return f"{head}: their files wait until a server has their volumes again, as no partner serves them"


def _on_instance_store(servers: Servers | None) -> bool:
    return servers is not None and servers.disks is not None and servers.disks.type == INSTANCE_STORE
