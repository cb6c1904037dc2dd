"""Counters of a node: CPU time and steal, pressure, dirty pages, limits of control groups, block devices."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gridwright.interference.processes import TICK_S
from gridwright.kernel_files import text_of
from gridwright.runs.load_record import Pressure, Throttling

RESOURCES = ("cpu", "io", "memory")
_INITIAL_NAMESPACE = 0xEFFFFFFC
"""PROC_PID_INIT_INO of linux/proc_ns.h: the number of the first PID namespace of a machine."""


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Seconds since boot, over the CPUs that count."""

    busy_s: float
    steal_s: float


def cpu_times(cpus: Collection[int], proc: Path = Path("/proc")) -> CpuTimes:
    """User, nice and system time, and steal (proc_stat(5)). Raises OSError."""
    busy = steal = 0
    with open(proc / "stat", "rb") as file:  # noqa: PTH123 - once a second
        for line in file:
            name, *fields = line.split()
            if name[:3] != b"cpu":
                break
            if name != b"cpu" and int(name[3:]) in cpus:
                user, nice, system, *rest = map(int, fields)
                busy += user + nice + system
                steal += rest[4] if len(rest) > 4 else 0
    return CpuTimes(busy * TICK_S, steal * TICK_S)


def stalled_s(directory: Path | str = "/proc/pressure") -> Mapping[str, tuple[float, float]]:
    """Seconds since boot in which some, and all, tasks waited, by resource; what the kernel tells."""
    found = {}
    for resource in RESOURCES:
        text = text_of(f"{directory}/{resource}")
        with contextlib.suppress(ValueError):
            if text is None:
                continue
            totals = {"some": 0.0, "full": 0.0}
            for line in text.splitlines():
                kind, *_, total = line.split()
                totals[kind] = int(total.removeprefix("total=")) / 1e6
            found[resource] = totals["some"], totals["full"]
    return found


def pressure_between(
    before: Mapping[str, tuple[float, float]], after: Mapping[str, tuple[float, float]], seconds: float
) -> dict[str, Pressure]:
    """The part of an interval in which tasks waited."""
    return {
        resource: Pressure(
            *(
                min(1.0, max(0.0, (b - a) / seconds))
                for a, b in zip(before[resource], after[resource], strict=True)
            )
        )
        for resource in after
        if resource in before and seconds > 0
    }


def dirty_bytes(proc: Path = Path("/proc")) -> int | None:
    """What was written to the page cache and not yet to devices, by anybody (proc_meminfo(5))."""
    try:
        lines = dict(line.split(":") for line in (proc / "meminfo").read_text().splitlines())
        return sum(int(lines[name].split()[0]) * 1024 for name in ("Dirty", "Writeback"))
    except (OSError, ValueError, KeyError, IndexError):
        return None


def sees_all_processes() -> bool:
    """Whether no PID namespace hides processes of this machine."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino == _INITIAL_NAMESPACE  # noqa: PTH116
    except OSError:
        return False


def throttlings() -> list[Throttling]:
    """CPU limits of the control groups that this process is in, outermost last; those that have one.

    Version 2 counts microseconds in `throttled_usec` (cgroup-v2), version 1 nanoseconds in
    `throttled_time` (sched-bwc), both in `cpu.stat`.
    """
    return [found for directory, name in _groups() if (found := _throttling(directory, name)) is not None]


def _throttling(directory: Path, name: str) -> Throttling | None:
    try:
        lines = (directory / "cpu.stat").read_text().splitlines()
        fields = {key: int(value) for key, value in map(str.split, lines)}
        seconds = (
            fields["throttled_usec"] / 1e6 if "throttled_usec" in fields else fields["throttled_time"] / 1e9
        )
        return Throttling(name, fields["nr_periods"], fields["nr_throttled"], seconds)
    except (OSError, ValueError, KeyError):
        return None


def _groups() -> Iterator[tuple[Path, str]]:
    """Directory and name of each group that this process is in and that may limit its CPU time."""
    try:
        memberships = Path("/proc/self/cgroup").read_text().splitlines()
        mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    except OSError:
        return
    for line in memberships:
        _, controllers, name = line.split(":", 2)
        for fields in mounts:
            kind, options = fields[fields.index("-") + 1], fields[-1].split(",")
            unified = kind == "cgroup2" and not controllers
            if unified or (kind == "cgroup" and "cpu" in controllers.split(",") and "cpu" in options):
                yield from _with_parents(Path(fields[4]), fields[3], name)
                break


def _with_parents(mount: Path, root: str, name: str) -> Iterator[tuple[Path, str]]:
    """A group and those around it, as far as the mount shows them."""
    inside = os.path.relpath(name, root) if name.startswith(root) else name.lstrip("/")
    directory = mount / inside if inside != "." else mount
    while directory == mount or directory.is_relative_to(mount):
        yield directory, f"/{directory.relative_to(mount)}".replace("/.", "/")
        if directory == mount:
            return
        directory = directory.parent


_SECTOR = 512
"""/sys/block counts sectors of 512 bytes, whatever the device's own are (block/stat)."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A device, and the one above it whose traffic it carries; None for one that a library lies on."""

    device: str
    above: str | None


def stack(devices: Iterable[str], block: Path = Path("/sys/block")) -> list[Layer]:
    """The devices below libraries: members of RAIDs and maps, and what holds the file of a loop device."""
    layers: list[Layer] = []
    pending = [Layer(device, None) for device in dict.fromkeys(devices)]
    while pending:
        layer = pending.pop(0)
        if any(each.device == layer.device for each in layers):
            # Several lie on it: what reaches it can no more be told apart.
            continue
        layers.append(layer)
        pending += [Layer(name, layer.device) for name in _below(block / layer.device)]
    return layers


def _below(directory: Path) -> list[str]:
    try:
        members = sorted(entry.name for entry in (directory / "slaves").iterdir())
    except OSError:
        members = []
    return [_disk(name) for name in members] or _holders(directory)


def _holders(directory: Path) -> list[str]:
    """The disk that holds the file of a loop device, where there is one."""
    try:
        file = (directory / "loop" / "backing_file").read_text().strip()
        number = Path(file).stat().st_dev
        return [
            _disk(Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve(strict=True).name)
        ]
    except OSError:
        return []


def _disk(name: str) -> str:
    """The disk of a partition."""
    path = Path("/sys/class/block") / name
    try:
        real = path.resolve(strict=True)
        return real.parent.name if (real / "partition").exists() else name
    except OSError:
        return name


def device_bytes(device: str, block: Path = Path("/sys/block")) -> tuple[int, int] | None:
    """Bytes read from and written to a device since boot; None where it is gone."""
    try:
        fields = (block / device / "stat").read_text().split()
        return int(fields[2]) * _SECTOR, int(fields[6]) * _SECTOR
    except (OSError, ValueError, IndexError):
        return None


@dataclass(slots=True)
class Ledger:
    """What of a device's traffic is not ours, by what we have moved and may still be written back.

    Writes go to the page cache first: what we wrote is credit, which the device's writes use up. Credit
    cannot exceed what is dirty in memory, so that pages that were overwritten or dropped hide nothing.
    """

    overhead: float
    foreign_read: float = 0.0
    foreign_written: float = 0.0
    _read_credit: float = 0.0
    _write_credit: float = 0.0

    def take(self, device: tuple[int, int], own: tuple[int, int], dirty: int | None) -> None:
        """Account for what the device and we moved since the last time, and how much is dirty now.

        What is in flight was counted at us, and will be at the device: at most what we moved just now.
        """
        own_read, own_written = (moved * (1 + self.overhead) for moved in own)
        credit = self._read_credit + own_read
        self.foreign_read += max(0.0, device[0] - credit)
        self._read_credit = min(own_read, max(0.0, credit - device[0]))
        credit = self._write_credit + own_written
        self.foreign_written += max(0.0, device[1] - credit)
        self._write_credit = max(0.0, credit - device[1])
        if dirty is not None:
            self._write_credit = min(self._write_credit, dirty * (1 + self.overhead) + own_written)


@dataclass(slots=True)
class DeviceWatch:
    """The devices of some libraries; `look` accounts for what happened since the last one."""

    layers: list[Layer]
    overhead: float
    _last: dict[str, tuple[int, int]] = field(default_factory=dict)
    ledgers: dict[str, Ledger] = field(default_factory=dict)

    def look(self, own: tuple[int, int], dirty: int | None) -> dict[str, tuple[int, int]]:
        """`own` is what our processes moved since the last look; returns the counters of all devices."""
        now = {
            layer.device: counted
            for layer in self.layers
            if (counted := device_bytes(layer.device)) is not None
        }
        moved = {
            name: (counted[0] - self._last[name][0], counted[1] - self._last[name][1])
            for name, counted in now.items()
            if name in self._last
        }
        for layer in self.layers:
            above = own if layer.above is None else moved.get(layer.above)
            if layer.device in moved and above is not None:
                ledger = self.ledgers.setdefault(layer.device, Ledger(self.overhead))
                ledger.take(moved[layer.device], above, dirty)
        self._last = now
        return now
