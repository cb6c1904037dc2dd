"""The health of a local file system: its space, arrays, disks, and what errors have done to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gridwright.errors import Finding
from gridwright.filesystems.block_devices import (
    Disk,
    LocalMount,
    device_of,
    disks_below,
    local_mount,
)
from gridwright.filesystems.free_space import read_free_space, space_findings
from gridwright.filesystems.health import Condition, Health, Run, TargetHealth
from gridwright.filesystems.local.raid import Array, array_findings, arrays_below
from gridwright.kernel_files import number_of
from gridwright.units import format_bytes

_ORDER = ("error", "warning", "info")
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
    return Below(mount, device, tuple(arrays_below(root, device)), tuple(disks_below(root, device)))


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
        findings += array_findings(array)
    findings += _disk_findings(under.disks)
    findings += _geometry_findings(under)
    space = read_free_space(run, under.mount.point)
    if isinstance(space, str):
        findings.append(_silent(under.mount.point, space))
        return Health(condition=Condition.SILENT, findings=_sorted(findings), targets=_targets(under))
    findings += space_findings(space)
    return Health(
        condition=_condition(findings),
        findings=_sorted(findings),
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


def _condition(findings: Sequence[Finding]) -> Condition:
    levels = {finding.level for finding in findings}
    if "error" in levels:
        return Condition.BROKEN
    return Condition.DEGRADED if "warning" in levels else Condition.HEALTHY


def _silent(point: str, reason: str) -> Finding:
    return Finding(
        "error",
        "filesystem-silent",
        f"{point} does not answer: {reason}. What touches it waits for a disk",
        "See dmesg for the disk that does not answer",
    )


def _sorted(findings: Sequence[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda each: _ORDER.index(each.level))
