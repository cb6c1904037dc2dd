"""Records what a launch did when: its guard looks ten times a second, and keeps a few phases of it.

Memory is bounded whatever the length of the launch: many intervals are merged into fewer.

Merges many short intervals of a launch into a few phases: neighbours that do the same become one.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any

from gridwright.runs.launch_record import LaunchPhase, LibraryTraffic
from gridwright.workload.launches.traffic import LIBRARIES

FIELDS = tuple(field.name for field in fields(LaunchPhase) if field.name != "more")
"""What an interval is: how long, and what was used and moved in it, in this order."""
Interval = list[float]

_WEIGHED = tuple(
    (FIELDS.index(name), 1.0 if name == "cpu_s" else 1e-8)
    for name in FIELDS
    if name == "cpu_s" or (name.endswith("_bytes") and name != "device_read_bytes")
)
"""What counts as doing: CPU seconds, and bytes at 100 MB to the second, for a core that is served
100 MB/s moves that much while it computes for as long."""


def weight(interval: Sequence[float]) -> float:
    """How much an interval does, in seconds of computing and of moving bytes together."""
    return sum(interval[place] * factor for place, factor in _WEIGHED)


def misplaced(one: Sequence[float], other: Sequence[float]) -> float:
    """How much of what two neighbours do would no longer be in its order if they were one, in seconds.

    Merged, each does every kind of work in proportion to the whole. The figure is the sum over
    the kinds of |a w(b) - b w(a)| / (w(a) + w(b)): zero for the same mix, up to twice the smaller
    one's weight if they have nothing in common.
    """
    first, second = weight(one), weight(other)
    if first + second <= 0.0:
        return 0.0
    apart = sum(abs(one[place] * second - other[place] * first) * factor for place, factor in _WEIGHED)
    return apart / (first + second)


def merged(intervals: Sequence[Interval], *, most: int, share: float = 0.0) -> list[Interval]:
    """Merge neighbours, the most alike first, until at most `most` (>= 1) are left.

    Goes on while less than `share` of the weight of all would be misplaced by the next merge.
    Sums over all intervals stay what they were, and so does their order.
    """
    found = [list(interval) for interval in intervals]
    costs = [misplaced(one, other) for one, other in pairwise(found)]
    allowed = share * sum(map(weight, found))
    while costs:
        place = min(range(len(costs)), key=costs.__getitem__)
        if len(found) <= most and costs[place] > allowed:
            break
        gone = found.pop(place + 1)
        found[place] = [here + there for here, there in zip(found[place], gone, strict=True)]
        del costs[place]
        for beside in (place - 1, place):
            if 0 <= beside < len(costs):
                costs[beside] = misplaced(found[beside], found[beside + 1])
    return found


MOST_PHASES = 12
"""Phases in the record of a launch."""
_MOST_INTERVALS, _KEPT_INTERVALS = 256, 128
_SHARE = 0.01
"""Neighbours become one phase if less than this part of the launch's work is misplaced by it."""
_CPUCLOCK_SCHED = 2
"""Of linux/posix-timers.h: the CPU clock of a process is ((~pid) << 3) | CPUCLOCK_SCHED."""
_AT = {name: place for place, name in enumerate(FIELDS)}
_MOVED = [_AT[f"{library}_{way}_bytes"] for library in LIBRARIES for way in ("read", "written")]


class LaunchSeries:
    """The intervals of one launch, in order."""

    def __init__(self, *, declared: bool) -> None:
        """Begin; `declared` says whether the launch counts what it moves by library, as tests do."""
        self._declared = declared
        self._start = [0.0] * len(FIELDS)
        self._intervals: list[Interval] = []
        self._last = [0.0] * len(FIELDS)
        self._cpu: dict[int, float] = {}
        self._ended_io = [0, 0, 0]
        self._util_wait_s = 0.0

    def look(
        self, elapsed_s: float, core_wait_s: float, pids: Iterable[int], moved: Mapping[str, LibraryTraffic]
    ) -> None:
        """Account for what happened since the last look.

        `core_wait_s` and `moved` are sums since the launch began; `pids` are its processes that are there.
        """
        moves = list(self._ended_io)
        for pid in pids:
            self._cpu[pid] = max(self._cpu.get(pid, 0.0), _cpu_s(pid))
            moves = [sum(both) for both in zip(moves, _io(pid), strict=True)]
        now = dict.fromkeys(FIELDS, 0.0)
        now |= {"seconds": elapsed_s, "core_wait_s": core_wait_s, "cpu_s": sum(self._cpu.values())}
        for library, traffic in moved.items():
            now[f"{library}_read_bytes"] = traffic.read_bytes
            now[f"{library}_written_bytes"] = traffic.written_bytes
            now["io_wait_s"] += (traffic.read_wait_s + traffic.write_wait_s) if library != "util" else 0.0
        read, written, now["device_read_bytes"] = moves
        # Engines spill on their own; that is counted for util only once they have done.
        now["other_read_bytes"] = read - moved["data"].read_bytes - moved["work"].read_bytes
        now["other_written_bytes"] = written - moved["data"].written_bytes - moved["work"].written_bytes
        # A process that is gone takes its counts along: nothing may fall.
        later = [max(before, now[name]) for name, before in zip(FIELDS, self._last, strict=True)]
        interval = [after - before for after, before in zip(later, self._last, strict=True)]
        self._last = later
        if self._declared and not self._intervals and not any(interval[place] for place in _MOVED):
            self._start = [sum(both) for both in zip(self._start, interval, strict=True)]
            return
        self._intervals.append(interval)
        util_wait_s = moved["util"].read_wait_s + moved["util"].write_wait_s
        _place_spill(self._intervals, util_wait_s - self._util_wait_s)
        self._util_wait_s = util_wait_s
        if len(self._intervals) >= _MOST_INTERVALS:
            self._intervals = merged(self._intervals, most=_KEPT_INTERVALS)

    def end_of(self, pid: int) -> None:
        """Keep the I/O of a process that is about to be waited for."""
        self._ended_io = [sum(both) for both in zip(self._ended_io, _io(pid), strict=True)]

    def phases(self, cpu_s: float) -> list[LaunchPhase]:
        """The phases of the launch.

        The start of a test, until it first moves a byte of a library, is a phase of its own: it does not
        grow with the data.

        `cpu_s` is what wait4(2) says of the whole launch; the phases are made to add up to it.
        What a test moves beside its libraries is the loading of its own program, which is
        not counted; of a command nothing else is known.
        """
        start, intervals = list(self._start), [list(interval) for interval in self._intervals]
        seen = sum(each[_AT["cpu_s"]] for each in (start, *intervals))
        for each in (start, *intervals):
            each[_AT["cpu_s"]] *= cpu_s / seen if seen > 0.0 else 0.0
            if self._declared:
                each[_AT["other_read_bytes"]] = each[_AT["other_written_bytes"]] = 0.0
        found = [start, *merged(intervals, most=MOST_PHASES - 1, share=_SHARE)]
        return [_rounded(each) for each in found if any(each)]


def _place_spill(intervals: list[Interval], wait_s: float) -> None:
    """Move what the last interval counts for util, and its wait, back to when it was moved.

    It is counted at the end of a spill, as all that the process moved meanwhile beside its tables:
    other bytes of the intervals before, which make up the count from the last one backwards.
    """
    placed = [0.0] * len(intervals)
    for way in ("read", "written"):
        util, other = _AT[f"util_{way}_bytes"], _AT[f"other_{way}_bytes"]
        owed, intervals[-1][util] = intervals[-1][util], 0.0
        for place in reversed(range(len(intervals))):
            if owed <= 0.0:
                break
            part = min(owed, intervals[place][other])
            intervals[place][other] -= part
            intervals[place][util] += part
            placed[place] += part
            owed -= part
        intervals[-1][util] += owed
        placed[-1] += owed
    whole = sum(placed)
    if wait_s > 0.0 and whole > 0.0:
        for interval, part in zip(intervals, placed, strict=True):
            interval[_AT["io_wait_s"]] += wait_s * part / whole


def _rounded(interval: Interval) -> LaunchPhase:
    figures: dict[str, Any] = {
        name: round(value) if name.endswith("_bytes") else round(value, 4)
        for name, value in zip(FIELDS, interval, strict=True)
    }
    return LaunchPhase(**figures)


def _cpu_s(pid: int) -> float:
    """CPU seconds of a process, its ended threads included (clock_getcpuclockid(3))."""
    try:
        return time.clock_gettime((~pid << 3) | _CPUCLOCK_SCHED)
    except OSError:
        return 0.0


def _io(pid: int) -> tuple[int, int, int]:
    """Bytes a process, and all it waited for, read and wrote, and read from a device (proc_pid_io(5))."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        fields = dict(line.split(b": ") for line in Path(f"/proc/{pid}/io").read_bytes().splitlines())
        return int(fields[b"rchar"]), int(fields[b"wchar"]), int(fields[b"read_bytes"])
    return 0, 0, 0
