"""Reads what the kernel counts of a node: CPU time, memory, pressure, network, block devices.

Each file is read once for a sample, and no process is started. What is not there, or cannot be understood,
has no readings.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from gridwright.disturbance.counters import stalled_s
from gridwright.disturbance.processes import TICK_S
from gridwright.filesystems.diskstats import parse_diskstats
from gridwright.kernel_files import number_of, text_of
from gridwright.monitor.readings import Reading

ROOT = Path("/")
_MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
"""Columns of /proc/stat (proc_stat(5)), by the names of node-exporter."""
_MEMORY = ("MemTotal", "MemAvailable", "Dirty")
_MEGABIT = 1_000_000 / 8
"""Bytes of a megabit: /sys/class/net/*/speed counts these (ABI/testing/sysfs-class-net of Linux)."""
_NO_CARDS = ("lo", "veth", "docker", "br-", "virbr")
"""Interfaces whose traffic stays on the machine, or passes through a card as well."""
_NO_DISKS = ("ram", "zram", "sr", "fd")


def kernel_readings(root: Path = ROOT) -> Iterator[Reading]:
    """All readings of the node, now."""
    yield from _cpu(root)
    yield from _memory(root)
    yield from _pressure(root)
    yield from _network(root)
    yield from _disks(root)


def _cpu(root: Path) -> Iterator[Reading]:
    text, at = text_of(root / "proc/stat") or "", time.monotonic()
    head, *fields = text.partition("\n")[0].split() or [""]
    if head == "cpu" and len(fields) >= len(_MODES) and all(map(str.isdigit, fields)):
        for mode, ticks in zip(_MODES, fields, strict=False):
            yield Reading("node_cpu_seconds_total", (mode,), int(ticks) * TICK_S, at)
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == "btime" and value.isdigit():
            yield Reading("node_boot_time_seconds", (), int(value), at)
    load = (text_of(root / "proc/loadavg") or "").split()
    if load and load[0].replace(".", "", 1).isdigit():
        yield Reading("node_load1", (), float(load[0]), at)


def _memory(root: Path) -> Iterator[Reading]:
    text, at = text_of(root / "proc/meminfo") or "", time.monotonic()
    for line in text.splitlines():
        name, _, value = line.partition(":")
        words = value.split()
        if name in _MEMORY and len(words) == 2 and words[0].isdigit():
            yield Reading(f"node_memory_{name}_bytes", (), int(words[0]) * 1024, at)


def _pressure(root: Path) -> Iterator[Reading]:
    at = time.monotonic()
    for resource, (some, full) in stalled_s(root / "proc/pressure").items():
        yield Reading(f"node_pressure_{resource}_waiting_seconds_total", (), some, at)
        if resource != "cpu":
            yield Reading(f"node_pressure_{resource}_stalled_seconds_total", (), full, at)


def _network(root: Path) -> Iterator[Reading]:
    text, at = text_of(root / "proc/net/dev") or "", time.monotonic()
    lines = (line.partition(":") for line in text.splitlines())
    told = {name.strip(): rest.split() for name, colon, rest in lines if colon}
    for name, fields in told.items():
        if len(fields) < 9 or name.startswith(_NO_CARDS) or not all(map(str.isdigit, fields)):
            continue
        if not told.keys().isdisjoint(_made_of(root, name)):
            continue
        yield Reading("node_network_receive_bytes_total", (name,), int(fields[0]), at)
        yield Reading("node_network_transmit_bytes_total", (name,), int(fields[8]), at)
        speed = number_of(root / "sys/class/net" / name / "speed") or 0
        if speed > 0:
            yield Reading("node_network_speed_bytes", (name,), speed * _MEGABIT, at)


def _made_of(root: Path, name: str) -> set[str]:
    """The interfaces below a bond, a VLAN or a bridge: what passes them is counted there."""
    try:
        found = os.listdir(root / "sys/class/net" / name)  # noqa: PTH208 - names alone, each second
    except OSError:
        return set()
    return {each.removeprefix("lower_") for each in found if each.startswith("lower_")}


def _disks(root: Path) -> Iterator[Reading]:
    """Whole disks that were ever used; what a partition moved is in its disk."""
    text, at = text_of(root / "proc/diskstats") or "", time.monotonic()
    for name, count in parse_diskstats(text, at).items():
        if name.startswith(_NO_DISKS) or not count.reads + count.writes or _is_partition(root, name):
            continue
        for metric, value in (
            ("read_bytes", count.read_bytes),
            ("written_bytes", count.written_bytes),
            ("reads_completed", count.reads),
            ("writes_completed", count.writes),
            ("io_time_seconds", count.busy_s),
            ("io_time_weighted_seconds", count.waited_s),
        ):
            if value is not None:
                yield Reading(f"node_disk_{metric}_total", (name,), value, at)
        turns = number_of(root / "sys/class/block" / name / "queue/rotational")
        if turns is not None:
            yield Reading("gridwright_disk_rotational", (name,), turns, at)


def _is_partition(root: Path, name: str) -> bool:
    return (root / "sys/class/block" / name / "partition").exists()
