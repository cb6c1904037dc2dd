"""The process between a node's agent and one launch: it starts, watches, ends and accounts for the launch.

It is forked for each launch, is the parent of all that the launch leaves behind (PR_SET_CHILD_SUBREAPER),
and ends everything when the agent closes its end of the control pipe, or dies.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import subprocess
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

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
from gridwright.workload.launches.cpu_clock import cpu_clock, cpu_unwaited
from gridwright.workload.launches.series import LaunchSeries
from gridwright.workload.launches.traffic import LaunchTraffic
from gridwright.workload.launches.unwaited import IO, Unwaited, read_io

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
