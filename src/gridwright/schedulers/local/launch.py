"""Launches a job: makes its directories and its log, and starts its process.

The process is started by vfork (subprocess without preexec_fn), since a fork copies the page tables of the
runner and would take longer than the whole of a short job.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

NOT_FOUND = 127
NOT_EXECUTABLE = 126
"""Exit statuses of a program that cannot be started, as shells have them (POSIX, 2.8.2)."""


@dataclass(frozen=True, slots=True)
class ProcessRequest:
    """The process to start, and what it needs."""

    command: Sequence[bytes]
    environment: Mapping[bytes, bytes]
    directory: bytes
    log: str
    private: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class LaunchFailure:
    """Why a job could not be started, and the exit status that says so."""

    exit_status: int
    why: str


def start_process(order: ProcessRequest, nothing: int) -> int | LaunchFailure:
    """Start a job; its process id. `nothing` is /dev/null, open.

    Raises BlockingIOError or MemoryError where the system has no room for another process at the moment.
    """
    log = None
    try:
        # The log is there before the program is: recovery can tell whether it was started.
        log = os.open(order.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for directory in order.private:
            _make(directory)
        process = subprocess.Popen(
            list(order.command),
            env=dict(order.environment),
            cwd=order.directory,
            stdin=nothing,
            stdout=log,
            stderr=log,
            # All files close when it becomes the program: until then it shares the runner's lock.
            close_fds=False,
            process_group=0,
        )
    except BlockingIOError:
        # fork(2), EAGAIN: the limit of processes. What was made is made again.
        for directory in order.private:
            with contextlib.suppress(OSError):
                os.rmdir(directory)  # noqa: PTH106
        raise
    except (OSError, ValueError) as error:
        return _not_started(order, error, log)
    finally:
        if log is not None:
            os.close(log)
    # The runner waits for all its children itself.
    process.returncode = 0
    return process.pid


def _make(directory: bytes) -> None:
    """Make a private directory; also the library that it is in, but not the file system of that."""
    try:
        os.mkdir(directory, 0o700)  # noqa: PTH102 - bytes
    except FileNotFoundError:
        os.mkdir(os.path.dirname(directory))  # noqa: PTH102, PTH120
        os.mkdir(directory, 0o700)  # noqa: PTH102


def _not_started(order: ProcessRequest, error: Exception, log: int | None) -> LaunchFailure:
    status, where, why = NOT_EXECUTABLE, order.command[0], str(error)
    if isinstance(error, OSError):
        where = os.fsencode(error.filename if error.filename is not None else where)
        why = error.strerror or why
        if isinstance(error, FileNotFoundError) and where == order.command[0]:
            status = NOT_FOUND
    text = f"cannot be started: {where.decode(errors='replace')}: {why}"
    if log is not None:
        with contextlib.suppress(OSError):
            os.write(log, f"gridwright: {text}\n".encode())
    return LaunchFailure(status, text)
