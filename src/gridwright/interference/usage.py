"""Adds up what ours, others and the kernel have used since the watch began, look by look."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gridwright.interference.processes import (
    TICK_S,
    Identity,
    Ownership,
    SeenProcess,
    moved_bytes,
    processes,
    spoken_name,
)
from gridwright.runs.load_record import ForeignProcess
from gridwright.trusted import user_name


@dataclass(frozen=True, slots=True)
class UsedSoFar:
    """Sums since the watch began: CPU time in seconds, bytes read and written."""

    own_s: float = 0.0
    foreign_s: float = 0.0
    kernel_s: float = 0.0
    own_bytes: tuple[int, int] = (0, 0)
    foreign_bytes: tuple[int, int] = (0, 0)
    foreign_memory_bytes: int = 0
    groups: tuple[ForeignProcess, ...] = ()
    """Every name and user that used anything."""


@dataclass(slots=True)
class _Group:
    name: str
    user: str
    pid: int
    cpu_s: float = 0.0
    moved: int = 0
    memory_bytes: int = 0
    busiest: float = 0.0


@dataclass(slots=True)
class Usage:
    """Looks at all processes; `cpus` are those that count, None for all."""

    ownership: Ownership
    cpus: Collection[int] | None = None
    serves: Callable[[SeenProcess], bool] = lambda _: False
    """Says of a process that is not below ours whether it serves us."""
    proc: Path = Path("/proc")
    sees_traffic: bool = field(default_factory=lambda: os.geteuid() == 0)
    _last: dict[Identity, SeenProcess] = field(default_factory=dict)
    _moved: dict[Identity, tuple[int, int]] = field(default_factory=dict)
    _groups: dict[tuple[str, str], _Group] = field(default_factory=dict)
    _names: dict[Identity, tuple[str, str]] = field(default_factory=dict)
    _ticks: dict[str, int] = field(default_factory=lambda: {"own": 0, "foreign": 0, "kernel": 0})
    _bytes: dict[str, list[int]] = field(default_factory=lambda: {"own": [0, 0], "foreign": [0, 0]})
    _begun: bool = False

    def look(self, now: float, found: dict[int, SeenProcess] | None = None) -> UsedSoFar:
        """Account for what happened since the last look; the first one only begins to count.

        `found` has all processes by id, where somebody has looked already.
        """
        if found is None:
            found = {each.pid: each for each in processes(self.proc)}
        ours = self.ownership.take(found, now, self.proc)
        ours |= {each.pid for each in found.values() if each.pid not in ours and self.serves(each)}
        known = {each.identity: each for each in found.values()}
        gone = [each for key, each in self._last.items() if key not in known]
        ticks_gone = _Ended(gone, found, lambda each: each.own_ticks + each.children_ticks)
        moved_gone = [
            _Ended(gone, found, lambda each, way=way: self._moved.get(each.identity, (0, 0))[way])  # type: ignore[misc]
            for way in (0, 1)
        ]
        held = 0
        for process in found.values():
            side = "own" if process.pid in ours else "kernel" if process.kernel else "foreign"
            ticks = self._ticks_of(process, ticks_gone)
            moved = self._moved_of(process, side, moved_gone)
            if side == "foreign" and self.cpus is not None and process.cpu not in self.cpus:
                ticks = 0
            self._ticks[side] += ticks
            total = self._bytes["own" if side == "own" else "foreign"]
            total[0] += moved[0]
            total[1] += moved[1]
            held += process.memory_bytes if side == "foreign" else 0
            if side != "own" and (ticks or sum(moved)) and (side == "foreign" or sum(moved)):
                self._add_usage(process, ticks if side == "foreign" else 0, sum(moved))
        self._last, self._begun = known, True
        self._moved = {key: value for key, value in self._moved.items() if key in known}
        self._names = {key: value for key, value in self._names.items() if key in known}
        return self._used(held)

    def moved(self, process: SeenProcess) -> tuple[int, int] | None:
        """What a process had read and written when it was last looked at; None where that is not known."""
        return self._moved.get(process.identity)

    def forget(self, most: int) -> None:
        """Keep so many names of others, those that used most: who watches for months sees ever new ones."""
        if len(self._groups) > most:
            rank = sorted(self._groups.items(), key=lambda each: -each[1].moved - each[1].cpu_s)
            self._groups = dict(rank[:most])

    def _ticks_of(self, process: SeenProcess, ended: _Ended) -> int:
        """What a process used since the last look, with children that came and went meanwhile."""
        before = self._last.get(process.identity)
        if before is None:
            # One that is new has been born since; its children have, too.
            return process.own_ticks + process.children_ticks if self._begun else 0
        waited = process.children_ticks - before.children_ticks
        return process.own_ticks - before.own_ticks + ended.not_counted(process, waited)

    def _moved_of(self, process: SeenProcess, side: str, ended: Sequence[_Ended]) -> tuple[int, int]:
        """What a process read and wrote since; the kernel adds that of children that it waited for."""
        if side != "own" and not (self.sees_traffic and process.moves_by_itself):
            return 0, 0
        counted = process.traffic if process.is_read else moved_bytes(process.pid, self.proc)
        if counted is None:
            return 0, 0
        before = self._moved.get(process.identity, (0, 0) if self._begun else counted)
        self._moved[process.identity] = counted
        read, written = (
            each.not_counted(process, counted[way] - before[way]) for way, each in enumerate(ended)
        )
        return read, written

    def _add_usage(self, process: SeenProcess, ticks: int, moved: int) -> None:
        name = self._names.get(process.identity)
        if name is None:
            name = self._names[process.identity] = (
                spoken_name(process, self.proc),
                _user(process.pid, self.proc),
            )
        group = self._groups.setdefault(name, _Group(*name, pid=process.pid))
        group.cpu_s += ticks * TICK_S
        group.moved += moved
        group.memory_bytes = max(group.memory_bytes, process.memory_bytes)
        if ticks > group.busiest:
            group.busiest, group.pid = ticks, process.pid

    def _used(self, held: int) -> UsedSoFar:
        return UsedSoFar(
            own_s=self._ticks["own"] * TICK_S,
            foreign_s=self._ticks["foreign"] * TICK_S,
            kernel_s=self._ticks["kernel"] * TICK_S,
            own_bytes=(self._bytes["own"][0], self._bytes["own"][1]),
            foreign_bytes=(self._bytes["foreign"][0], self._bytes["foreign"][1]),
            foreign_memory_bytes=held,
            groups=tuple(
                ForeignProcess(
                    group.name, group.user, group.pid, group.cpu_s, group.moved, group.memory_bytes
                )
                for group in self._groups.values()
            ),
        )


class _Ended:
    """Processes that ended since the last look: what they had used is in the sums of whoever waited."""

    def __init__(
        self, gone: Sequence[SeenProcess], found: dict[int, SeenProcess], used: Callable[[SeenProcess], int]
    ) -> None:
        self._of: dict[int, int] = {}
        self._orphans = 0
        parents = {each.pid for each in gone}
        for process in gone:
            total = used(process)
            if process.parent in found and process.parent not in parents:
                self._of[process.parent] = self._of.get(process.parent, 0) + total
            else:
                self._orphans += total

    def not_counted(self, process: SeenProcess, waited: int) -> int:
        """Of what children used that a process waited for, the part that no earlier look has seen."""
        left = waited - self._of.get(process.pid, 0)
        if left <= 0:
            return 0
        taken = min(left, self._orphans)
        self._orphans -= taken
        return left - taken


def _user(pid: int, proc: Path) -> str:
    try:
        number = (proc / str(pid)).stat().st_uid
    except OSError:
        return "unknown"
    return user_name(number)
