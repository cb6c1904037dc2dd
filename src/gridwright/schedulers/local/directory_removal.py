"""Removes the private directories of jobs that have ended, aside where that takes a while."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Sequence

from gridwright.beneath import remove_tree
from gridwright.schedulers.local.running_job import RunningJob
from gridwright.schedulers.process_tree import die_with_parent

_TRIES = 5


class DirectoryRemoval:
    """Processes that remove the directories of jobs; each is a child of this one."""

    def __init__(self) -> None:
        self._removers: dict[int, RunningJob] = {}

    def is_done(self, live: RunningJob) -> bool:
        """Whether the directories of a job are removed, or cannot be; a process is at it otherwise."""
        if live.remover is not None:
            return False
        if live.is_removed or not live.directories:
            return True
        full = []
        for directory in live.directories:
            try:
                os.rmdir(directory)  # noqa: PTH106 - bytes
            except FileNotFoundError:
                pass
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                    full.append(directory)
        if not full:
            live.directories = [each for each in live.directories if os.path.lexists(each)]
            return True
        live.remover = _fork_remover(full)
        self._removers[live.remover] = live
        return False

    def pids(self) -> set[int]:
        """The processes that are at it."""
        return set(self._removers)

    def take_end(self, pid: int, status: int) -> RunningJob | None:
        """The job that an ended child has removed directories of, if it is one that did."""
        live = self._removers.pop(pid, None)
        if live is not None:
            live.remover = None
            live.directories = [each for each in live.directories if os.path.lexists(each)]
            # One that was killed may be tried again.
            live.removals += 1
            live.is_removed = not os.WIFSIGNALED(status) or live.removals >= _TRIES
        return live


def _fork_remover(directories: Sequence[bytes]) -> int:
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
