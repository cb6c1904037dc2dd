"""What disks of the node moved, from /proc/diskstats (Documentation/admin-guide/iostats.rst of Linux)."""

from __future__ import annotations

import time
from pathlib import Path

from gridwright.filesystems.block_devices import SECTOR, device_of, local_mount
from gridwright.filesystems.counters import Counts, TrafficCount
from gridwright.kernel_files import text_of

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
