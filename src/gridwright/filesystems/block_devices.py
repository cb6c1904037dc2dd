"""Block devices as sysfs has them: what a mount lies on, down to the disks, and what these moved.

Everything is read from files of /sys and /proc, which answer at once whatever the disks do. `root` is
where these are: `/` but in tests. /proc/diskstats is Documentation/admin-guide/iostats.rst of Linux.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from gridwright.filesystems.counters import Counts, TrafficCount
from gridwright.filesystems.mounts import unescaped
from gridwright.kernel_files import names_in, number_of, text_of

SECTOR = 512
"""Bytes in which sysfs and mount options count, whatever the disk has (ABI/stable/sysfs-block of Linux)."""
_DEEPEST = 16
"""Devices upon devices: more than anybody stacks, and an end to a circle."""
_WELL = frozenset({"live", "running"})
"""Words of device/state: of an NVMe controller, and of a SCSI disk."""


@dataclass(frozen=True, slots=True)
class LocalMount:
    """A line of /proc/self/mountinfo (proc(5))."""

    number: str
    """Major and minor number of the device, such as `9:0`."""
    point: str
    type: str
    source: str
    options: tuple[str, ...]
    """Of the mount and of the file system together."""

    @property
    def is_read_only(self) -> bool:
        """Whether it cannot be written to, be it by choice or after an error (errors=remount-ro)."""
        return "ro" in self.options or "emergency_ro" in self.options or "shutdown" in self.options

    def sectors(self, name: str) -> int | None:
        """A geometry option, in bytes: sunit and swidth of XFS are sectors of 512 bytes (xfs(5))."""
        for option in self.options:
            if match := re.fullmatch(rf"{name}=([0-9]{{1,12}})", option):
                return int(match[1]) * SECTOR
        return None


@dataclass(frozen=True, slots=True)
class Disk:
    """A disk of the node; None is what its driver does not tell."""

    name: str
    size_bytes: int
    model: str | None
    state: str | None
    """Of its driver, such as live or running."""
    errors: int | None
    """Commands that ended with an error since it was found (SCSI)."""
    is_read_only: bool

    @property
    def is_well(self) -> bool:
        """Whether its driver says that it works; a driver that says nothing is taken for yes."""
        return self.state is None or self.state in _WELL


def local_mount(root: Path, path: str) -> LocalMount | None:
    """The mount that holds a path: the longest, and of several on one point the last, which is on top."""
    place = PurePosixPath(path)
    holding = [mount for mount in _mounts(root) if place.is_relative_to(mount.point)]
    return max(reversed(holding), key=lambda each: len(each.point), default=None)


def _mounts(root: Path) -> Iterator[LocalMount]:
    for line in (text_of(root / "proc/self/mountinfo") or "").splitlines():
        head, dash, tail = line.partition(" - ")
        fields, rest = head.split(" "), tail.split(" ")
        if dash and len(fields) >= 6 and len(rest) >= 3:
            options = dict.fromkeys([*fields[5].split(","), *rest[2].split(",")])
            yield LocalMount(fields[2], unescaped(fields[4]), rest[0], unescaped(rest[1]), tuple(options))


def device_of(root: Path, mount: LocalMount) -> str | None:
    """Kernel name of the device that a mount is of, such as `md0` or `nvme0n1p1`; None where it has none."""
    link = root / "sys/dev/block" / mount.number
    if re.fullmatch(r"[0-9]+:[0-9]+", mount.number) and link.exists():
        return link.resolve().name
    # btrfs has numbers of its own, which sysfs does not know.
    name = PurePosixPath(mount.source).name
    return name if mount.source.startswith("/dev/") and (root / "sys/class/block" / name).exists() else None


def below(root: Path, device: str) -> list[str]:
    """The devices that one is made of, itself first: members of arrays, parts of volumes, down to disks."""
    found: list[str] = []
    todo = [(device, 0)]
    while todo:
        name, depth = todo.pop(0)
        if name in found or depth > _DEEPEST:
            continue
        found.append(name)
        todo += [(each, depth + 1) for each in _lower(root, name)]
    return found


def disks_below(root: Path, device: str) -> list[Disk]:
    """The disks at the bottom of a device."""
    return [disk(root, name) for name in below(root, device) if not _lower(root, name)]


def disk(root: Path, name: str) -> Disk:
    """What sysfs says of a disk."""
    here = root / "sys/class/block" / name
    errors = text_of(here / "device/ioerr_cnt") or ""
    return Disk(
        name,
        (number_of(here / "size") or 0) * SECTOR,
        text_of(here / "device/model"),
        text_of(here / "device/state"),
        int(errors, 16) if re.fullmatch(r"0x[0-9a-fA-F]{1,16}", errors) else None,
        text_of(here / "ro") == "1",
    )


def _lower(root: Path, name: str) -> list[str]:
    here = root / "sys/class/block" / name
    slaves = names_in(here / "slaves")
    if slaves or not (here / "partition").exists():
        return slaves
    return [here.resolve().parent.name]


_MOST_DIGITS = 20


def read_counts(root: Path = Path("/")) -> dict[str, TrafficCount]:
    """Counts of all block devices of this node, now."""
    return parse_diskstats(text_of(root / "proc/diskstats") or "", time.monotonic())


def read_counts_below(path: str, root: Path = Path("/")) -> Counts:
    """Of the device that the file system which holds a path is on; none where it is on none."""
    mount = local_mount(root, path)
    device = device_of(root, mount) if mount else None
    return {name: count for name, count in read_counts(root).items() if name == device}


def parse_diskstats(text: str, at_s: float) -> dict[str, TrafficCount]:
    """The rows of /proc/diskstats; those that cannot be understood are passed over."""
    diskstats: dict[str, TrafficCount] = {}
    for line in text.splitlines():
        words = line.split()
        numbers = words[3:14]
        if len(numbers) < 11 or not all(
            n.isascii() and n.isdigit() and len(n) <= _MOST_DIGITS for n in numbers
        ):
            continue
        n = [int(number) for number in numbers]
        diskstats[words[2]] = TrafficCount(
            at_s=at_s,
            read_bytes=n[2] * SECTOR,
            written_bytes=n[6] * SECTOR,
            reads=n[0],
            writes=n[4],
            busy_s=n[9] / 1000,
            waited_s=n[10] / 1000,
            target=words[2],
        )
    return diskstats
