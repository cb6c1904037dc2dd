"""Reads what processes of no job have used: CPU time, and bytes to and from storage, by name and user.

What they move is told to root alone, in the way that proofs tell it (`gridwright.interference.usage`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gridwright.filesystems.reading import Reading
from gridwright.interference.counters import sees_all_processes
from gridwright.interference.processes import Ownership, ProcessFiles, SeenProcess
from gridwright.interference.serving import serves_fuse
from gridwright.interference.usage import Usage, UsedSoFar

MOST_PART = 0.001
"""Of one core: all processes of a node are looked at, in milliseconds, so busy nodes are read less often."""
_MOST_TOLD, _MOST_KEPT = 10, 500
"""Names of processes that are told at a time, by bytes and by CPU time, and that are remembered."""
_TOLD_S = 60.0
"""So long is one told after it moved anything."""


@dataclass(slots=True)
class _OfJobs(Ownership):
    """Processes of jobs, and the sampler with what asked for it: all that are not foreign."""

    members: Collection[int] = ()

    def take(self, found: dict[int, SeenProcess], now: float, proc: Path = Path("/proc")) -> set[int]:
        return {pid for pid in (*self.members, os.getpid(), os.getppid()) if pid in found}


@dataclass(frozen=True, slots=True)
class _Other:
    """Processes of no job: since when they are counted, and when their counts were seen to rise."""

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
    """Reads all processes that can be seen."""

    members: Callable[[], Collection[int]]
    """Processes of jobs, by their numbers, as they are now."""
    proc: Path = Path("/proc")
    _usage: Usage = field(init=False)
    _files: ProcessFiles = field(init=False)
    _owned: _OfJobs = field(default_factory=lambda: _OfJobs(()))
    _began: float = field(default_factory=time.monotonic)
    _others: dict[tuple[str, str], _Other] = field(default_factory=dict)
    """By name and user."""
    _looked: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        """Begin to count."""
        self._files = ProcessFiles(self.proc)
        self._usage = Usage(self._owned, serves=serves_fuse, proc=self.proc)

    def readings(self) -> list[Reading]:
        """The sums of all, and of those that used most, now."""
        self._owned.members = self.members()
        found = self._files.look()
        at = time.monotonic()
        used = self._usage.look(at, found)
        told = [Reading("gridwright_sees_all_processes", (), float(sees_all_processes()), at)]
        if self._usage.sees_traffic:
            told += self._of_others(used, at)
        self._usage.forget(_MOST_KEPT)
        return told

    def _of_others(self, used: UsedSoFar, at: float) -> Iterator[Reading]:
        """What processes of no job moved since the sampler began: all together, and those that moved most."""
        read, written = used.foreign_bytes
        yield Reading("gridwright_others_cpu_seconds_total", (), used.foreign_s, at, self._began)
        yield Reading("gridwright_others_read_bytes_total", (), read, at, self._began)
        yield Reading("gridwright_others_written_bytes_total", (), written, at, self._began)
        groups = {(each.name, each.user): each for each in used.groups}
        self._others = {
            key: self._others.get(key, _Other(self._looked)).now(each.moved_bytes, each.cpu_s, at)
            for key, each in groups.items()
        }
        self._looked = at
        fresh = [each for key, each in groups.items() if at - self._others[key].rose_s <= _TOLD_S]
        most = [*sorted(fresh, key=lambda each: -each.moved_bytes)[:_MOST_TOLD],
                *sorted(fresh, key=lambda each: -each.cpu_s)[:_MOST_TOLD]]  # fmt: skip
        for key in dict.fromkeys((each.name, each.user) for each in most):
            moved, cpu_s = groups[key].moved_bytes, groups[key].cpu_s
            since = self._others[key].since_s
            yield Reading("gridwright_process_moved_bytes_total", key, moved, at, since)
            yield Reading("gridwright_process_cpu_seconds_total", key, cpu_s, at, since)
