"""The lock that makes sure that one runner, and only one, serves a state directory.

Each command that leaves work to do starts a runner if none holds the lock. A runner holds an exclusive
flock on a file. The lock belongs to the open file, which the runner gets from
the command that starts it, so it is never free in between. Whether jobs of a dead runner may still start,
another lock tells; see `launcher`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
from pathlib import Path

from gridwright.errors import environment_error

LOCK = "runner.lock"
WAKEUP = "runner.wake"
OUTPUT = "runner.log"
_LONGEST_OUTPUT = 1 << 20


def lock_runner(state: Path) -> int | None:
    """Become the runner: the locked file, or None where another process is it. Raises OSError."""
    lock = os.open(state / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    if try_lock(lock):
        return lock
    os.close(lock)
    return None


def try_lock(lock: int) -> bool:
    """Lock an open file; false where another has it. Does nothing where it is locked already."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock(lock: int) -> None:
    """Unlock an open file, for all processes that share it."""
    fcntl.flock(lock, fcntl.LOCK_UN)


def ensure_runner(state: Path) -> None:
    """Wake the runner, or start one where there is none. Raises GridwrightError (status ENVIRONMENT)."""
    try:
        wake(state)
        lock = lock_runner(state)
        if lock is None:
            return
        try:
            _start(state, lock)
        finally:
            os.close(lock)
    except OSError as error:
        raise environment_error(
            f"the runner of the jobs cannot be started: {error.strerror}",
            where=str(error.filename or state),
            remedy="the jobs are kept; see what is said, and run gridwright jobs",
        ) from error


def wake(state: Path) -> None:
    """Tell the runner, where there is one, to read the store again."""
    with contextlib.suppress(OSError):
        pipe = os.open(state / WAKEUP, os.O_WRONLY | os.O_NONBLOCK)
        with contextlib.suppress(OSError):
            os.write(pipe, b"!")
        os.close(pipe)


def open_wakeup_pipe(state: Path) -> int | None:
    """The named pipe that `wake` writes to, open; None where the file system has none.

    The runner then reads the store each second.
    """
    with contextlib.suppress(FileExistsError, OSError):
        os.mkfifo(state / WAKEUP, 0o600)
    try:
        # Open for writing, too: else it would be at its end whenever a command closes it.
        return os.open(state / WAKEUP, os.O_RDWR | os.O_NONBLOCK)
    except OSError:
        return None


def runner_command(state: Path) -> list[str]:
    """The command of a runner, as far as the number of the open file that is its lock."""
    return [sys.executable, "-P", "-m", "gridwright.schedulers.local.runner", str(state)]


def _start(state: Path, lock: int) -> None:
    # A command may be part of a job, of which the runner is none.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GRIDWRIGHT_")}
    path = state / OUTPUT
    with contextlib.suppress(OSError):
        if path.stat().st_size > _LONGEST_OUTPUT:
            path.unlink()
    output = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    command = [*runner_command(state), str(lock)]
    try:
        process = subprocess.Popen(
            command,
            cwd="/",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            pass_fds=[lock],
        )
    finally:
        os.close(output)
    # It outlives this command, which is no reason for a warning.
    process.returncode = 0
