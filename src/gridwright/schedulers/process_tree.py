"""Processes and their descendants: who they are, what they use, and how they are ended."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Iterator

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
"""Of linux/prctl.h; see prctl(2)."""
_PAGE = os.sysconf("SC_PAGE_SIZE")
_LIBC = ctypes.CDLL(None, use_errno=True)


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends; at once if that is gone already."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, so that all can be waited for."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(pid: int) -> Iterator[int]:
    """Yield the processes below `pid`, parents first (proc_pid_task(5), `children`)."""
    pending = [pid]
    while pending:
        for child in children(pending.pop()):
            yield child
            pending.append(child)


def children(pid: int) -> list[int]:
    """The processes right below `pid`, also those that have ended and were not waited for."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - ten times a second
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/children", "rb") as file:  # noqa: PTH123
                found += map(int, file.read().split())
    return found


def resident_bytes(pid: int) -> int:
    """Memory of a process that is its own: resident, less what it maps from files (proc_pid_statm(5))."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:  # noqa: PTH123 - ten times a second
            fields = file.read().split()
        return (int(fields[1]) - int(fields[2])) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0


def run_delay_ns(pid: int) -> int:
    """Nanoseconds in which the threads of a process were runnable without a core (proc_pid_schedstat(5))."""
    total = 0
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            with (
                contextlib.suppress(OSError, IndexError, ValueError),
                open(f"/proc/{pid}/task/{task}/schedstat", "rb") as file,  # noqa: PTH123
            ):
                total += int(file.read().split()[1])
    return total


def kill_all(pids: Iterator[int], number: signal.Signals) -> int:
    """Send a signal to each; returns to how many it went."""
    sent = 0
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
            sent += 1
    return sent
