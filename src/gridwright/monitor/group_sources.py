"""Reads which control groups of the node have limits of I/O or CPU time, and what they moved or waited.

Limits are looked for once a minute; what such groups moved is read each time. Version 2 has `io.max`,
`io.stat` and `cpu.stat` (cgroup-v2 of Linux), version 1 `blkio.throttle.*` (cgroup-v1/blkio-controller) and
`cpu.stat` (scheduler/sched-bwc).
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gridwright.kernel_files import text_of
from gridwright.monitor.readings import Reading

LOOK_S = 60.0
MOST_GROUPS = 20_000
"""Groups that are looked at: a node of 200 jobs has about 1000."""
_DEVICE = re.compile(r"[0-9]{1,9}:[0-9]{1,9}")
_DIGITS = re.compile(r"[0-9]{1,20}")
_KINDS = ("bytes", "requests")
_SECOND = {"rbps": ("bytes", "read"), "wbps": ("bytes", "write"), "riops": ("requests", "read"),
           "wiops": ("requests", "write")}  # fmt: skip
_SECOND_MOVED = {"rbytes": ("bytes", "read"), "wbytes": ("bytes", "write"), "rios": ("requests", "read"),
                 "wios": ("requests", "write")}  # fmt: skip
_FIRST = {"read_bps": ("bytes", "read"), "write_bps": ("bytes", "write"), "read_iops": ("requests", "read"),
          "write_iops": ("requests", "write")}  # fmt: skip
_FIRST_MOVED = {"bytes": "blkio.throttle.io_service_bytes", "requests": "blkio.throttle.io_serviced"}
_THROTTLED = {"throttled_usec": 1e-6, "throttled_time": 1e-9}
"""Microseconds in version 2, nanoseconds in version 1."""

IoKey = tuple[str, str, str]
"""Device by its numbers, `bytes` or `requests`, `read` or `write`."""


@dataclass(frozen=True, slots=True)
class _Tree:
    """A mounted tree of control groups."""

    directory: Path
    second: bool
    """Version 2; else version 1."""
    controllers: frozenset[str]


@dataclass(frozen=True, slots=True)
class _IoGroup:
    """A group with limits of I/O, each per second."""

    directory: Path
    name: str
    second: bool
    limits: dict[IoKey, float]


@dataclass(slots=True)
class GroupSources:
    """Reads control groups; remembers which of them have limits."""

    root: Path = Path("/")
    _io: list[_IoGroup] = field(default_factory=list)
    _cpu: list[tuple[Path, str]] = field(default_factory=list)
    _looked_at: float | None = None
    _names: dict[str, str] = field(default_factory=dict)

    def readings(self) -> Iterator[Reading]:
        """Limits, and what groups that have some moved and waited, now."""
        now = time.monotonic()
        if self._looked_at is None or now - self._looked_at >= LOOK_S:
            self._looked_at = now
            self._look()
        for group in self._io:
            yield from self._moved(group)
        for directory, name in self._cpu:
            yield from _waited(directory, name)

    def _look(self) -> None:
        self._io, self._cpu, left = [], [], MOST_GROUPS
        for tree in _trees(self.root):
            for here, below, _ in os.walk(tree.directory):
                below.sort()
                left -= 1
                if left < 0:
                    return
                self._take(tree, Path(here))

    def _take(self, tree: _Tree, directory: Path) -> None:
        name = "/" + str(directory.relative_to(tree.directory)).removeprefix(".")
        if limits := _limits(directory, second=tree.second) if "blkio" in tree.controllers else {}:
            self._io.append(_IoGroup(directory, name, tree.second, limits))
        if "cpu" in tree.controllers and _is_limited(directory, second=tree.second):
            self._cpu.append((directory, name))

    def _moved(self, group: _IoGroup) -> Iterator[Reading]:
        at = time.monotonic()
        moved = _moved_second(group.directory) if group.second else _moved_first(group.directory)
        for (numbers, kind, way), limit in group.limits.items():
            labels = (group.name, self._device(numbers), way)
            yield Reading(f"gridwright_group_io_limit_{kind}", labels, limit, at)
            count = moved.get((numbers, kind, way), 0)
            yield Reading(f"gridwright_group_io_{kind}_total", labels, count, at)

    def _device(self, numbers: str) -> str:
        """The name of a device; its numbers where it has none."""
        if numbers not in self._names:
            link = self.root / "sys/dev/block" / numbers
            self._names[numbers] = link.resolve().name if link.exists() else numbers
        return self._names[numbers]


def _trees(root: Path) -> Iterator[_Tree]:
    """The trees whose groups limit I/O or CPU time, each once."""
    seen = set()
    for line in (text_of(root / "proc/self/mountinfo") or "").splitlines():
        head, _, tail = line.partition(" - ")
        fields, rest = head.split(" "), tail.split(" ")
        if len(fields) < 5 or len(rest) < 3 or rest[0] not in {"cgroup", "cgroup2"} or fields[2] in seen:
            continue
        second = rest[0] == "cgroup2"
        controllers = {"blkio", "cpu"} if second else {"blkio", "cpu"} & set(rest[2].split(","))
        if controllers:
            seen.add(fields[2])
            yield _Tree(root / fields[4].lstrip("/"), second, frozenset(controllers))


def _limits(directory: Path, *, second: bool) -> dict[IoKey, float]:
    """Limits of a group, by device."""
    limits: dict[IoKey, float] = {}
    if second:
        for numbers, words in _lines(directory / "io.max"):
            for word in words:
                name, _, value = word.partition("=")
                if name in _SECOND and _DIGITS.fullmatch(value):
                    limits[(numbers, *_SECOND[name])] = float(value)
        return limits
    for name, (kind, way) in _FIRST.items():
        for numbers, words in _lines(directory / f"blkio.throttle.{name}_device"):
            if len(words) == 1 and _DIGITS.fullmatch(words[0]):
                limits[(numbers, kind, way)] = float(words[0])
    return limits


def _moved_second(directory: Path) -> dict[IoKey, int]:
    """What a group moved with all below it: limits of version 2 hold for these together."""
    return {
        (numbers, *_SECOND_MOVED[name]): int(value)
        for numbers, words in _lines(directory / "io.stat")
        for name, _, value in (word.partition("=") for word in words)
        if name in _SECOND_MOVED and _DIGITS.fullmatch(value)
    }


def _moved_first(directory: Path) -> dict[IoKey, int]:
    """What a group moved by itself: limits of version 1 hold for it alone."""
    return {
        (numbers, kind, words[0].lower()): int(words[1])
        for kind in _KINDS
        for numbers, words in _lines(directory / _FIRST_MOVED[kind])
        if len(words) == 2 and words[0] in {"Read", "Write"} and _DIGITS.fullmatch(words[1])
    }


def _lines(path: Path) -> Iterator[tuple[str, list[str]]]:
    """The lines of a file that begin with a device, and their other words."""
    for line in (text_of(path) or "").splitlines():
        numbers, *words = line.split() or [""]
        if _DEVICE.fullmatch(numbers):
            yield numbers, words


def _is_limited(directory: Path, *, second: bool) -> bool:
    """Whether a group has a limit of CPU time."""
    if second:
        return not (text_of(directory / "cpu.max") or "max").startswith("max")
    return not (text_of(directory / "cpu.cfs_quota_us") or "-1").startswith("-")


def _waited(directory: Path, name: str) -> Iterator[Reading]:
    at = time.monotonic()
    for line in (text_of(directory / "cpu.stat") or "").splitlines():
        key, _, value = line.partition(" ")
        if not _DIGITS.fullmatch(value):
            continue
        if key in {"nr_periods", "nr_throttled"}:
            metric = f"gridwright_group_{key.removeprefix('nr_').replace('throttled', 'throttled_periods')}"
            yield Reading(f"{metric}_total", (name,), int(value), at)
        elif key in _THROTTLED:
            seconds = int(value) * _THROTTLED[key]
            yield Reading("gridwright_group_throttled_seconds_total", (name,), seconds, at)
