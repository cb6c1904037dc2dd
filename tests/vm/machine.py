"""What tests ask of a virtual machine, whatever runs it: commands in bounded time, power cuts, an end."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

BLOCK = 1 << 20


class MachineError(AssertionError):
    """A virtual machine did not do what it must: it did not boot, or did not answer in time."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command printed, and how it ended."""

    status: int
    stdout: str
    stderr: str
    seconds: float

    def ok(self) -> str:
        """Its output. Raises MachineError where it failed."""
        if self.status:
            raise MachineError(f"status {self.status}: {self.stderr.strip() or self.stdout.strip()}")
        return self.stdout


def blank_disk(path: Path, size_bytes: int) -> Path:
    """A sparse file of zeros: a disk that a cloud hands out after a stop. What was there before is gone."""
    path.unlink(missing_ok=True)
    with path.open("xb") as file:
        file.truncate(size_bytes)
    return path


def start_apart(
    command: list[str], stdin: int, log: Path, enter: Sequence[str] = ()
) -> subprocess.Popen[bytes]:
    """Start a machine in a PID namespace of its own: when its first process ends, nothing of it is left.

    That holds when this process is killed, too (setpriv(1), --pdeathsig), and when the thread ends that calls
    this: what it starts is its own. `enter` is run first: a command
    that runs another one in a network.
    """
    apart = ["setpriv", "--pdeathsig", "KILL", *enter]
    apart += ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    with log.open("ab") as out:
        return subprocess.Popen(
            [*apart, *command], stdin=stdin, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )


def end(process: subprocess.Popen[bytes]) -> None:
    """Cut its power; returns when nothing of it runs any more, and no zombie is left to others."""
    with contextlib.suppress(psutil.NoSuchProcess):
        for first in psutil.Process(process.pid).children():
            first.kill()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(10)
