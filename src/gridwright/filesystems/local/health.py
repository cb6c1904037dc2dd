"""The health of a local file system: its space, arrays, disks, and what errors have done to it.

States of md arrays are those of /sys/block/mdX/md (Documentation/admin-guide/md.rst of Linux).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gridwright.errors import Finding
from gridwright.filesystems.block_devices import (
    Disk,
    LocalMount,
    below,
    device_of,
    disks_below,
    local_mount,
)
from gridwright.filesystems.health import (
    Condition,
    Health,
    Run,
    TargetHealth,
    condition_of,
    gravest_first,
    read_free_space,
    space_findings,
)
from gridwright.kernel_files import names_in, number_of, text_of
from gridwright.units import format_bytes

_WORKING = frozenset({"clean", "active", "active-idle", "write-pending", "read-auto"})
"""Words of array_state with which data can be read and written; RAID 0 that lost a disk says broken."""


@dataclass(frozen=True, slots=True)
class Array:
    """An md array; None is what its level does not have."""

    name: str
    level: str
    disks: int
    """How many it is made for."""
    chunk_bytes: int | None
    state: str
    degraded: int | None
    """How many disks are missing; RAID 0 has no such count, it cannot miss any."""
    sync: str | None
    """What it is doing to its redundancy: idle, resync, recover, check."""
    members: tuple[tuple[str, str], ...]
    """Name and state of each, such as `nvme0n1` and `in_sync`."""

    @property
    def is_working(self) -> bool:
        """Whether all data can be read and written."""
        return self.state in _WORKING and not (self.level == "raid0" and self.lost)

    @property
    def lost(self) -> int:
        """How many disks are not in it."""
        present = sum(1 for _, state in self.members if "in_sync" in state and "faulty" not in state)
        return max(self.degraded or 0, self.disks - present if self.degraded is None else 0)

    @property
    def data_disks(self) -> int | None:
        """Over how many disks a stripe's data go; None for levels without stripes."""
        spare = {"raid0": 0, "raid4": 1, "raid5": 1, "raid6": 2}.get(self.level)
        return None if spare is None else self.disks - spare


def _arrays_below(root: Path, device: str) -> list[Array]:
    """The md arrays that a device is, or is made of."""
    return [
        array(root, name) for name in below(root, device) if (root / "sys/class/block" / name / "md").is_dir()
    ]


def array(root: Path, name: str) -> Array:
    """What sysfs says of an array."""
    here = root / "sys/class/block" / name / "md"
    members = [each for each in names_in(here) if each.startswith("dev-")]
    return Array(
        name,
        text_of(here / "level") or "",
        number_of(here / "raid_disks") or 0,
        number_of(here / "chunk_size") or None,
        text_of(here / "array_state") or "",
        number_of(here / "degraded"),
        text_of(here / "sync_action"),
        tuple((member.removeprefix("dev-"), text_of(here / member / "state") or "") for member in members),
    )


def _array_findings(found: Array) -> Iterator[Finding]:
    """What is wrong with an array."""
    bad = [f"{name} ({state or 'no state'})" for name, state in found.members if "faulty" in state]
    named = f": {', '.join(bad)}" if bad else ""
    if not found.is_working:
        yield Finding(
            "error",
            "raid-broken",
            f"{found.name} ({found.level}, {found.disks} disks) is {found.state or 'not told of'}, "
            f"{found.lost or 'no'} disks missing{named}: its data cannot be read or written",
            "Replace the disk; scratch on RAID 0 is made anew by gridwright node scratch, data are lost",
        )
    elif found.lost:
        yield Finding(
            "warning",
            "raid-degraded",
            f"{found.name} ({found.level}) misses {found.lost} of {found.disks} disks{named}: the next one "
            "that fails may take the data with it",
            f"mdadm /dev/{found.name} --add the new disk",
        )
    elif bad:
        yield Finding(
            "warning",
            "raid-degraded",
            f"{found.name} ({found.level}) has failed disks{named}",
            f"Replace it: mdadm /dev/{found.name} --remove, then --add the new one",
        )
    if found.sync in ("resync", "recover", "reshape"):
        yield Finding(
            "info",
            "raid-rebuilding",
            f"{found.name} ({found.level}) is busy with {found.sync}: what is measured meanwhile is too low",
            "Wait for its end: cat /proc/mdstat",
        )


_ROOT = Path("/")


@dataclass(frozen=True, slots=True)
class Below:
    """What a mount lies on."""

    mount: LocalMount
    device: str | None
    arrays: tuple[Array, ...] = ()
    disks: tuple[Disk, ...] = ()


def what_is_below(path: str, root: Path = _ROOT) -> Below | None:
    """The mount that holds a path, with its arrays and disks, on this machine; None without a mount."""
    mount = local_mount(root, path)
    if mount is None:
        return None
    device = device_of(root, mount)
    if device is None:
        return Below(mount, None)
    return Below(mount, device, tuple(_arrays_below(root, device)), tuple(disks_below(root, device)))


def health(run: Run, path: str, root: Path = _ROOT) -> Health:
    """How the local file system that holds `path` is; it is looked at on this machine.

    `run` runs commands on this machine, too: it asks for the free space with a limit of time, as that may
    hang with the disk. All else is read from sysfs, which does not.
    """
    under = what_is_below(path, root)
    if under is None:
        text = f"nothing is mounted that holds {path}"
        return Health(
            condition=Condition.BROKEN,
            findings=[Finding("error", "filesystem-not-mounted", text, f"mount {path}")],
        )
    findings = [*_mount_findings(under, root)]
    for array in under.arrays:
        findings += _array_findings(array)
    findings += _disk_findings(under.disks)
    findings += _geometry_findings(under)
    space = read_free_space(run, under.mount.point)
    if isinstance(space, str):
        findings.append(_silent(under.mount.point, space))
        return Health(condition=Condition.SILENT, findings=gravest_first(findings), targets=_targets(under))
    findings += space_findings(space)
    return Health(
        condition=condition_of(findings),
        findings=gravest_first(findings),
        targets=_targets(under),
        capacity_bytes=space.total_bytes,
        available_bytes=space.available_bytes,
    )


def _mount_findings(under: Below, root: Path) -> Iterator[Finding]:
    mount = under.mount
    if mount.is_read_only:
        yield Finding(
            "error",
            "filesystem-read-only",
            f"{mount.point} ({mount.type} on {mount.source}) is mounted read-only: the kernel does that "
            "after an error of the disk",
            "See dmesg for the error; check the file system (xfs_repair, e2fsck), then mount it again",
        )
    errors = number_of(root / "sys/fs/ext4" / (under.device or "") / "errors_count")
    if mount.type == "ext4" and errors:
        yield Finding(
            "warning",
            "filesystem-errors",
            f"{mount.point}: ext4 has noted {errors} errors in its structure since it was last checked",
            "Unmount it and run e2fsck -f; see dmesg for the disk's part in it",
        )


def _disk_findings(disks: Sequence[Disk]) -> Iterator[Finding]:
    for disk in disks:
        if not disk.is_well:
            yield Finding(
                "error",
                "disk-bad",
                f"{disk.name} ({disk.model or 'no model'}) is {disk.state}: its driver has given it up",
                "See dmesg; replace it, or stop and start the machine for another one",
            )
        elif disk.is_read_only:
            yield Finding("error", "disk-bad", f"{disk.name} cannot be written to", "See dmesg; replace it")


def _geometry_findings(under: Below) -> Iterator[Finding]:
    """XFS that does not know the stripes it lies on writes across their borders."""
    if under.mount.type != "xfs" or not under.arrays or under.arrays[0].name != under.device:
        return
    lowest = under.arrays[0]
    disks, chunk = lowest.data_disks, lowest.chunk_bytes
    if not disks or not chunk or disks < 2:
        return
    unit, width = under.mount.sectors("sunit") or 0, under.mount.sectors("swidth") or 0
    if (unit, width) != (chunk, chunk * disks):
        yield Finding(
            "warning",
            "filesystem-misaligned",
            f"{under.mount.point}: XFS has stripes of {_size(unit)} x {width // unit if unit else 0}, "
            f"its array {lowest.name} of {_size(chunk)} x {disks}: what would be one request becomes several",
            f"Make it anew: mkfs.xfs -d su={chunk // 1024}k,sw={disks}; data are lost",
        )


def _size(size: int) -> str:
    return format_bytes(size) if size else "none"


def _targets(under: Below) -> list[TargetHealth]:
    states = {name: state for array in under.arrays for name, state in array.members}
    return [
        TargetHealth(
            name=disk.name,
            server="",
            up=disk.is_well and not disk.is_read_only and "faulty" not in states.get(disk.name, ""),
            state=states.get(disk.name) or disk.state or "present",
            capacity_bytes=disk.size_bytes or None,
        )
        for disk in under.disks
    ]


def _silent(point: str, reason: str) -> Finding:
    return Finding(
        "error",
        "filesystem-silent",
        f"{point} does not answer: {reason}. What touches it waits for a disk",
        "See dmesg for the disk that does not answer",
    )
