"""Reads what processes of no job move and compute, by name and user, in the way that proofs tell it.

To look at all processes costs more than a sample each second may (`gridwright.disturbance.usage`), so it is
done every ten seconds. Only root sees what other users' processes moved, and to others nothing is told of it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from gridwright.disturbance.counters import sees_all_processes
from gridwright.disturbance.processes import Ownership, SeenProcess
from gridwright.disturbance.serving import serves_fuse
from gridwright.disturbance.usage import Usage, UsedSoFar
from gridwright.monitor.readings import Reading

EACH_S = 10.0
"""How often it is looked; the second look is that of the second sample, for those who take two."""
_MOST, _KEPT = 10, 500
"""Names that are told at a time, by bytes and by CPU time, and that are remembered."""
_FRESH_S = 60.0
"""So long is one told after it used anything."""


@dataclass(slots=True)
class _OfJobs(Ownership):
    """Processes of jobs, and the sampler with what asked for it: all that are not foreign."""

    members: Collection[int] = ()

    def take(self, found: dict[int, SeenProcess], now: float, proc: Path = Path("/proc")) -> set[int]:
        return {pid for pid in (*self.members, os.getpid(), os.getppid()) if pid in found}


@dataclass(frozen=True, slots=True)
class _Other:
    """Processes of one name and user: since when they are counted, and when counts were seen to rise."""

    since_s: float
    moved_bytes: int = 0
    cpu_s: float = 0.0
    rose_s: float = 0.0

    def now(self, moved_bytes: int, cpu_s: float, at: float) -> _Other:
        if (moved_bytes, cpu_s) == (self.moved_bytes, self.cpu_s):
            return self
        return _Other(self.since_s, moved_bytes, cpu_s, at)


@dataclass(slots=True)
class OtherSources:
    """Reads all processes that are of no job."""

    proc: Path = Path("/proc")
    _owned: _OfJobs = field(default_factory=lambda: _OfJobs(()))
    _usage: Usage = field(init=False)
    _began: float = field(default_factory=time.monotonic)
    _others: dict[tuple[str, str], _Other] = field(default_factory=dict)
    """By name and user."""
    _looked: list[float] = field(default_factory=list)
    """The times of the last two looks."""
    _told: list[Reading] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Begin to count."""
        self._usage = Usage(self._owned, serves=serves_fuse, proc=self.proc)

    def readings(self, members: Collection[int]) -> list[Reading]:
        """What they used since the sampler began, as of the last look; `members` are processes of jobs."""
        now = time.monotonic()
        if len(self._looked) < 2 or now - self._looked[-1] >= EACH_S:
            self._owned.members = members
            self._told = self._look(self._usage.look(now), now)
            self._usage.forget(_KEPT)
            self._looked = [*self._looked[-1:], now]
        return self._told

    def _look(self, used: UsedSoFar, at: float) -> list[Reading]:
        found = [Reading("gridwright_sees_all_processes", (), float(sees_all_processes()), at)]
        if not self._usage.sees_traffic:
            return found
        read, written = used.foreign_bytes
        found += [
            Reading("gridwright_others_cpu_seconds_total", (), used.foreign_s, at, self._began),
            Reading("gridwright_others_read_bytes_total", (), read, at, self._began),
            Reading("gridwright_others_written_bytes_total", (), written, at, self._began),
        ]
        return found + self._of_names(used, at)

    def _of_names(self, used: UsedSoFar, at: float) -> list[Reading]:
        """Of those that used most of late."""
        groups = {(each.name, each.user): each for each in used.groups}
        # One that is new has used nothing before the last look.
        new = _Other(self._looked[-1] if self._looked else self._began)
        self._others = {
            key: self._others.get(key, new).now(each.moved_bytes, each.cpu_s, at)
            for key, each in groups.items()
        }
        fresh = [each for key, each in groups.items() if at - self._others[key].rose_s <= _FRESH_S]
        most = [
            *sorted(fresh, key=lambda each: -each.moved_bytes)[:_MOST],
            *sorted(fresh, key=lambda each: -each.cpu_s)[:_MOST],
        ]
        return [
            Reading(metric, key, value, at, self._others[key].since_s)
            for key in dict.fromkeys((each.name, each.user) for each in most)
            for metric, value in (
                ("gridwright_process_moved_bytes_total", groups[key].moved_bytes),
                ("gridwright_process_cpu_seconds_total", groups[key].cpu_s),
            )
        ]
