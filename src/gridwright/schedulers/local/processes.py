"""Finds the processes of a job: by descent, by the token in their environment, and by where they write."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from gridwright.schedulers.local.identifiers import NO_INDEX, JobKey, read_token
from gridwright.schedulers.local.store import Store
from gridwright.schedulers.process_tree import descendants


class Process(NamedTuple):
    """A process, told from a later one with the same number by when it started."""

    pid: int
    started: int
    """In clock ticks since boot (proc_pid_stat(5), field 22)."""


class ProcessStat(NamedTuple):
    """What /proc/PID/stat says of a process."""

    process: Process
    has_ended: bool


def process_stat(pid: int) -> ProcessStat | None:
    """Look a process up; None when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - ten times a second
            text = file.read()
        # The name, in parentheses, may hold anything.
        fields = text[text.rindex(b")") + 2 :].split()
        return ProcessStat(Process(pid, int(fields[19])), fields[0] in b"ZX")
    except (OSError, ValueError, IndexError):
        return None


def is_running(process: Process) -> bool:
    """Whether a process is there and has not ended."""
    found = process_stat(process.pid)
    return found is not None and found.process == process and not found.has_ended


def job_of(store: Store, pid: int) -> JobKey | None:
    """The job that a process is of, told by its environment, or by its output, which goes to a job's log.

    A process can be rid of both; then only its descent tells, or nothing.
    """
    with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
        if key := read_token(store.identity, file.read()):
            return key
    for number in (1, 2):
        with contextlib.suppress(OSError):
            target = os.readlink(f"/proc/{pid}/fd/{number}")  # noqa: PTH115
            if target.startswith(store.logs) and (match := _LOG.match(target, len(store.logs))):
                return JobKey(int(match[1]), NO_INDEX if match[2] is None else int(match[2]))
    return None


_LOG = re.compile(r"([0-9]+)(?:_([0-9]+))?\.log\b")


def with_descendants(pids: Iterable[int]) -> Iterator[int]:
    """Processes, and all below them."""
    for pid in pids:
        yield pid
        yield from descendants(pid)


def identify(pids: Iterable[int]) -> list[Process]:
    """Those of some processes that run."""
    return [found.process for pid in pids if (found := process_stat(pid)) and not found.has_ended]


def send_signal(processes: Collection[Process], number: signal.Signals) -> None:
    """Send a signal to those that are still the same, each through a file descriptor of its own (pidfd)."""
    for process in processes:
        with contextlib.suppress(OSError):
            pidfd = os.pidfd_open(process.pid)
            try:
                if is_running(process):
                    signal.pidfd_send_signal(pidfd, number)
            finally:
                os.close(pidfd)


def all_pids() -> Iterator[int]:
    """All processes of this machine, as far as this one sees them."""
    return (int(name) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208
