"""The launcher: a small native process that forks guards (native/guard).

It is there because a fork copies the page tables of the process that forks: of the runner that would take
longer than the whole of a short job. A guard serves one job after another, each by an order through a pipe.

Whoever wants to know that no job is about to start takes two locks (`take_launch_lock`): that of the
launcher, which it holds as long as it may make a guard, and those that guards hold on their records whenever
they may start a job.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from importlib.util import find_spec
from pathlib import Path

from gridwright.schedulers.local import launcher_program, runner_lock
from gridwright.schedulers.local.processes import GroupPlaces
from gridwright.schedulers.local.store import JobKey

LOCK = "launcher.lock"
PROGRAM = launcher_program.__file__
_LONGEST_START_S = 10.0
"""What was begun is recorded within milliseconds; a launcher that is stopped (SIGSTOP) is not waited for."""
_PAUSE_S = 0.005
_ANSWER = struct.Struct("<3q")
_NUMBERS = struct.Struct("<I8q")


@dataclass(frozen=True, slots=True)
class LaunchOrder:
    """An order to start a job, and all that its guard needs to know."""

    key: JobKey
    attempt: int
    time_limit_s: float | None
    memory_bytes: int
    log: str
    directory: bytes
    command: Sequence[bytes]
    environment: Mapping[bytes, bytes]
    private: Sequence[bytes]

    def encode(self) -> bytes:
        """As native/guard/src/order.rs reads it."""
        environment = [name + b"=" + value for name, value in self.environment.items()]
        words = [os.fsencode(self.log), self.directory, *self.command, *environment, *self.private]
        text = b"\0".join(words) + b"\0"
        limit_ms = -1 if self.time_limit_s is None else int(self.time_limit_s * 1000)
        counts = (len(self.command), len(environment), len(self.private))
        numbers = (*self.key, self.attempt, limit_ms, self.memory_bytes, *counts)
        return _NUMBERS.pack(_NUMBERS.size - 4 + len(text), *numbers) + text


def group_name(slot: int) -> str:
    """The name of the control groups of a guard."""
    return f"slot-{slot}"


class AnswerKind(IntEnum):
    """What is told of a guard, and of its job if it has one."""

    RECORDED = 1
    """The record says how the job ended; the guard waits for an order."""
    LOST = 2
    """The guard was killed, and nothing of its job is left."""
    NOT_FORKED = 3
    """No guard could be made; the number is that of the error."""
    UNRECORDED = 4
    """The record could not be written, and nothing was started; the number is that of the error."""


@dataclass(frozen=True, slots=True)
class GuardAnswer:
    """What launcher and guards tell."""

    kind: AnswerKind
    slot: int
    number: int


class GuardLauncher:
    """A launcher that runs. Raises OSError where it cannot be started."""

    def __init__(self, state: Path, lock: int, records: int, places: GroupPlaces) -> None:
        """Start it; it takes over `lock`, as `take_launch_lock` gave it."""
        native = find_spec("gridwright._native")
        if native is None or native.origin is None:
            raise FileNotFoundError(0, "the native part of Gridwright is not there", "gridwright._native")
        calls, self._calls = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.answers, answers = os.pipe()
        os.set_blocking(self.answers, False)
        files = (calls.fileno(), answers, records, lock)
        command = [sys.executable, "-I", "-S", PROGRAM, str(state), native.origin, *map(str, files)]
        successor = [str(state / runner_lock.LOCK), *runner_lock.runner_command(state)]
        try:
            process = subprocess.Popen([*command, *places.words(), *successor], cwd="/", pass_fds=files)
        finally:
            calls.close()
            os.close(answers)
            os.close(lock)
        self.pid = process.pid
        # The runner waits for all its children itself.
        process.returncode = 0
        with contextlib.suppress(OSError):
            (state / LOCK).write_text(f"{self.pid}\n", encoding="ascii")
        self._guards: dict[int, int] = {}
        """Pipes for the orders of guards, by slot."""

    def close(self) -> None:
        """Have no more started; the launcher stays until its guards have ended, and starts no runner."""
        with contextlib.suppress(OSError):
            self._calls.send(b"goodbye")
        self._calls.close()
        os.close(self.answers)
        for slot in list(self._guards):
            self.forget_guard(slot)

    def has_guard(self, slot: int) -> bool:
        """Whether a slot has a guard, as far as is known."""
        return slot in self._guards

    def forget_guard(self, slot: int) -> None:
        """A guard has ended, or is to."""
        if (orders := self._guards.pop(slot, None)) is not None:
            os.close(orders)

    def order(self, slot: int, order: LaunchOrder) -> None:
        """Have a guard start a job; it is made where there is none.

        Raises BrokenPipeError where launcher or guard is gone: an answer follows, or the launcher's end.
        """
        if slot not in self._guards:
            its, self._guards[slot] = os.pipe()
            try:
                socket.send_fds(self._calls, [slot.to_bytes(8, "little")], [its])
            finally:
                os.close(its)
        data = memoryview(order.encode())
        while data:
            data = data[os.write(self._guards[slot], data) :]

    def take_answers(self) -> Iterator[GuardAnswer]:
        """What has been told since."""
        while True:
            try:
                # Answers are shorter than PIPE_BUF: none comes in parts.
                data = os.read(self.answers, _ANSWER.size * 128)
            except BlockingIOError:
                return
            if not data:
                return
            for kind, slot, number in _ANSWER.iter_unpack(data):
                yield GuardAnswer(AnswerKind(kind), slot, number)


def take_launch_lock(state: Path, records: int) -> int:
    """Wait until no job is about to start, and keep others from starting any; the locked file.

    `records` is the open file of records. Whoever may start a job of the runner before ends as soon as it
    finds that this is gone. Raises TimeoutError where one hangs, even killed; OSError.
    """
    path = state / LOCK
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    begun = time.monotonic()
    killed = False
    while not (runner_lock.try_lock(lock) and _is_idle(records)):
        waited = time.monotonic() - begun
        if waited > _LONGEST_START_S and not killed:
            killed = True
            _kill_launcher(path)
        if waited > 2 * _LONGEST_START_S:
            os.close(lock)
            raise TimeoutError(f"a launcher of jobs holds {path} and does not end")
        time.sleep(_PAUSE_S)
    return lock


def _is_idle(records: int) -> bool:
    """Whether no guard may start a job: none has a lock on its record."""
    try:
        fcntl.lockf(records, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    fcntl.lockf(records, fcntl.LOCK_UN)
    return True


def _kill_launcher(path: Path) -> None:
    """Kill the launcher that a lock file names."""
    with contextlib.suppress(OSError, ValueError):
        pid = int(path.read_text(encoding="ascii"))
        if is_launcher(pid, path.parent):
            os.kill(pid, signal.SIGKILL)


def is_launcher(pid: int, state: Path) -> bool:
    """Whether a process is a launcher of a state directory, or a guard that one has forked."""
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return words[3:5] == [os.fsencode(PROGRAM), os.fsencode(state)]
    return False
