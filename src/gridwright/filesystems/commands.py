"""Running a command on this machine in bounded time: a `Run` for who is on the node itself."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from gridwright.errors import environment_error

_DEATH_S = 1.0
"""How long a killed command takes to end at most, where no file system holds it in the kernel."""
_PLAIN = {"LC_ALL": "C.UTF-8", "LANGUAGE": ""}


@dataclass(frozen=True, slots=True)
class Output:
    """What a command left; `status` is 128 + n where signal n ended it."""

    status: int
    stdout: bytes
    stderr: bytes


def run_here(command: Sequence[str], *, timeout_s: float = 30.0) -> Output:
    """Run a command on this machine, with nothing on its input, in a session of its own.

    What hangs in the kernel cannot be killed: it is left behind, and ends when what it waits for answers.
    Raises GridwrightError (status ENVIRONMENT) where it cannot be started or has not ended in time.
    """
    try:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **_PLAIN},
            start_new_session=True,
        )
    except OSError as error:
        raise environment_error(
            f"{command[0]} cannot be started: {error.strerror}", remedy=f"install it: command -v {command[0]}"
        ) from None
    try:
        out, complaints = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=_DEATH_S)
        raise environment_error(
            f"{' '.join(command)[:200]} has not answered for {timeout_s:.0f} s",
            remedy="see what it waits for: dmesg names servers that do not answer",
        ) from None
    status = process.returncode
    return Output(128 - status if status < 0 else status, out, complaints)
