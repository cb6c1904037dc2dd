"""State of md arrays, from /sys/block/mdX/md (Documentation/admin-guide/md.rst of Linux)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gridwright.errors import Finding
from gridwright.filesystems.block_devices import below
from gridwright.kernel_files import names_in, number_of, text_of

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


def arrays_below(root: Path, device: str) -> list[Array]:
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


def array_findings(found: Array) -> Iterator[Finding]:
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
