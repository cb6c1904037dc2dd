"""What disks of the node moved, from /proc/diskstats (Documentation/admin-guide/iostats.rst of Linux)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gridwright.filesystems.health import Traffic
from gridwright.filesystems.local.devices import SECTOR, text_of

_MOST_DIGITS = 20


@dataclass(frozen=True, slots=True)
class DiskCounts:
    """Sums since the disk was found."""

    reads: int
    read_bytes: int
    writes: int
    written_bytes: int
    busy_s: float
    """With at least one request in flight."""
    queue_s: float
    """Of all requests together, from their entering the queue to their end."""


@dataclass(frozen=True, slots=True)
class DiskReading:
    """Counts of all disks at one moment, in seconds of a clock that only goes on."""

    at_s: float
    of: Mapping[str, DiskCounts]


@dataclass(frozen=True, slots=True)
class DiskTraffic:
    """What a disk moved between two readings."""

    traffic: Traffic
    """Its `target` is the disk."""
    busy: float
    """Part of the time with a request in flight: 1 for a single disk at work, and no limit for NVMe."""
    queue: float
    """Requests in flight on average."""


def read_counts(root: Path = Path("/")) -> DiskReading:
    """Counts of all block devices of this node, now."""
    return parse_diskstats(text_of(root / "proc/diskstats") or "", time.monotonic())


def parse_diskstats(text: str, at_s: float) -> DiskReading:
    """The rows of /proc/diskstats; those that cannot be understood are passed over."""
    found: dict[str, DiskCounts] = {}
    for line in text.splitlines():
        words = line.split()
        numbers = words[3:14]
        if len(numbers) < 11 or not all(
            n.isascii() and n.isdigit() and len(n) <= _MOST_DIGITS for n in numbers
        ):
            continue
        n = [int(number) for number in numbers]
        found[words[2]] = DiskCounts(n[0], n[2] * SECTOR, n[4], n[6] * SECTOR, n[9] / 1000, n[10] / 1000)
    return DiskReading(at_s, found)


def disk_traffic(before: DiskReading, after: DiskReading) -> list[DiskTraffic]:
    """What each disk moved in between; disks that came, went, or whose counts began anew are left out."""
    seconds = after.at_s - before.at_s
    found = []
    for name, new in after.of.items():
        old = before.of.get(name)
        if old is None or seconds <= 0:
            continue
        traffic = Traffic(
            server="",
            target=name,
            seconds=seconds,
            read_bytes=new.read_bytes - old.read_bytes,
            written_bytes=new.written_bytes - old.written_bytes,
            reads=new.reads - old.reads,
            writes=new.writes - old.writes,
        )
        if min(traffic.read_bytes, traffic.written_bytes, traffic.reads, traffic.writes) < 0:
            continue
        busy, queue = new.busy_s - old.busy_s, new.queue_s - old.queue_s
        found.append(DiskTraffic(traffic, max(0.0, busy / seconds), max(0.0, queue / seconds)))
    return found
