"""The runner's children: it starts each job as one, enforces its limits, and learns of its end."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import time
from collections.abc import Iterator, Sequence

from gridwright.schedulers.local.attempt import job_environment, private_directories
from gridwright.schedulers.local.identifiers import JobKey
from gridwright.schedulers.local.job_command import job_command
from gridwright.schedulers.local.job_row import JobRow
from gridwright.schedulers.local.launch import LaunchFailure, ProcessRequest, start_process
from gridwright.schedulers.local.processes import (
    ProcessStat,
    identify,
    job_of,
    process_stat,
    send_signal,
    with_descendants,
)
from gridwright.schedulers.local.running_job import RunningJob
from gridwright.schedulers.local.store import Store
from gridwright.schedulers.process_tree import children, die_with_parent
from gridwright.schedulers.removal import remove_tree

MEASURE_S = 0.1
"""Seconds between two measurements of memory and time, as for launches of the workload."""
_SHARE = 0.05
"""The part of a core that measuring may take; where there are many processes, it is done less often."""
_REMOVALS = 5
_SOON_S = 0.02
"""Seconds between two checks of jobs that are being ended."""


class RunningJobs:
    """All jobs that this runner has started and that have not ended."""

    def __init__(self, store: Store) -> None:
        self.live: dict[int, RunningJob] = {}
        """By the number of their first process."""
        self._store = store
        self._removers: dict[int, RunningJob] = {}
        self._measured = 0.0
        self._measure_s = MEASURE_S
        self._failures: list[RunningJob] = []
        """Those that could not be started."""
        self._nothing = os.open(os.devnull, os.O_RDWR)

    def start(self, row: JobRow, key: JobKey, attempt: int) -> None:
        """Start a job. Raises BlockingIOError or MemoryError where there is no room for another process."""
        directories = private_directories(self._store, row, key, attempt)
        order = ProcessRequest(
            command=job_command(row, key),
            environment=job_environment(self._store, row, key, attempt),
            directory=row.directory,
            log=self._store.log_of(key),
            private=directories,
        )
        started = start_process(order, self._nothing)
        live = RunningJob(row, key, [] if row.is_kept else directories)
        if isinstance(started, LaunchFailure):
            live.record_launch_failure(started)
            self._failures.append(live)
        else:
            live.pid = started
            self.live[started] = live

    def find(self, key: JobKey) -> RunningJob | None:
        """A running job."""
        return next((live for live in self.live.values() if live.key == key), None)

    def pause_s(self, longest_s: float) -> float:
        """How long nothing needs to be done."""
        if self._failures:
            return 0.0
        if not self.live:
            return longest_s
        if any(live.is_ending for live in self.live.values()):
            return _SOON_S
        return max(0.0, self._measured + self._measure_s - time.monotonic())

    def poll(self) -> Iterator[RunningJob]:
        """Enforce limits and reap processes; yield each job of which something is to be recorded.

        That is its outcome, where its first process has ended and more is to be done, and that it is over.
        """
        yield from self._take_failures()
        self._reap()
        if not self.live:
            return
        due = time.monotonic() >= self._measured + self._measure_s
        if not due and not any(live.is_ending for live in self.live.values()):
            return
        orphans = self._orphans()
        if due:
            self._measure(orphans)
        for live in [live for live in self.live.values() if live.is_ending]:
            done = live.kill_if_due(orphans.get(live.pid, ()))
            if done and live.remover is None and self._remove(live):
                del self.live[live.pid]
                live.is_over = True
                yield live
            elif live.has_ended and not live.outcome_noted:
                live.outcome_noted = True
                yield live

    def _take_failures(self) -> Iterator[RunningJob]:
        """Those that could not be started are over as soon as their directories are removed."""
        for live in self._failures:
            for directory in live.directories:
                with contextlib.suppress(OSError):
                    os.rmdir(directory)  # noqa: PTH106 - bytes
            live.directories = []
            live.is_over = True
            yield live
        self._failures.clear()

    def kill_all(self) -> None:
        """Kill all jobs at once: the state directory is gone, and nobody will ask for them."""
        orphans = self._orphans()
        pids = [pid for live in self.live.values() for pid in (live.pid, *orphans.get(live.pid, ()))]
        send_signal(identify(with_descendants(pids)), signal.SIGKILL)

    def _measure(self, orphans: dict[int, list[int]]) -> None:
        began = time.monotonic()
        for live in self.live.values():
            live.measure(orphans.get(live.pid, ()))
        self._measured = time.monotonic()
        self._measure_s = max(MEASURE_S, (self._measured - began) / _SHARE)

    def _reap(self) -> None:
        """Take the status of all children that have ended."""
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if not pid:
                break
            if live := self._removers.pop(pid, None):
                live.remover = None
                live.directories = [each for each in live.directories if os.path.lexists(each)]
                # One that was killed may be tried again.
                live.removals += 1
                live.is_removed = not os.WIFSIGNALED(status) or live.removals >= _REMOVALS
            elif live := self.live.get(pid):
                live.record_exit(status)
                live.user_s, live.system_s = used.ru_utime, used.ru_stime

    def _orphans(self) -> dict[int, list[int]]:
        """Processes whose parents have ended and that are children of this one now, by their job."""
        found: dict[int, list[int]] = {}
        for pid in children(os.getpid()):
            if pid in self.live or pid in self._removers:
                continue
            about = process_stat(pid)
            if about and not about.has_ended and (owner := self._owner(about)):
                found.setdefault(owner.pid, []).append(pid)
        return found

    def _owner(self, about: ProcessStat) -> RunningJob | None:
        if live := self.live.get(about.group):
            return live
        key = job_of(self._store, about.process.pid)
        return next(
            (each for each in self.live.values() if each.key == key or each.knows(about.process)), None
        )

    def _remove(self, live: RunningJob) -> bool:
        """Remove the directories of a job; false if that takes a while."""
        if live.is_removed:
            return True
        full = []
        for directory in live.directories:
            try:
                os.rmdir(directory)  # noqa: PTH106 - bytes
            except FileNotFoundError:
                pass
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    continue
                full.append(directory)
        if not full:
            live.directories = [each for each in live.directories if os.path.lexists(each)]
            return True
        live.remover = self._fork_remover(full)
        self._removers[live.remover] = live
        return False

    def _fork_remover(self, directories: Sequence[bytes]) -> int:
        parent = os.getpid()
        pid = os.fork()
        if pid:
            return pid
        try:
            die_with_parent(parent)
            signal.set_wakeup_fd(-1)
            for directory in directories:
                remove_tree(directory)
        finally:
            os._exit(0)
