"""Processes below this one: who they are, what memory they have, and how all of them are ended."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Iterator

_PR_SET_CHILD_SUBREAPER = 36
"""Of linux/prctl.h; see prctl(2)."""
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PATIENCE_S = 60.0
"""What hangs in the kernel, on a dead mount, cannot be killed."""


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends: none leaves by setsid or a double fork."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(pid: int) -> Iterator[int]:
    """Yield the processes below `pid`, parents first (proc_pid_task(5), `children`)."""
    pending = [pid]
    while pending:
        parent = pending.pop()
        try:
            tasks = os.listdir(f"/proc/{parent}/task")  # noqa: PTH208 - several times a second
        except OSError:
            continue
        for task in tasks:
            try:
                with open(f"/proc/{parent}/task/{task}/children", "rb") as file:  # noqa: PTH123
                    found = [int(word) for word in file.read().split()]
            except OSError:
                continue
            yield from found
            pending += found


def memory_bytes(pid: int) -> int:
    """Memory of all processes below `pid`: resident, less what is mapped from files (proc_pid_statm(5))."""
    total = 0
    for descendant in descendants(pid):
        try:
            with open(f"/proc/{descendant}/statm", "rb") as file:  # noqa: PTH123
                fields = file.read().split()
        except OSError:
            continue
        if len(fields) > 2:
            total += (int(fields[1]) - int(fields[2])) * _PAGE
    return total


def end_all() -> bool:
    """Kill every process below this one, and wait for all; whether none is left."""
    give_up = time.monotonic() + _PATIENCE_S
    while time.monotonic() < give_up:
        for descendant in descendants(os.getpid()):
            try:
                os.kill(descendant, signal.SIGKILL)
            except OSError:
                continue
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return True
        time.sleep(0.005)
    return False
