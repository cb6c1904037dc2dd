"""Reads what the kernel counts of a node: CPU time, memory, pressure, network, block devices.

Each file is read once for a sample, and no process is started. What is not there, or cannot be understood,
has no readings.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gridwright.filesystems.diskstats import parse_diskstats
from gridwright.interference.counters import stalled_s
from gridwright.interference.processes import TICK_S
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


FACTS_S = 10.0
"""How long it is remembered what cards and disks are; one that is new is looked at when it comes."""


@dataclass(slots=True)
class KernelSources:
    """Reads the kernel's counters of the node whose files lie below `root`; remembers what devices are."""

    root: Path = ROOT
    _cards: dict[str, tuple[bool, int]] = field(default_factory=dict)
    """Of each card: whether what passes it is counted at others, and the speed that it tells in Mbit/s."""
    _disks: dict[str, tuple[bool, int | None]] = field(default_factory=dict)
    """Of each block device: whether it is a disk, and whether it turns."""
    _looked_at: float = -math.inf

    def readings(self) -> list[Reading]:
        """All readings of the node, now."""
        now, root = time.monotonic(), str(self.root)
        if now - self._looked_at >= FACTS_S:
            self._cards, self._disks, self._looked_at = {}, {}, now
        return [*_cpu(root), *_memory(root), *_pressure(root), *self._network(root), *self._block(root)]

    def _network(self, root: str) -> Iterator[Reading]:
        text, at = text_of(f"{root}/proc/net/dev") or "", time.monotonic()
        lines = (line.partition(":") for line in text.splitlines())
        told = {name.strip(): rest.split() for name, colon, rest in lines if colon}
        for name, fields in told.items():
            if len(fields) < 9 or name.startswith(_NO_CARDS) or not all(map(str.isdigit, fields)):
                continue
            if name not in self._cards:
                within = not told.keys().isdisjoint(_made_of(root, name))
                self._cards[name] = within, number_of(f"{root}/sys/class/net/{name}/speed") or 0
            within, speed = self._cards[name]
            if within:
                continue
            labels = (name,)
            yield Reading("node_network_receive_bytes_total", labels, int(fields[0]), at)
            yield Reading("node_network_transmit_bytes_total", labels, int(fields[8]), at)
            if speed > 0:
                yield Reading("node_network_speed_bytes", labels, speed * _MEGABIT, at)

    def _block(self, root: str) -> Iterator[Reading]:
        """Whole disks that were ever used; what a partition moved is in its disk."""
        text, at = text_of(f"{root}/proc/diskstats") or "", time.monotonic()
        for name, count in parse_diskstats(text, at).items():
            if name.startswith(_NO_DISKS) or not count.reads + count.writes:
                continue
            if name not in self._disks:
                place = f"{root}/sys/class/block/{name}"
                is_disk = not os.path.exists(f"{place}/partition")  # noqa: PTH110 - a name of a device
                self._disks[name] = is_disk, number_of(f"{place}/queue/rotational")
            is_disk, turns = self._disks[name]
            if not is_disk:
                continue
            labels = (name,)
            for metric, value in (
                ("node_disk_read_bytes_total", count.read_bytes),
                ("node_disk_written_bytes_total", count.written_bytes),
                ("node_disk_reads_completed_total", count.reads),
                ("node_disk_writes_completed_total", count.writes),
                ("node_disk_io_time_seconds_total", count.busy_s),
                ("node_disk_io_time_weighted_seconds_total", count.waited_s),
            ):
                if value is not None:
                    yield Reading(metric, labels, value, at)
            if turns is not None:
                yield Reading("gridwright_disk_rotational", labels, turns, at)


def _cpu(root: str) -> Iterator[Reading]:
    text, at = text_of(f"{root}/proc/stat") or "", time.monotonic()
    head, *fields = text.partition("\n")[0].split() or [""]
    if head == "cpu" and len(fields) >= len(_MODES) and all(map(str.isdigit, fields)):
        for mode, ticks in zip(_MODES, fields, strict=False):
            yield Reading("node_cpu_seconds_total", (mode,), int(ticks) * TICK_S, at)
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == "btime" and value.isdigit():
            yield Reading("node_boot_time_seconds", (), int(value), at)
    load = (text_of(f"{root}/proc/loadavg") or "").split()
    if load and load[0].replace(".", "", 1).isdigit():
        yield Reading("node_load1", (), float(load[0]), at)


def _memory(root: str) -> Iterator[Reading]:
    text, at = text_of(f"{root}/proc/meminfo") or "", time.monotonic()
    for line in text.splitlines():
        name, _, value = line.partition(":")
        words = value.split()
        if name in _MEMORY and len(words) == 2 and words[0].isdigit():
            yield Reading(f"node_memory_{name}_bytes", (), int(words[0]) * 1024, at)


def _pressure(root: str) -> Iterator[Reading]:
    at = time.monotonic()
    for resource, (some, full) in stalled_s(f"{root}/proc/pressure").items():
        yield Reading(f"node_pressure_{resource}_waiting_seconds_total", (), some, at)
        if resource != "cpu":
            yield Reading(f"node_pressure_{resource}_stalled_seconds_total", (), full, at)


def _made_of(root: str, name: str) -> set[str]:
    """The interfaces below a bond, a VLAN or a bridge: what passes them is counted there."""
    try:
        found = os.listdir(f"{root}/sys/class/net/{name}")  # noqa: PTH208 - names alone, each second
    except OSError:
        return set()
    return {each.removeprefix("lower_") for each in found if each.startswith("lower_")}
