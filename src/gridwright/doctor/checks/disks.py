"""Checks of all disks and mounts of a node, whether a library lies on them or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from gridwright.doctor.check import (
    Judgement,
    NodeJudgement,
    Observation,
    Topic,
    idle,
    judged,
    unanswered,
    unknown,
    unless_away,
)
from gridwright.doctor.facts.node_facts import MountFacts, NodeFacts
from gridwright.filesystems.health import UNREACHED_TEXTS
from gridwright.units import format_bytes

DISKS = Topic("Disks and mounts")
FULL = 0.9
"""Part of a file system in use from which most of them slow down and administrators act."""
_SMALLEST = 2**28
"""Bytes below which a file system, such as that of firmware, is full by design."""
_READ_ONLY_BY_NATURE = ("/boot", "/usr", "/snap", "/mnt/sandbox", "/var/lib/snapd")


def _mounts(
    observation: Observation, sound: str, fault: Callable[[str, MountFacts], str | None]
) -> Iterator[NodeJudgement]:
    """One answer for each fault of each node, or that all mounts of a node are sound.

    Mounts that a library lies on are left out, with other mounts of the same source: libraries have checks
    of their own.
    """
    for node, facts in observation.facts.items():
        if facts.mounts is None:
            yield NodeJudgement((node,), unknown(facts, "mounts"))
            continue
        libraries = _of_libraries(facts)
        others = [mount for mount in facts.mounts if mount not in libraries]
        wrong = {mount.mount_point: text for mount in others if (text := fault(node, mount))}
        for mount in others:
            if text := wrong.get(mount.mount_point):
                away = observation.away_below(node, mount) if mount.hangs or mount.broken else None
                verdict = unless_away(judged(False, text, sound), away)
                yield NodeJudgement((node,), verdict, mount.mount_point)
        if not wrong:
            yield NodeJudgement((node,), judged(True, sound, sound))
        for mount in others:
            # What fills a mount, or breaks it, is not known of one that hangs.
            if mount.hangs and mount.mount_point not in wrong:
                text = f"{mount.mount_point} does not answer"
                yield NodeJudgement((node,), unanswered(text, sound), mount.mount_point)


def _of_libraries(facts: NodeFacts) -> list[MountFacts]:
    """Mounts that a library lies on, also of one that does not answer and tells of no mount point."""
    mounts = facts.mounts or []
    points = {library.mount_point for library in facts.libraries.values()}
    for library in facts.libraries.values():
        if library.hangs or library.missing in UNREACHED_TEXTS:
            above = [
                mount.mount_point for mount in mounts if Path(library.path).is_relative_to(mount.mount_point)
            ]
            points.add(max(above, key=len, default=None))
    sources = {mount.source for mount in mounts if mount.mount_point in points and not mount.local}
    return [mount for mount in mounts if mount.mount_point in points or mount.source in sources]


@DISKS.check(
    "mount-hangs",
    "warning",
    "a mount of a node does not answer",
    reason="Every process that touches it hangs, df and backups first.",
    source="Linux Documentation/filesystems/fuse.rst; nfs(5), hard",
    remedy="see whether its server is up; to give it up: umount -l MOUNTPOINT",
    reads=("libraries", "mounts"),
)
def _hang(observation: Observation) -> Iterator[NodeJudgement]:
    def fault(_node: str, mount: MountFacts) -> str | None:
        return f"{mount.source} at {mount.mount_point} does not answer" if mount.hangs else None

    return _mounts(observation, "all mounts answer", fault)


@DISKS.check(
    "mount-broken",
    "warning",
    "a mount of a node fails",
    reason="What it held cannot be read: its server or its device is gone.",
    source="statvfs(3), ERRORS",
    remedy="see dmesg; then unmount and mount it again",
    reads=("libraries", "mounts"),
)
def _broken(observation: Observation) -> Iterator[NodeJudgement]:
    def fault(_node: str, mount: MountFacts) -> str | None:
        return f"{mount.source} at {mount.mount_point}: {mount.broken}" if mount.broken else None

    return _mounts(observation, "no mount fails", fault)


@DISKS.check(
    "disk-full",
    "warning",
    "a local file system is nearly full",
    reason="A full root, /var or /tmp stops logs, job scripts and services; Slurm drains the node.",
    source="slurm.conf(5), TmpFS; journald.conf(5), SystemKeepFree",
    remedy="see what takes the room: du -xh --max-depth=2 MOUNTPOINT",
    reads=("libraries", "mounts"),
)
def _full(observation: Observation) -> Iterator[NodeJudgement]:
    def fault(_node: str, mount: MountFacts) -> str | None:
        total, used, free = mount.total_bytes, mount.used_bytes, mount.available_bytes
        if not mount.local or not total or total < _SMALLEST or used is None or free is None:
            return None
        # As df counts: what only root may use counts for neither side.
        part = used / (used + free) if used + free else 1.0
        if part <= FULL or "ro" in mount.options.split(","):
            return None
        return f"{mount.mount_point}: {100 * part:.0f} % in use, {format_bytes(free)} left"

    return _mounts(observation, f"{100 * FULL:.0f} % at most", fault)


@DISKS.check(
    "disk-inodes",
    "warning",
    "a local file system has nearly no inodes left",
    reason="No file can be made when they are used up, whatever space is free.",
    source="ext4(5); mke2fs(8), -i",
    remedy="see where the small files are: du --inodes -x --max-depth=2 MOUNTPOINT",
    reads=("libraries", "mounts"),
)
def _inodes(observation: Observation) -> Iterator[NodeJudgement]:
    def fault(_node: str, mount: MountFacts) -> str | None:
        if not mount.local or not mount.inodes or mount.inodes_free is None:
            return None
        used = 1 - mount.inodes_free / mount.inodes
        if used <= FULL or (mount.total_bytes or 0) < _SMALLEST:
            return None
        return f"{mount.mount_point}: {100 * used:.0f} % of all inodes in use"

    return _mounts(observation, f"{100 * FULL:.0f} % at most", fault)


@DISKS.check(
    "disk-read-only",
    "warning",
    "a local file system is mounted read-only",
    reason="ext4 and XFS stop writes by themselves after an error of the disk: data may be at risk.",
    source="ext4(5), errors=remount-ro; proc(5), mountinfo",
    remedy="see why with dmesg; where the disk is sound: mount -o remount,rw MOUNTPOINT",
    reads=("libraries", "mounts"),
)
def _read_only(observation: Observation) -> Iterator[NodeJudgement]:
    def fault(_node: str, mount: MountFacts) -> str | None:
        by_nature = mount.mount_point.startswith(_READ_ONLY_BY_NATURE) or not mount.source.startswith("/dev/")
        wrong = mount.local and "ro" in mount.options.split(",") and not by_nature
        return f"{mount.source} at {mount.mount_point} is read-only" if wrong else None

    return _mounts(observation, "local disks can be written to", fault)


@DISKS.node_check(
    "tmp-in-memory",
    "info",
    "temporary files of a node are in memory",
    section="mounts",
    reason="Programs that put large temporary files into /tmp take the memory of jobs; Debian 13 and Fedora "
    "mount it so by default.",
    source="tmpfs(5); file-hierarchy(7), /tmp",
    remedy="point TMPDIR at work, or: systemctl mask tmp.mount",
)
def _tmp(facts: NodeFacts) -> Judgement:
    kinds = [mount.type for mount in facts.mounts or () if mount.mount_point == "/tmp"]  # noqa: S108
    kind = kinds[-1] if kinds else "the disk of /"
    return judged(kind not in ("tmpfs", "ramfs"), f"temporary files are on {kind}", "a disk")


@DISKS.node_check(
    "array-degraded",
    "error",
    "a RAID array of a node has lost a disk",
    section="arrays",
    reason="An array without spare disks loses all data with the next disk; one of RAID 0 has lost them.",
    source="Linux Documentation/admin-guide/md.rst, degraded, array_state",
    remedy="see mdadm --detail /dev/ARRAY; replace the disk, or have gridwright-scratch build it anew",
    reads=("arrays",),
)
def _degraded(facts: NodeFacts) -> Judgement:
    arrays = facts.arrays or []
    expected = "all disks of each array at work"
    if not arrays:
        return idle("no RAID arrays", expected)
    wrong = [
        f"{array.name} ({array.level}): {_array_fault(array.missing, array.faulty, array.state)}"
        for array in arrays
        if array.missing or array.faulty or array.state in ("inactive", "broken")
    ]
    return judged(not wrong, "; ".join(wrong) or f"{len(arrays)} arrays are whole", expected)


def _array_fault(missing: int | None, faulty: list[str], state: str | None) -> str:
    words = [
        f"{missing} of its disks missing" if missing else "",
        f"faulty: {', '.join(faulty)}" * bool(faulty),
    ]
    return ", ".join(word for word in words if word) or f"it is {state}"


@DISKS.node_check(
    "array-rebuilding",
    "info",
    "a RAID array of a node is being rebuilt or checked",
    section="arrays",
    reason="Its disks are slower meanwhile; measure after it has ended.",
    source="Linux Documentation/admin-guide/md.rst, sync_action",
    remedy="see how far it is: cat /proc/mdstat",
)
def _rebuilding(facts: NodeFacts) -> Judgement:
    arrays = facts.arrays or []
    busy = [
        f"{array.name}: {array.action}" for array in arrays if array.action not in (None, "idle", "frozen")
    ]
    if not arrays:
        return idle("no RAID arrays")
    return judged(not busy, "; ".join(busy) or "all idle", "all idle")


@DISKS.node_check(
    "scratch-not-mounted",
    "error",
    "an array of the scratch unit is not mounted",
    section="scratch",
    reason="After a stop the disks of an instance store come back empty: work and util are not there until "
    "the array is built again.",
    source="gridwright help scratch; EC2 User Guide, Instance store data persistence",
    remedy="see why: systemctl status gridwright-scratch; then: gridwright node scratch --dry-run",
    reads=("scratch",),
)
def _scratch(facts: NodeFacts) -> Judgement:
    mounted = facts.scratch.mounted if facts.scratch else {}
    expected = "a mount at each mount point of /etc/gridwright/scratch.json"
    if not mounted:
        return idle("no scratch arrays are configured", expected)
    missing = [point for point, there in mounted.items() if not there]
    found = f"not mounted: {', '.join(missing)}" if missing else f"mounted: {', '.join(mounted)}"
    return judged(not missing, found, expected)
