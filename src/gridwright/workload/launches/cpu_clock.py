"""Counts the CPU time of a launch with all that it starts, also of processes that nobody waits for.

wait4(2) tells nothing of a process whose parent ignores SIGCHLD or has set SA_NOCLDWAIT: the kernel removes
it when it ends, and its time with it (wait(2), NOTES). A control group keeps it in cpu.stat, without any
controller (https://docs.kernel.org/admin-guide/cgroup-v2.html). Where this user may make none, a perf event
that processes inherit from their parents keeps it (perf_event_open(2)).
"""

from __future__ import annotations

import ctypes
import os
import resource
import struct
from dataclasses import dataclass
from typing import Protocol

from gridwright.runs.launch_record import UnwaitedCount
from gridwright.workload.launches.control_group import ControlGroup

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
