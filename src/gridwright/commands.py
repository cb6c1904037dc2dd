"""The one way to run a command on this machine: with a limit of time and of output."""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, cast

from gridwright.errors import ExitStatus, GridwrightError, Problem

MOST_BYTES = 64 * 2**20
"""Bytes that a command may print; squeue of 100 000 jobs as JSON has less."""
_DEATH_S = 1.0
"""How long a killed command takes to end at most, where no file system holds it in the kernel."""
_CHUNK = 1 << 16
_LOOK_S = 0.1
"""How often it is asked whether to stop."""
_LONGEST_NAME = 200
_LOG = logging.getLogger("gridwright.commands")
_PLAIN = {"LC_ALL": "C.UTF-8", "LANGUAGE": ""}


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """What a command left; `status` is 128 + n where signal n ended it."""

    status: int
    stdout: bytes
    stderr: bytes


class CommandError(GridwrightError):
    """A command that did not come to its own end (status ENVIRONMENT)."""

    def __init__(self, what: str, where: str | None, remedy: str) -> None:
        super().__init__(Problem(what, where, remedy=remedy), status=ExitStatus.ENVIRONMENT)


class CommandNotStarted(CommandError):
    """It could not be started."""


class CommandSilent(CommandError):
    """It had not ended in time."""


class CommandStopped(CommandError):
    """It was killed, since the caller was told to stop."""


class CommandTalkative(CommandError):
    """It printed more than it may."""


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that leads a group, and its group.

    What hangs in the kernel cannot be killed: it is left behind, and ends when what it waits for answers.
    """
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_DEATH_S)


@dataclass(frozen=True, slots=True)
class CommandPlace:
    """What commands at one place have in common.

    `where` is the place that errors name. `prepare` runs in the child before the command; `kill` ends what
    has not ended by itself. `stop` is asked ten times a second whether to end a command before its time.
    """

    where: str | None = None
    directory: str | None = None
    prepare: Callable[[], None] | None = None
    kill: Callable[[subprocess.Popen[bytes]], None] = kill_group
    stop: Callable[[], bool] | None = None


_HERE = CommandPlace()


def run_bounded(
    command: Sequence[str],
    *,
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
    timeout_s: float = 30.0,
    most_bytes: int = MOST_BYTES,
    leaves_daemon: bool = False,
    name: str | None = None,
    at: CommandPlace = _HERE,
) -> CommandOutput:
    """Run a command in a session of its own, and wait until it has ended and closed its output.

    `environment` is all of its environment, by default that of this process. With `leaves_daemon` only the
    command is waited for, nothing is on its input, and all it printed is in `stderr`. `name` is what errors
    call it. Raises CommandNotStarted, CommandSilent, CommandTalkative, and CommandStopped where its place
    has that.
    """
    shown = name or " ".join(command)[:_LONGEST_NAME]
    begun = time.monotonic()
    with contextlib.ExitStack() as stack:
        output = stack.enter_context(os.fdopen(os.memfd_create("output"), "rb")) if leaves_daemon else None
        try:
            process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE if stdin and not output else subprocess.DEVNULL,
                stdout=output or subprocess.PIPE,
                stderr=output or subprocess.PIPE,
                env=None if environment is None else dict(environment),
                cwd=at.directory,
                start_new_session=True,
                preexec_fn=at.prepare,  # noqa: PLW1509 - for callers that know what it may touch
            )
        except (OSError, subprocess.SubprocessError) as error:
            why = getattr(error, "strerror", None) or str(error)
            remedy = f"install what {command[0]} belongs to, or correct PATH"
            what = f"{name or command[0]} cannot be started: {why}"
            raise CommandNotStarted(what, at.where, remedy) from error
        stack.callback(_end, process, at.kill)
        try:
            limit = _Limit(time.monotonic() + timeout_s, at.stop)
            out, complaints = _exchange(process, stdin, limit, most_bytes)
        except TimeoutError:
            remedy = "see what it waits for: whether its service runs; dmesg names servers that do not answer"
            raise CommandSilent(f"{shown} has not answered for {timeout_s:.0f} s", at.where, remedy) from None
        except _Stopping:
            raise CommandStopped(f"{shown} was stopped", at.where, "run it again") from None
        except OverflowError:
            what = f"{shown} has printed more than {most_bytes} bytes"
            raise CommandTalkative(what, at.where, "see what it prints") from None
        if output:
            output.seek(0)
            complaints = output.read(most_bytes)
        status, seconds = exit_status(process.returncode), time.monotonic() - begun
        _LOG.info("%sran %s: status %d, %.2f s", f"{at.where}: " if at.where else "", shown, status, seconds)
        return CommandOutput(status, out, complaints)


def _end(process: subprocess.Popen[bytes], kill: Callable[[subprocess.Popen[bytes]], None]) -> None:
    """Leave nothing running and nothing open."""
    if process.returncode is None:
        kill(process)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe:
            pipe.close()


def run_here(
    command: Sequence[str], *, timeout_s: float = 30.0, stop: Callable[[], bool] | None = None
) -> CommandOutput:
    """Run a command whose words are read, so that it speaks English; see `run_bounded`."""
    place = CommandPlace(stop=stop)
    return run_bounded(command, environment={**os.environ, **_PLAIN}, timeout_s=timeout_s, at=place)


def exit_status(returncode: int) -> int:
    """The exit status as shells have it: 128 + n where signal n ended a process."""
    return returncode if returncode >= 0 else 128 - returncode


class _Stopping(Exception):
    """The caller was told to stop."""


@dataclass(frozen=True, slots=True)
class _Limit:
    """How long is waited for a command."""

    deadline: float
    stop: Callable[[], bool] | None

    def wait_s(self) -> float:
        """Seconds to wait at most before this is asked again. Raises TimeoutError, and _Stopping."""
        if self.stop is not None and self.stop():
            raise _Stopping
        left = _remaining(self.deadline)
        return left if self.stop is None else min(left, _LOOK_S)


def _wait(process: subprocess.Popen[bytes], limit: _Limit) -> None:
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(limit.wait_s())
            return


def _exchange(
    process: subprocess.Popen[bytes], stdin: bytes, limit: _Limit, most_bytes: int
) -> tuple[bytes, bytes]:
    """Submit the input and gather the output, until the process has ended.

    Raises TimeoutError behind the deadline, OverflowError when it prints more than it may, and _Stopping.
    """
    printed: dict[str, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
    left = memoryview(stdin)
    with selectors.DefaultSelector() as selector:
        for name, pipe in (("stdout", process.stdout), ("stderr", process.stderr)):
            if pipe:
                selector.register(pipe, selectors.EVENT_READ, name)
        if process.stdin:
            os.set_blocking(process.stdin.fileno(), False)
            selector.register(process.stdin, selectors.EVENT_WRITE, "stdin")
        while selector.get_map():
            for key, _ in selector.select(limit.wait_s()):
                if key.data == "stdin":
                    left = _written(key.fd, left)
                    ended = not left
                else:
                    chunk = os.read(key.fd, _CHUNK)
                    printed[key.data] += chunk
                    ended = not chunk
                if ended:
                    selector.unregister(key.fileobj)
                    cast("IO[bytes]", key.fileobj).close()
            if sum(map(len, printed.values())) > most_bytes:
                raise OverflowError
    _wait(process, limit)
    return bytes(printed["stdout"]), bytes(printed["stderr"])


def _written(fd: int, data: memoryview) -> memoryview:
    """What is left of the input; nothing where nobody reads it any more."""
    try:
        return data[os.write(fd, data[:_CHUNK]) :]
    except BlockingIOError:
        return data
    except BrokenPipeError:
        return data[:0]


def _remaining(deadline: float) -> float:
    """Seconds to the deadline. Raises TimeoutError behind it."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
