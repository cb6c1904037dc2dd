"""Reads what the processes of each job, and control groups with limits, have used of a node.

Of a job: CPU time, memory, bytes to and from storage, waits for I/O. A process belongs to the job that its
environment names, or to that of an ancestor. Only root sees the environment of other users' processes, so
others see their own jobs. The native part reads all in one call.

What a process did between the last sample and its end is lost where none of its job waits for it, as of the
first process of a job, or of one that was started in the background by a shell that is gone.

How long the processes of jobs wait for I/O, by the best that the node tells of it: `pressure`, where the
scheduler has a control group for each job, and the kernel counts in its `io.pressure` the time in which at
least one task waited (Documentation/accounting/psi.rst), exact, threads included; `delay`, where the kernel
counts the waits of tasks (kernel.task_delayacct), of each process its first thread, and the waits of several
processes add up; `state`, whether a process's first thread waited in the kernel (state D) at the time of a
sample.

Limits of control groups are looked for once a minute; what such groups moved is read each time. Version 2 has
`io.max`, `io.stat` and `cpu.stat` (cgroup-v2 of Linux), version 1 `blkio.throttle.*` (cgroup-v1/blkio-
controller) and `cpu.stat` (scheduler/sched-bwc).
"""

from __future__ import annotations

import math
import os
import re
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gridwright import _native
from gridwright.filesystems.counters import Reading
from gridwright.interference.processes import TICK_S
from gridwright.kernel_files import text_of
from gridwright.trusted import user_name

_AGAIN_S = 10.0
"""A job whose control group was not found is looked at again: its first process may be outside of it. Time
between two looks doubles, since many jobs never have one."""
_TREES = ("", "unified")
"""Where version 2 is mounted: alone, or beside version 1."""


@dataclass(slots=True)
class _Waiting:
    """What is known of one job."""

    group: Path | None = None
    due_s: float = 0.0
    """When it is looked for again."""
    rest_s: float = _AGAIN_S
    seen_s: float = 0.0
    """Waited, by its state when it was looked at."""
    last_s: float = 0.0


@dataclass(slots=True)
class JobWaits:
    """Tells the waits of jobs; remembers where their control groups are."""

    proc: Path
    cgroups: Path
    _jobs: dict[str, _Waiting] = field(default_factory=dict)
    _counts_delays: bool | None = None

    def reading(self, job: str, pids: Sequence[int], delay_ticks: int, waiting: int, at: float) -> Reading:
        """How long a job has waited since some moment."""
        known = self._jobs.setdefault(job, _Waiting(due_s=at, last_s=at))
        known.seen_s += at - known.last_s if waiting else 0.0
        known.last_s = at
        if known.group is None and at >= known.due_s and pids:
            known.group = self._group_of(pids[-1])
            known.due_s, known.rest_s = at + known.rest_s, 2 * known.rest_s
        metric = "gridwright_job_waiting_seconds_total"
        if known.group is not None and (stalled := _stalled_s(known.group / "io.pressure")) is not None:
            return Reading(metric, (job, "pressure"), stalled, at)
        if self._delays_are_counted():
            return Reading(metric, (job, "delay"), delay_ticks * TICK_S, at)
        return Reading(metric, (job, "state"), known.seen_s, at)

    def retain_only(self, jobs: set[str]) -> None:
        """Forget all others."""
        for gone in self._jobs.keys() - jobs:
            del self._jobs[gone]

    def is_in_group_of(self, job: str, pid: int) -> bool:
        """Whether a process is in a control group that the scheduler has for just this job.

        Users have groups of their own below `user.slice` alone, and may call these what they like.
        """
        lines = (text_of(self.proc / str(pid) / "cgroup") or "").splitlines()
        paths = [line.split(":", 2)[2] for line in lines if line.count(":") >= 2]
        return any(f"/job_{job}/" in f"{path}/" and "/user.slice/" not in path for path in paths)

    def _group_of(self, pid: int) -> Path | None:
        """The control group of a whole job that a process is in: Slurm's are called `job_` and a number."""
        for line in (text_of(self.proc / str(pid) / "cgroup") or "").splitlines():
            number, _, path = line.split(":", 2) if line.count(":") >= 2 else ("", "", "")
            found = re.search(r"^(.*/job_[0-9]+)(?:/|$)", path)
            if number != "0" or found is None:
                continue
            for tree in _TREES:
                group = self.cgroups / tree / found[1].lstrip("/")
                if (group / "io.pressure").exists():
                    return group
        return None

    def _delays_are_counted(self) -> bool:
        if self._counts_delays is None:
            switch = text_of(self.proc / "sys/kernel/task_delayacct")
            # Before Linux 5.14 there was no such switch, and delays were counted wherever it was built so.
            self._counts_delays = switch != "0"
        return self._counts_delays


def _stalled_s(path: Path) -> float | None:
    found = re.search(r"^some .*total=([0-9]{1,20})", text_of(path) or "", re.MULTILINE)
    return int(found[1]) / 1e6 if found else None


_PAGE = os.sysconf("SC_PAGE_SIZE")
_LOOK_S = 30.0
"""How often open files are looked at: each is a call of the kernel."""
_FRESH_S = 0.5
"""So long ago, processes of jobs are those of now to whoever adds up all others."""
_MOST_OWNERS = 20_000
"""Processes of a job that are looked at until one is in its control group."""
_MOST_FILES = 4096
"""Of a job that are looked at; a process of a job seldom has more than a few dozen."""


@dataclass(slots=True)
class JobSources:
    """Reads all jobs that can be seen; remembers which process is of which job."""

    proc: Path = Path("/proc")
    cgroups: Path = Path("/sys/fs/cgroup")
    directories: Sequence[str] = ()
    """Of libraries: which of them have files that a job has open."""
    _processes: _native.JobProcesses = field(init=False)
    _waits: JobWaits = field(init=False)
    _open: dict[str, list[Reading]] = field(default_factory=dict)
    _open_at: dict[str, float] = field(default_factory=dict)
    _users: dict[str, tuple[str, float]] = field(default_factory=dict)
    """Whose each job is, and until when that holds."""
    _rows: tuple[list[_native.JobOnNode], float] = ([], -math.inf)
    """As they were looked at last, and when."""
    _looking: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """Begin to follow."""
        self._processes = _native.JobProcesses(self.proc)
        self._waits = JobWaits(self.proc, self.cgroups)

    def readings(self) -> list[Reading]:
        """The sums of each job, now.

        Linux adds what a process used that has ended to the parent that waited for it. Where that one ignores
        how its children end, it gets nothing: the sums of the job begin anew then, and have no rate.
        """
        rows = self._look()
        at = time.monotonic()
        readings: list[Reading] = []
        # Of 200 jobs these are 1400 each second: made so, they take half of the time.
        new, kind = tuple.__new__, Reading
        for job, ticks, delay, read, written, told, since, pages, waiting, pids in rows:
            labels = (job,)
            readings += (
                new(kind, ("gridwright_job_cpu_seconds_total", labels, ticks * TICK_S, at, since)),
                new(kind, ("gridwright_job_resident_bytes", labels, pages * _PAGE, at, None)),
                new(kind, ("gridwright_job_processes", labels, len(pids), at, None)),
            )
            if user := self._user(job, pids, at):
                readings.append(new(kind, ("gridwright_job_user", (job, user), 1.0, at, None)))
            if told:
                # With one that may not be asked, the sum would be too small, and nobody would know.
                readings += (
                    new(kind, ("gridwright_job_read_bytes_total", labels, read, at, since)),
                    new(kind, ("gridwright_job_written_bytes_total", labels, written, at, since)),
                )
            readings.append(self._waits.reading(job, pids, delay, waiting, at))
            if self.directories:
                readings += self._open_files(job, pids, at)
        self._forget({row[0] for row in rows})
        return readings

    def members(self) -> set[int]:
        """The processes of all jobs, as of a moment ago. Any thread may ask."""
        rows, looked = self._rows
        return {
            pid for row in (rows if time.monotonic() - looked < _FRESH_S else self._look()) for pid in row[-1]
        }

    def _look(self) -> list[_native.JobOnNode]:
        with self._looking:
            rows = self._processes.look()
            self._rows = rows, time.monotonic()
        return rows

    def _user(self, job: str, pids: Sequence[int], at: float) -> str:
        """Whose job it is; empty where its processes have just ended.

        Anybody can have processes that name another's job, so that those in its control group come first.
        """
        known, until = self._users.get(job, ("", -math.inf))
        if at < until:
            return known
        pids = pids[:_MOST_OWNERS]
        sure = next((pid for pid in pids if self._waits.is_in_group_of(job, pid)), None)
        for pid in pids if sure is None else [sure]:
            try:
                number = os.stat(f"{self.proc}/{pid}").st_uid  # noqa: PTH116 - hundreds of them
            except OSError:
                continue
            self._users[job] = user_name(number), at + _LOOK_S if sure is None else math.inf
            break
        return self._users.get(job, ("", 0.0))[0]

    def _forget(self, jobs: set[str]) -> None:
        self._waits.retain_only(jobs)
        for gone in self._users.keys() - jobs:
            del self._users[gone]
        for gone in self._open_at.keys() - jobs:
            del self._open_at[gone], self._open[gone]

    def _open_files(self, job: str, pids: Sequence[int], at: float) -> list[Reading]:
        """How many files of each library a job has open, as of the last look."""
        if at - self._open_at.get(job, -_LOOK_S) >= _LOOK_S:
            counts = dict.fromkeys(self.directories, 0)
            for path in self._files(pids):
                within = [
                    directory
                    for directory in self.directories
                    if path.startswith(f"{directory.rstrip('/')}/")
                ]
                if within:
                    counts[max(within, key=len)] += 1
            self._open_at[job] = at
            self._open[job] = [
                Reading("gridwright_job_open_files", (job, directory), count, at)
                for directory, count in counts.items()
                if count
            ]
        return self._open.get(job, [])

    def _files(self, pids: Sequence[int]) -> Iterator[str]:
        """Where the open files of processes lie, by the names that they had when they were opened."""
        left = _MOST_FILES
        for pid in pids:
            directory = f"{self.proc}/{pid}/fd"
            try:
                names = os.listdir(directory)  # noqa: PTH208 - hundreds of them
            except OSError:
                continue
            for name in names[:left]:
                try:
                    yield os.readlink(f"{directory}/{name}")  # noqa: PTH115
                except OSError:
                    continue
            left -= len(names)
            if left <= 0:
                return


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
