"""The process between a node's agent and one launch: it starts, watches, ends and accounts for the launch.

It is forked for each launch, is the parent of all that the launch leaves behind (PR_SET_CHILD_SUBREAPER),
and ends everything when the agent closes its end of the control pipe, or dies.

Finds processes of a launch that ended without being waited for, and keeps what they had counted.

Whoever waits for a process takes over its CPU time and its I/O (wait4(2), proc_pid_io(5)). Where the parent
ignores SIGCHLD, both are lost: what is kept of them is what the last look saw, ten times a second.

Counts the CPU time of a launch with all that it starts, also of processes that nobody waits for.

wait4(2) tells nothing of a process whose parent ignores SIGCHLD or has set SA_NOCLDWAIT: the kernel removes
it when it ends, and its time with it (wait(2), NOTES). A control group keeps it in cpu.stat, without any
controller (https://docs.kernel.org/admin-guide/cgroup-v2.html). Where this user may make none, a perf event
that processes inherit from their parents keeps it (perf_event_open(2)).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import signal
import struct
import subprocess
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, Protocol

from gridwright.beneath import open_own, remove_tree
from gridwright.messages import encode
from gridwright.runs.launch_record import LaunchPhase, UnwaitedCount
from gridwright.schedulers.process_tree import (
    adopt_orphans,
    descendants,
    die_with_parent,
    kill_all,
    resident_bytes,
    run_delay_ns,
)
from gridwright.workload.launches.control_group import ControlGroup
from gridwright.workload.launches.traffic import LaunchSeries, LaunchTraffic

_SYSCALL = {"x86_64": 298, "aarch64": 241, "ppc64le": 319, "s390x": 331, "riscv64": 241}
"""perf_event_open of asm/unistd.h, by os.uname().machine."""
_SOFTWARE, _TASK_CLOCK = 1, 1
"""PERF_TYPE_SOFTWARE and PERF_COUNT_SW_TASK_CLOCK of linux/perf_event.h."""
_DISABLED, _INHERIT, _EXCLUDE_KERNEL, _ENABLE_ON_EXEC = 1 << 0, 1 << 1, 1 << 5, 1 << 12
"""Bits of perf_event_attr. A task clock runs in the kernel, too, whatever the third says; without it, users
other than root may open none where perf_event_paranoid is 2, as the kernel has it by default."""
_CLOSE_ON_EXEC = 8
"""PERF_FLAG_FD_CLOEXEC."""
_ATTRIBUTES = struct.Struct("=IIQQQQQ")
_ATTRIBUTES_SIZE = 64
"""PERF_ATTR_SIZE_VER0, which every kernel takes."""
_NS = 1_000_000_000
_LEAST_S = 0.02
"""Two ticks of most kernels' clock."""


@dataclass(frozen=True, slots=True)
class CpuTime:
    """Seconds of CPU time; how much of `total_s` is of the kernel is None where it is not known."""

    total_s: float
    system_s: float | None


class CpuClock(Protocol):
    """The CPU time of a launch and its descendants, however they ended."""

    counted: UnwaitedCount

    def read(self) -> CpuTime | None:
        """What was used so far; at most what was used, None if it cannot be read."""

    def close(self) -> None:
        """Let go of it."""


def cpu_clock(group: ControlGroup | None) -> CpuClock | None:
    """The clock of what this process, which is in `group`, is about to start; None if there is none."""
    if group is not None and group.cpu_time_s() is not None:
        return _GroupClock(group)
    try:
        return _EventClock()
    except (OSError, KeyError):
        return None


def cpu_unwaited(
    user_s: float, system_s: float, total: CpuTime | None, *, seen_s: float
) -> tuple[float, float]:
    """User and system seconds of processes that nobody waited for, beside those that were.

    `total` is what a clock read, `seen_s` what looks at these processes saw of it. Clocks of different
    kinds differ a little: less than 1 % or `_LEAST_S` that was not seen either is none. Where no clock
    tells how it divides, all of it is user time, as most of a job's is.
    """
    waited_s = user_s + system_s
    missing_s = total.total_s - waited_s if total is not None else 0.0
    if missing_s < max(_LEAST_S, 0.01 * waited_s):
        missing_s = 0.0
    if missing_s < seen_s:
        return seen_s, 0.0
    if total is None or total.system_s is None:
        return missing_s, 0.0
    of_system_s = min(missing_s, max(0.0, total.system_s - system_s))
    return missing_s - of_system_s, of_system_s


class _GroupClock:
    counted: UnwaitedCount = "control group"

    def __init__(self, group: ControlGroup) -> None:
        self._group = group
        self._before = group.cpu_time_s() or (0.0, 0.0)
        self._own = _own_s()

    def read(self) -> CpuTime | None:
        now = self._group.cpu_time_s()
        if now is None:
            return None
        own = _own_s()
        user, system = (now[each] - self._before[each] - (own[each] - self._own[each]) for each in (0, 1))
        return CpuTime(max(0.0, user + system), max(0.0, system))

    def close(self) -> None:
        """Nothing: the group is the caller's."""


class _EventClock:
    """An event of the calling process, which counts in what it forks from their exec on.

    A task clock also runs while a hypervisor has taken the core away or an interrupt is served, which no
    process is charged with everywhere: so much, of the whole node, is taken off.
    """

    counted: UnwaitedCount = "perf event"

    def __init__(self) -> None:
        """Open it. Raises OSError, and KeyError on a machine whose call is not known."""
        flags = _DISABLED | _INHERIT | _EXCLUDE_KERNEL | _ENABLE_ON_EXEC
        attributes = _ATTRIBUTES.pack(_SOFTWARE, _ATTRIBUTES_SIZE, _TASK_CLOCK, 0, 0, 0, flags)
        buffer = ctypes.create_string_buffer(attributes, _ATTRIBUTES_SIZE)
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = int(
            libc.syscall(
                ctypes.c_long(_SYSCALL[os.uname().machine]),
                buffer,
                ctypes.c_int(0),
                ctypes.c_int(-1),
                ctypes.c_int(-1),
                ctypes.c_ulong(_CLOSE_ON_EXEC),
            )
        )
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "perf_event_open")
        self._taken = _taken_s()

    def read(self) -> CpuTime | None:
        try:
            (counted,) = struct.unpack("=Q", os.read(self._fd, 8))
        except (OSError, struct.error):
            return None
        return CpuTime(max(0.0, counted / _NS - max(0.0, _taken_s() - self._taken)), None)

    def close(self) -> None:
        os.close(self._fd)


def _own_s() -> tuple[float, float]:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime, usage.ru_stime


def _taken_s() -> float:
    """Seconds of interrupts and steal on all cores of the node (proc_stat(5), `cpu`)."""
    try:
        with open("/proc/stat", "rb") as file:  # noqa: PTH123 - twice a launch
            fields = file.readline().split()
        return sum(int(fields[each]) for each in (6, 7, 8)) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return 0.0


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


POLL_S = 0.1
GRACE_S = 0.5
"""Between SIGTERM and SIGKILL."""
GONE_S = 3.0
"""A process that outlives SIGKILL by this much hangs in the kernel."""
_TAIL_BYTES = 16 * 1024
_OPEN_FILES = resource.getrlimit(resource.RLIMIT_NOFILE)
"""As the user has it; the agent raises its own."""
_FORKED_KIB = 2048
"""What a fork of the guard may add to its memory before it becomes the launch."""
_OOM_SCORE = "500"
"""Should memory run out, the kernel takes a launch rather than what records it."""


_OF_IO = ("read_bytes", "written_bytes", None, None, "device_read_bytes", "device_written_bytes")
"""Where the counters of `IO` go."""


@dataclass(frozen=True, slots=True)
class Order:
    """What to run, and within which limits: bytes and seconds."""

    number: int
    arguments: list[str]
    environment: dict[str, str]
    work: Path
    util: Path
    memory_bytes: int
    time_limit_s: float
    keep: bool
    request: bytes | None = None
    """What a test reads; a command has none."""


@dataclass(slots=True)
class LaunchOutcome:
    """What came of it; times in seconds, sizes in bytes, None where it could not be read."""

    number: int
    started: float = 0.0
    ended: float = 0.0
    real_s: float = 0.0
    user_s: float = 0.0
    system_s: float = 0.0
    unwaited_cpu_s: float = 0.0
    unwaited_counted: UnwaitedCount | None = None
    exit_status: int | None = None
    signal: int | None = None
    peak_memory_bytes: int = 0
    read_bytes: int | None = 0
    written_bytes: int | None = 0
    device_read_bytes: int | None = 0
    device_written_bytes: int | None = 0
    core_wait_s: float = 0.0
    memory_wait_s: float | None = None
    ended_by: str | None = None
    """`time`, `memory` or `stop` if the guard ended it; `start` if it could not be started;
    `hang` if it did not even die."""
    message: str = ""
    oom_kills: int = 0
    output: str = ""
    phases: list[LaunchPhase] = field(default_factory=list)
    """What it did in which order."""
    left: list[str] = field(default_factory=list)
    """Directories that could not be removed."""


def fork_guard(order: Order, traffic: int, group: ControlGroup | None) -> tuple[int, int, int]:
    """Start a guard; returns its process id, the control pipe to close, and the pipe of its outcome.

    The caller must have no threads. Raises OSError.
    """
    control_read, control_write = os.pipe()
    result_read, result_write = os.pipe()
    pid = os.fork()
    if not pid:
        _guard(order, traffic, group, control_read, result_write)
    os.close(control_read)
    os.close(result_write)
    return pid, control_write, result_read


def _guard(order: Order, traffic: int, group: ControlGroup | None, control: int, result: int) -> NoReturn:
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        # Where it is ignored, as a parent may have left it, wait4(2) tells nothing.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        os.setsid()
        adopt_orphans()
        # Else this process would hold the control pipes of others, and the agent's output, open.
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        _close_all_but({0, 1, 2, traffic, control, result})
        outcome = _Guard(order, traffic, group, control).run()
        with os.fdopen(result, "wb") as file:
            file.write(encode(outcome))
    except BrokenPipeError:
        pass  # the agent is gone
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def _close_all_but(kept: set[int]) -> None:
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - names are numbers
        if int(name) not in kept:
            with contextlib.suppress(OSError):
                os.close(int(name))


class _Guard:
    def __init__(self, order: Order, traffic: int, group: ControlGroup | None, control: int) -> None:
        self._order = order
        self._traffic = traffic
        self._moved = LaunchTraffic(traffic)
        self._series = LaunchSeries(declared=order.request is not None)
        self._group = group
        self._control = control
        self._outcome = LaunchOutcome(order.number)
        self._delays: dict[int, int] = {}
        self._unwaited = Unwaited()
        self._tail = b""

    def run(self) -> LaunchOutcome:
        """Run the launch to its end, whatever that is."""
        if self._group is not None:
            # Here and not in the launch: the move takes the kernel milliseconds of the real time.
            try:
                self._group.enter()
            except OSError:
                self._group = None
        self._clock = cpu_clock(self._group)
        try:
            for directory in (self._order.work, self._order.util):
                _make(directory)
            self._watch(self._start())
        except OSError as error:
            self._outcome.ended_by = self._outcome.ended_by or "start"
            self._outcome.message = f"{error.strerror}: {error.filename or self._order.arguments[0]}"
        except (ValueError, subprocess.SubprocessError) as error:
            # A NUL, or half of a surrogate pair, cannot be passed to a program.
            self._outcome.ended_by = "start"
            self._outcome.message = str(error)
        self._outcome.output = self._tail.decode(errors="replace")
        self._remove()
        return self._outcome

    def _start(self) -> int:
        parent = os.getpid()
        passed = [self._traffic]
        arguments = list(self._order.arguments)
        if self._order.request is not None:
            passed.append(_memory_file(self._order.request))
            arguments += [str(passed[1]), str(self._traffic)]
        self._output, output = os.pipe()
        self._outcome.started = time.time()
        self._began = time.monotonic()
        try:
            process = subprocess.Popen(
                arguments,
                env=self._order.environment,
                cwd=self._order.work,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                pass_fds=passed,
                preexec_fn=lambda: self._become(parent),  # noqa: PLW1509 - a guard has no threads
            )
        finally:
            os.close(output)
        process.returncode = 0  # waited for below, with its usage
        return process.pid

    def _become(self, parent: int) -> None:
        """In the child, before it is the launch."""
        die_with_parent(parent)
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE)
        resource.setrlimit(resource.RLIMIT_NOFILE, _OPEN_FILES)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)

    def _watch(self, pid: int) -> None:
        poll = select.poll()
        leader = os.pidfd_open(pid)
        poll.register(leader, select.POLLIN)
        poll.register(self._control, select.POLLIN)
        poll.register(self._output, select.POLLIN)
        looked = 0.0
        while True:
            ready = dict(poll.poll(POLL_S * 1000))
            if self._output in ready and not self._drain():
                poll.unregister(self._output)
            if leader in ready:
                break
            if time.monotonic() - looked >= POLL_S:
                looked = time.monotonic()
                self._look()
            if reason := self._reason(stopped=self._control in ready):
                self._outcome.ended_by = reason
                self._end(leader)
                break
        self._settle(pid)

    def _reason(self, *, stopped: bool) -> str | None:
        if stopped:
            return "stop"
        if self._outcome.peak_memory_bytes > self._order.memory_bytes:
            return "memory"
        return "time" if time.monotonic() - self._began > self._order.time_limit_s else None

    def _look(self) -> None:
        """Sum the memory of all processes; remember what they did since the last look."""
        used = 0
        pids = list(descendants(os.getpid()))
        for pid in pids:
            used += resident_bytes(pid)
            self._delays[pid] = max(self._delays.get(pid, 0), run_delay_ns(pid))
        self._outcome.peak_memory_bytes = max(self._outcome.peak_memory_bytes, used)
        self._unwaited.look(os.getpid())
        self._series.look(
            time.monotonic() - self._began, sum(self._delays.values()) / 1e9, pids, self._moved.totals()
        )

    def _drain(self) -> bool:
        chunk = os.read(self._output, 1 << 16)
        self._tail = (self._tail + chunk)[-_TAIL_BYTES:]
        return bool(chunk)

    def _end(self, leader: int) -> None:
        """SIGTERM to all, and after a moment SIGKILL."""
        kill_all(descendants(os.getpid()), signal.SIGTERM)
        select.select([leader], [], [], GRACE_S)
        self._kill()
        if not select.select([leader], [], [], GONE_S)[0]:
            self._outcome.ended_by = "hang"

    def _kill(self) -> None:
        kill_all(descendants(os.getpid()), signal.SIGKILL)

    def _settle(self, pid: int) -> None:
        """Take the usage of the launch, then end and count what it left running."""
        if self._outcome.ended_by != "hang":
            _wait_until_ended(pid)
        self._outcome.real_s = time.monotonic() - self._began
        if self._outcome.ended_by != "hang":
            self._reap(pid)
        self._outcome.ended = self._outcome.started + self._outcome.real_s
        deadline = time.monotonic() + GONE_S
        while self._children() and time.monotonic() < deadline:
            self._kill()
            while (orphan := _ended_child()) is not None:
                self._reap(orphan)
            time.sleep(0.005 if self._children() else 0)
        os.set_blocking(self._output, False)
        with contextlib.suppress(BlockingIOError):
            while self._drain():
                pass
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        # A process begins as a copy of this one, which the kernel counts as its peak.
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss + _FORKED_KIB
        if usage.ru_maxrss > own or not self._outcome.peak_memory_bytes:
            self._outcome.peak_memory_bytes = max(self._outcome.peak_memory_bytes, usage.ru_maxrss * 1024)
        self._outcome.core_wait_s = sum(self._delays.values()) / 1e9
        self._count_cpu(usage.ru_utime, usage.ru_stime)
        self._add_io(self._unwaited.io)
        self._outcome.phases = self._series.phases(self._outcome.user_s + self._outcome.system_s)
        if self._group is not None:
            stalls = self._group.stalls()
            self._outcome.memory_wait_s = stalls.memory_wait_s
            self._outcome.oom_kills = stalls.oom_kills

    def _count_cpu(self, user_s: float, system_s: float) -> None:
        """Take what wait4(2) told, and add the time of processes that nobody waited for."""
        total = self._clock.read() if self._clock is not None else None
        unwaited = cpu_unwaited(user_s, system_s, total, seen_s=self._unwaited.cpu_s)
        self._outcome.user_s, self._outcome.system_s = user_s + unwaited[0], system_s + unwaited[1]
        self._outcome.unwaited_cpu_s = sum(unwaited)
        if self._outcome.unwaited_cpu_s or self._unwaited.processes:
            self._outcome.unwaited_counted = self._clock.counted if self._clock and total else "looks"
        if self._clock is not None:
            self._clock.close()

    def _children(self) -> bool:
        return next(descendants(os.getpid()), None) is not None

    def _reap(self, pid: int) -> None:
        """Wait for a process that has ended; before it is gone, read what it counted."""
        _wait_until_ended(pid)
        self._look()
        self._series.end_of(pid)
        self._count_io(pid)
        with contextlib.suppress(ChildProcessError):
            _, status, _ = os.wait4(pid, 0)
            if self._outcome.exit_status is None and self._outcome.signal is None:
                code = os.waitstatus_to_exitcode(status)
                if code >= 0:
                    self._outcome.exit_status = code
                else:
                    self._outcome.signal = -code

    def _count_io(self, pid: int) -> None:
        """Add what /proc/PID/io says of an ended process and all it waited for."""
        self._add_io(read_io(pid, IO) or [None] * len(IO))

    def _add_io(self, counted: Sequence[int | None]) -> None:
        """Add counters in the order of `IO`; one that is not known makes the sum unknown."""
        for name, value in zip(_OF_IO, counted, strict=True):
            if name is not None:
                before = getattr(self._outcome, name)
                known = before is not None and value is not None
                setattr(self._outcome, name, before + value if known else None)

    def _remove(self) -> None:
        if self._order.keep:
            return
        for directory in (self._order.work, self._order.util):
            if not remove_tree(directory):
                self._outcome.left.append(str(directory))


def _make(directory: Path) -> None:
    """Make a directory of the launch in one of ours: in no other that came in its place. Raises OSError."""
    parent = open_own(directory.parent)
    try:
        os.mkdir(directory.name, 0o700, dir_fd=parent)
    finally:
        os.close(parent)


def _wait_until_ended(pid: int) -> None:
    """Leave it a zombie, whose counts can still be read."""
    with contextlib.suppress(ChildProcessError):
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def _ended_child() -> int | None:
    try:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return found.si_pid if found is not None else None


def _memory_file(content: bytes) -> int:
    fd = os.memfd_create("gridwright-request")
    os.write(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
