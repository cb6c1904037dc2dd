"""Records what a launch did when: its guard looks ten times a second, and keeps a few phases of it.

Memory is bounded whatever the length of the launch: many intervals are merged into fewer.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gridwright.runs.launch_record import LaunchPhase, LibraryTraffic
from gridwright.workload.launches.phase_merge import FIELDS, Interval, merged
from gridwright.workload.launches.traffic import LIBRARIES

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
        for library, each in moved.items():
            now[f"{library}_read_bytes"] = each.read_bytes
            now[f"{library}_written_bytes"] = each.written_bytes
            now["io_wait_s"] += (each.read_wait_s + each.write_wait_s) if library != "util" else 0.0
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
        start, intervals = list(self._start), [list(each) for each in self._intervals]
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
