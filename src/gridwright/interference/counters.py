"""Reads the counters of a node: CPU time and steal, pressure, dirty pages, CPU limits of control groups."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
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
