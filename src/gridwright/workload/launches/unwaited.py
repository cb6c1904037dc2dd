"""Finds processes of a launch that ended without being waited for, and keeps what they had counted.

Whoever waits for a process takes over its CPU time and its I/O (wait4(2), proc_pid_io(5)). Where the parent
ignores SIGCHLD, both are lost: what is kept of them is what the last look saw, ten times a second.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from gridwright.schedulers.process_tree import descendants

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_SLACK_S = 4 * _TICK_S
"""Four figures, each rounded down to a tick of the clock."""
IO = (b"rchar", b"wchar", b"syscr", b"syscw", b"read_bytes", b"write_bytes")


@dataclass(frozen=True, slots=True)
class ProcessCounts:
    """What a process counts, all that it waited for included."""

    parent: int
    started: int
    """Ticks since the boot: with the number it tells a process from another of the same number."""
    cpu_s: float
    waited_cpu_s: float
    """Of `cpu_s`, that of processes that it waited for."""
    io: tuple[int, ...]
    """In the order of `IO`; empty where it must not be read."""


class Unwaited:
    """Looks at the processes below one process, again and again."""

    def __init__(self) -> None:
        """Begin with no process."""
        self._before: dict[int, ProcessCounts] = {}
        self.processes = 0
        """How many were seen to end so."""
        self.cpu_s = 0.0
        """Their CPU time until they were last seen."""
        self.io = [0] * len(IO)
        """Their I/O until then, in the order of `IO`."""

    def look(self, top: int) -> None:
        """Look at all processes below `top`, which waits for its own children and is not looked at."""
        found = ((pid, _counts(pid)) for pid in descendants(top))
        self.take({pid: counts for pid, counts in found if counts is not None}, _counts)

    def take(self, now: dict[int, ProcessCounts], again: Callable[[int], ProcessCounts | None]) -> None:
        """Account for the processes that are there now, each looked at after its parent.

        `again` looks at one once more: a parent may have waited for a child between the looks at both.
        """
        gone = [pid for pid, was in self._before.items() if not _is_same(was, now.get(pid))]
        # What an ancestor took over since the last look pays for those that are gone, as far as it goes.
        budgets: dict[int, list[float]] = {}
        for pid in gone:
            was = self._before[pid]
            heir = self._heir(was.parent, now)
            if heir is None:
                continue
            if heir not in budgets:
                latest = again(heir)
                if not _is_same(self._before[heir], latest) or latest is None:
                    continue
                budgets[heir] = _rise(self._before[heir], latest)
            budget = budgets[heir]
            owed = [max(0.0, was.cpu_s - _SLACK_S), *map(float, was.io)]
            if all(has >= owes for has, owes in zip(budget, owed, strict=False)):
                budgets[heir] = [has - owes for has, owes in zip(budget, owed, strict=False)]
            else:
                self.processes += 1
                self.cpu_s += was.cpu_s
                self.io = [sum(both) for both in zip(self.io, was.io or [0] * len(IO), strict=True)]
        self._before = now

    def _heir(self, pid: int, now: dict[int, ProcessCounts]) -> int | None:
        """The nearest ancestor that is still there; None if that is the process below which all are."""
        while pid in self._before:
            if _is_same(self._before[pid], now.get(pid)):
                return pid
            pid = self._before[pid].parent
        return None


def _is_same(was: ProcessCounts, now: ProcessCounts | None) -> bool:
    return now is not None and now.started == was.started


def _rise(was: ProcessCounts, now: ProcessCounts) -> list[float]:
    """What it may have taken over: CPU time of those it waited for, and I/O, its own included."""
    io = [float(after - before) for before, after in zip(was.io, now.io, strict=False)]
    return [now.waited_cpu_s - was.waited_cpu_s + _TICK_S, *io]


def _counts(pid: int) -> ProcessCounts | None:
    """What a process counts now; None if it is gone."""
    try:
        # The name of the program, in parentheses, may hold anything (proc_pid_stat(5)).
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        user, system, waited_user, waited_system = (int(each) * _TICK_S for each in fields[11:15])
        parent, started = int(fields[1]), int(fields[19])
    except (OSError, IndexError, ValueError):
        return None
    waited = waited_user + waited_system
    return ProcessCounts(parent, started, user + system + waited, waited, tuple(read_io(pid, IO)))


def read_io(pid: int, names: Iterable[bytes]) -> list[int]:
    """Counters of a process, and of all it waited for (proc_pid_io(5)); empty if they cannot be read."""
    try:
        fields = dict(line.split(b": ") for line in Path(f"/proc/{pid}/io").read_bytes().splitlines())
        return [int(fields[name]) for name in names]
    except (OSError, ValueError, KeyError):
        return []
