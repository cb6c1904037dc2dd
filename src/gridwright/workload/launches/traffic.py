"""What a launch moves to and from each library: counted where files are read and written, kept in memory.

The figures are unsigned 64-bit words in a memory file that both processes map: they outlive a launch that
is killed, and cost no message.

Memory is bounded whatever the length of the launch: many intervals are merged into fewer.
"""

from __future__ import annotations

import contextlib
import io
import mmap
import os
import struct
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gridwright.runs.launch_record import LaunchPhase, LibraryTraffic

if TYPE_CHECKING:
    from pathlib import Path


LIBRARIES = ("data", "work", "util")
Way = Literal["read", "write"]
_WORDS_PER_LIBRARY = 6
"""Bytes read, bytes written, nanoseconds waited in reads, and in writes, calls that read, and that wrote."""
_WORD = struct.Struct("=Q")
SIZE = len(LIBRARIES) * _WORDS_PER_LIBRARY * _WORD.size


class LaunchTraffic:
    """The counters of one launch; one thread writes, any process reads."""

    def __init__(self, fd: int) -> None:
        """Map the counters in the memory file `fd`, which stays the caller's. Raises OSError."""
        self._map = mmap.mmap(fd, SIZE)

    @staticmethod
    def create() -> int:
        """Make a memory file of counters at zero; returns its file descriptor. Raises OSError."""
        fd = os.memfd_create("gridwright-traffic", os.MFD_CLOEXEC)
        os.ftruncate(fd, SIZE)
        return fd

    def add(self, library: str, way: Way, moved: int, waited_ns: int, calls: int = 1) -> None:
        """Count bytes moved to or from a library in so many calls, and the time waited for it."""
        base = LIBRARIES.index(library) * _WORDS_PER_LIBRARY + (way == "write")
        self._increase(base, moved)
        self._increase(base + 2, max(0, waited_ns))
        self._increase(base + 4, calls)

    def totals(self) -> dict[str, LibraryTraffic]:
        """The figures so far, by library."""
        found = {}
        for number, library in enumerate(LIBRARIES):
            read, written, read_ns, write_ns, reads, writes = struct.unpack_from(
                "=6Q", self._map, number * _WORDS_PER_LIBRARY * _WORD.size
            )
            found[library] = LibraryTraffic(read, written, read_ns / 1e9, write_ns / 1e9, reads, writes)
        return found

    def waited_ns(self) -> int:
        """Nanoseconds waited so far, over all libraries."""
        return sum(round((total.read_wait_s + total.write_wait_s) * 1e9) for total in self.totals().values())

    def close(self) -> None:
        """Unmap the counters."""
        self._map.close()

    def _increase(self, word: int, by: int) -> None:
        place = word * _WORD.size
        _WORD.pack_into(self._map, place, _WORD.unpack_from(self._map, place)[0] + by)


@contextmanager
def blocked_time() -> Iterator[list[int]]:
    """Measure how long this thread neither ran nor was runnable; one element, nanoseconds, at the end.

    That is the time inside, less its CPU time, less its time on a run queue
    (proc_pid_schedstat(5)).
    """
    found = [0]
    delay, used, began = _run_delay_ns(), time.thread_time_ns(), time.perf_counter_ns()
    try:
        yield found
    finally:
        wall = time.perf_counter_ns() - began
        used = time.thread_time_ns() - used
        found[0] = max(0, wall - used - (_run_delay_ns() - delay))


def _run_delay_ns() -> int:
    try:
        with open("/proc/thread-self/schedstat", "rb", buffering=0) as file:  # noqa: PTH123 - 5 µs count
            return int(file.read().split()[1])
    except (OSError, IndexError, ValueError):
        # A kernel without CONFIG_SCHED_INFO: waiting for a core then counts as waiting for the call.
        return 0


BLOCK_BYTES = 64 << 10
"""What a call moves unless the matrix or the user says otherwise: the buffer of a SAS data set, and the block
that the published iotest.sh has (003.iot.block_kib)."""


class CountedFile(io.RawIOBase):
    """Reads or writes whole blocks that begin at multiples of their size, whatever size is asked for.

    What is left of a block is kept: a few bytes are no call of their own, and a long piece is many.
    """

    def __init__(
        self, path: Path, mode: str, library: str, traffic: LaunchTraffic, block_bytes: int = BLOCK_BYTES
    ) -> None:
        """Open for reading (`r`), writing anew (`w`) or after what is there (`a`). Raises OSError."""
        super().__init__()
        flags = {"r": os.O_RDONLY, "w": os.O_WRONLY | os.O_CREAT | os.O_TRUNC, "a": os.O_WRONLY}[mode]
        self._library = library
        self._traffic = traffic
        self._mode = mode
        self._block = block_bytes
        self._buffer = memoryview(bytearray(block_bytes))
        self._filled = 0
        """Bytes in the buffer: read and not all given out, or not written yet."""
        self._given = 0
        """Of these, how many were given out."""
        self._at = 0
        """Where the next call reads or writes."""
        with blocked_time() as blocked:
            self._fd = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self._count(0, 0, blocked[0])

    def readable(self) -> bool:
        """Whether it was opened for reading."""
        return self._mode == "r"

    def writable(self) -> bool:
        """Whether it was opened for writing."""
        return self._mode != "r"

    def fileno(self) -> int:
        """The file descriptor, which stays this object's."""
        return self._fd

    def seekable(self) -> bool:
        """Always."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """As os.lseek; what is in the buffer is written, or dropped if the place is not in it."""
        self.flush()
        from_ = {os.SEEK_SET: 0, os.SEEK_CUR: self.tell()}
        place = offset + (from_[whence] if whence in from_ else os.fstat(self._fd).st_size)
        if self._mode == "r" and self._at - self._filled <= place <= self._at:
            self._given = self._filled - (self._at - place)
        else:
            self._at = os.lseek(self._fd, place, os.SEEK_SET)
            self._filled = self._given = 0
        return place

    def tell(self) -> int:
        """Where the caller reads or writes next."""
        return self._at - (self._filled - self._given) if self._mode == "r" else self._at + self._filled

    def truncate(self, size: int | None = None) -> int:
        """Cut the file to `size` bytes, or to where it stands."""
        self.flush()
        size = self.tell() if size is None else size
        os.ftruncate(self._fd, size)
        return size

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Fill the buffer as far as the file goes; returns how many bytes."""
        view = memoryview(buffer).cast("B")
        done = self._give(view)
        if done == len(view):
            return done
        moved = calls = 0
        with blocked_time() as blocked:
            while done < len(view):
                room = self._room()
                kept = len(view) - done < room
                target = self._buffer[:room] if kept else view[done : done + room]
                got = os.readv(self._fd, [target])
                calls += 1
                if not got:
                    break
                moved += got
                self._at += got
                if kept:
                    self._filled, self._given = got, 0
                    done += self._give(view[done:])
                else:
                    # What the buffer held lies no longer just before the place of the next call.
                    self._filled = self._given = 0
                    done += got
        self._count(moved, calls, blocked[0])
        return done

    def read(self, size: int = -1) -> bytes:
        """Read `size` bytes, or fewer at the end; all that is left if negative."""
        if size < 0:
            return self.readall()
        buffer = bytearray(size)
        return bytes(memoryview(buffer)[: self.readinto(buffer)])

    def write(self, data: bytes | memoryview) -> int:  # type: ignore[override]
        """Write all of it, but for what begins a block that is not full: `flush` writes that."""
        view = memoryview(data).cast("B")
        if self._filled + len(view) < self._room():
            self._keep(view)
            return len(view)
        done = moved = calls = 0
        with blocked_time() as blocked:
            while done < len(view):
                missing = self._room() - self._filled
                if len(view) - done < missing:
                    self._keep(view[done:])
                    break
                if self._filled:
                    self._keep(view[done : done + missing])
                    moved, calls = moved + self._filled, calls + self._write_out(self._buffer[: self._filled])
                    self._filled = 0
                else:
                    moved, calls = moved + missing, calls + self._write_out(view[done : done + missing])
                done += missing
        self._count(moved, calls, blocked[0])
        return len(view)

    def flush(self) -> None:
        """Write what is in the buffer. Raises OSError, and has lost it then."""
        if self._mode == "r" or not self._filled:
            return
        size, self._filled = self._filled, 0
        with blocked_time() as blocked:
            calls = self._write_out(self._buffer[:size])
        self._count(size, calls, blocked[0])

    def close(self) -> None:
        """Write what is left and close it: a network file system may write back, and wait, here."""
        if self.closed:
            return
        try:
            self.flush()
        finally:
            with blocked_time() as blocked:
                os.close(self._fd)
            self._count(0, 0, blocked[0])
            super().close()

    def _room(self) -> int:
        """Bytes from the place of the next call to the end of its block."""
        return self._block - self._at % self._block

    def _give(self, view: memoryview) -> int:
        """Give out what is in the buffer; returns how many bytes."""
        step = min(len(view), self._filled - self._given)
        view[:step] = self._buffer[self._given : self._given + step]
        self._given += step
        return step

    def _keep(self, view: memoryview) -> None:
        self._buffer[self._filled : self._filled + len(view)] = view
        self._filled += len(view)

    def _write_out(self, view: memoryview) -> int:
        """Write all of it; returns in how many calls."""
        calls = done = 0
        while done < len(view):
            done += os.write(self._fd, view[done:])
            calls += 1
        self._at += len(view)
        return calls

    def _count(self, moved: int, calls: int, blocked_ns: int) -> None:
        self._traffic.add(self._library, "read" if self._mode == "r" else "write", moved, blocked_ns, calls)


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
