"""Watches a node beside a test, and says for any two moments what happened between them."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import psutil

from gridwright.interference.counters import (
    CpuTimes,
    DeviceWatch,
    cpu_times,
    dirty_bytes,
    pressure_between,
    sees_all_processes,
    stack,
    stalled_s,
    throttlings,
)
from gridwright.interference.judge import limits
from gridwright.interference.presence import Presence
from gridwright.interference.processes import Ownership, SeenProcess, serves_fuse
from gridwright.interference.usage import Usage, UsedSoFar
from gridwright.kernel_files import boot_id
from gridwright.runs.load_record import DeviceLoad, ForeignProcess, NodeLoad, Throttling

_LOOK_S = 1.0
_COST = 50
"""Between two looks passes so many times what one takes: the watch needs at most 2 % of a core."""
_FRESH_S, _SOON_COST = 0.1, 10
"""`now` looks anew if the last look is older than this, or than so many times what one takes."""
_KEPT_PROCESSES = 5


@dataclass(frozen=True, slots=True)
class Moment:
    """All counters at one time: sums since boot, or since the watch began."""

    at: float
    """time.monotonic()"""
    cpu: CpuTimes
    used: UsedSoFar
    stalled: Mapping[str, tuple[float, float]]
    throttled: list[Throttling]
    devices: Mapping[str, tuple[int, int]]
    foreign: Mapping[str, tuple[float, float]]
    """What others read from and wrote to each device."""


@dataclass(slots=True)
class LoadWatch:
    """Looks at the node now and then; `roots` are processes that are ours with all below them.

    So are those that have one of `tokens` among their arguments. `devices` lie below libraries.
    """

    roots: Collection[int]
    tokens: Collection[str] = ()
    devices: Iterable[str] = ()
    fuse: bool = False
    """Whether a library lies on a file system in user space, whose process then works for us."""
    presence: Presence = field(default_factory=Presence)
    """Knows of other runs on the file system, where it has begun."""
    _cpus: frozenset[int] = field(init=False)
    _usage: Usage = field(init=False)
    _disks: DeviceWatch = field(init=False)
    _last: Moment | None = None
    _cost_s: float = 0.0

    def __post_init__(self) -> None:
        self._cpus = frozenset(os.sched_getaffinity(0))
        every = len(self._cpus) == os.cpu_count()
        self._usage = Usage(
            Ownership(self.roots, self.tokens),
            None if every else self._cpus,
            serves_fuse if self.fuse else _serves_no_run,
        )
        self._disks = DeviceWatch(stack(self.devices), limits().overhead)

    def add_token(self, token: str) -> None:
        """Count processes with this among their arguments as ours, from now on."""
        self._usage.ownership.tokens = (*self._usage.ownership.tokens, token)

    def tick(self) -> None:
        """Look, if it is time to: what ends between two looks is counted, but can no more be named."""
        if self._last is None or time.monotonic() - self._last.at >= max(_LOOK_S, _COST * self._cost_s):
            self.look()

    def now(self, after: Moment | None = None) -> Moment:
        """The counters now, or a moment ago where looking costs much; later than `after` in any case."""
        last = self._last
        if (
            last is None
            or time.monotonic() - last.at > max(_FRESH_S, _SOON_COST * self._cost_s)
            or (after is not None and last.at <= after.at)
        ):
            return self.look()
        return last

    def look(self) -> Moment:
        """The counters now."""
        began = time.monotonic()
        before = self._last.used.own_bytes if self._last else (0, 0)
        used = self._usage.look(began)
        own = used.own_bytes[0] - before[0], used.own_bytes[1] - before[1]
        devices = self._disks.look(own, dirty_bytes())
        self._last = Moment(
            at=began,
            cpu=cpu_times(self._cpus),
            used=used,
            stalled=stalled_s(),
            throttled=throttlings(),
            devices=devices,
            foreign={
                name: (ledger.foreign_read, ledger.foreign_written)
                for name, ledger in self._disks.ledgers.items()
            },
        )
        self._cost_s = time.monotonic() - began
        return self._last

    def between(self, begin: Moment, end: Moment) -> NodeLoad:
        """What happened between two moments."""
        seconds = max(1e-9, end.at - begin.at)
        runs, unseen_runs = self.presence.seen(begin.at, end.at)
        return NodeLoad(
            seconds=seconds,
            cpus=len(self._cpus),
            busy_s=end.cpu.busy_s - begin.cpu.busy_s,
            own_s=end.used.own_s - begin.used.own_s,
            foreign_s=end.used.foreign_s - begin.used.foreign_s,
            kernel_s=end.used.kernel_s - begin.used.kernel_s,
            steal_s=end.cpu.steal_s - begin.cpu.steal_s,
            memory_bytes=psutil.virtual_memory().total,
            foreign_memory_bytes=max(begin.used.foreign_memory_bytes, end.used.foreign_memory_bytes),
            machine=boot_id(),
            sees_all=sees_all_processes(),
            sees_traffic=self._usage.sees_traffic,
            pressure=pressure_between(begin.stalled, end.stalled, seconds),
            throttling=_worst(begin.throttled, end.throttled),
            devices=[
                _device(name, begin, end, self._usage.sees_traffic)
                for name in end.devices
                if name in begin.devices and name in end.foreign
            ],
            processes=_busiest(begin.used, end.used),
            runs=sorted(runs, key=lambda run: run.run),
            unseen_runs=unseen_runs,
        )


def _serves_no_run(_process: SeenProcess) -> bool:
    return False


def _worst(before: list[Throttling], after: list[Throttling]) -> Throttling | None:
    """The group that was stopped most often; None if none was."""
    earlier = {throttling.group: throttling for throttling in before}
    found = [
        Throttling(
            throttling.group,
            throttling.periods - earlier[throttling.group].periods,
            throttling.throttled - earlier[throttling.group].throttled,
            throttling.seconds - earlier[throttling.group].seconds,
        )
        for throttling in after
        if throttling.group in earlier
    ]
    stopped = [throttling for throttling in found if throttling.throttled > 0]
    return max(stopped, key=lambda each: each.throttled / max(1, each.periods), default=None)


def _device(name: str, begin: Moment, end: Moment, sees_traffic: bool) -> DeviceLoad:
    """A device's traffic; where all processes can be asked, others moved at most what they say."""
    read, written = (b - a for a, b in zip(begin.devices[name], end.devices[name], strict=True))
    earlier = begin.foreign.get(name, (0.0, 0.0))
    foreign = [b - a for a, b in zip(earlier, end.foreign[name], strict=True)]
    if sees_traffic:
        said = [b - a for a, b in zip(begin.used.foreign_bytes, end.used.foreign_bytes, strict=True)]
        foreign = [min(pair) for pair in zip(foreign, said, strict=True)]
    return DeviceLoad(name, read, written, round(foreign[0]), round(foreign[1]))


def _busiest(begin: UsedSoFar, end: UsedSoFar) -> list[ForeignProcess]:
    """What others used between two moments, by name and user: most CPU time, and most traffic."""
    earlier = {(each.name, each.user): each for each in begin.groups}
    found = []
    for group in end.groups:
        before = earlier.get((group.name, group.user))
        cpu = group.cpu_s - (before.cpu_s if before else 0.0)
        moved = group.moved_bytes - (before.moved_bytes if before else 0)
        if cpu > 0 or moved > 0:
            found.append(ForeignProcess(group.name, group.user, group.pid, cpu, moved, group.memory_bytes))
    by_cpu = sorted(found, key=lambda each: -each.cpu_s)[:_KEPT_PROCESSES]
    by_traffic = sorted(found, key=lambda each: -each.moved_bytes)[:2]
    by_memory = sorted(found, key=lambda each: -each.memory_bytes)[:1]
    return list(dict.fromkeys([*by_cpu, *by_traffic, *by_memory]))
