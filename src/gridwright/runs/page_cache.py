"""Counts what launches read that came out of the page cache of their node, where the kernel tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gridwright.errors import Finding
from gridwright.runs.launch_record import LaunchRecord
from gridwright.units import format_bytes

if TYPE_CHECKING:
    from gridwright.runs.records import FindingRecord

NOTABLE = 0.05
"""Less than this part of the reads is left unsaid, as a read of `iotest` counts with so much of it cached."""

LEAST_BYTES = 16 << 20
"""Less than this may be the program of a command, whose reads are not told from those of its data."""


def with_cached_reads(launches: Sequence[LaunchRecord], devices: Mapping[str, object]) -> list[LaunchRecord]:
    """The launches, each with what it read that no device delivered.

    `devices` tells what lies below each library. The kernel counts what it fetches from block devices for a
    process (`read_bytes` of /proc/PID/io, proc_pid_io(5)); it does not for all file systems that servers
    provide, so nothing is counted where a library has no device.
    """
    known = bool(devices) and all(
        isinstance(each, Mapping) and each.get("device") is not None for each in devices.values()
    )
    if not known:
        return list(launches)
    return [replace(each, cached_read_bytes=_cached(each)) for each in launches]


def _cached(launch: LaunchRecord) -> int | None:
    """Reads of libraries less what devices delivered; readahead can deliver more than is read.

    What a test reads beside its libraries (modules, /proc) is left out; a command does not tell it apart.
    """
    asked = (
        sum(each.read_bytes for each in launch.libraries.values()) if launch.libraries else launch.read_bytes
    )
    if asked is None or launch.device_read_bytes is None:
        return None
    return max(0, asked - launch.device_read_bytes)


def cached_reads(launches: Sequence[LaunchRecord]) -> tuple[int, int] | None:
    """Of all launches of which it is known: bytes that came out of the page cache, and all that were read."""
    known = [each for each in launches if each.cached_read_bytes is not None]
    if not known:
        return None
    cached = sum(each.cached_read_bytes or 0 for each in known)
    return cached, cached + sum(each.device_read_bytes or 0 for each in known)


def cached_finding(launches: Sequence[LaunchRecord]) -> FindingRecord | None:
    """Say how much came out of the page cache, where it is much."""
    # Nodes do without pydantic.
    from gridwright.runs.events import recorded_finding

    cached, whole = cached_reads(launches) or (0, 0)
    if cached < max(LEAST_BYTES, NOTABLE * whole):
        return None
    finding = Finding(
        "info",
        "reads-cached",
        f"{cached / whole:.0%} of what launches read ({format_bytes(cached)} of {format_bytes(whole)}) "
        "came out of the page cache: jobs whose data memory does not hold wait longer",
        "for a test of the disks use a larger --scale, so that the data are more than the memory of a node",
    )
    return recorded_finding(finding, failure="workload-failed")
