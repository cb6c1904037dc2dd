"""Runs a command with a limit of time, a function that may hang in a child, and a program once at a time."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from gridwright.node_programs.scratch.problems import Interrupted, ScratchError, Trouble

_DEATH_S = 5.0
"""How long a killed group takes to end at most, where no disk holds it."""
_MOST_FILES = 1024
_TAIL = 2000
"""Characters of output that are kept for a message."""


@dataclass(frozen=True)
class Ended:
    """How a command ended; `status` is None where it was killed at its limit or could not be started."""

    argv: tuple[str, ...]
    status: int | None
    output: str
    seconds: float

    @property
    def well(self) -> bool:
        """Whether it did what it was asked."""
        return self.status == 0

    def __str__(self) -> str:
        how = "did not end in time" if self.status is None else f"ended with status {self.status}"
        said = f": {self.output.strip()[-_TAIL:]}" if self.output.strip() else ""
        return f"{' '.join(self.argv)} {how} ({self.seconds:.1f} s){said}"


def run(argv: Sequence[str], limit_s: float) -> Ended:
    """Run without a shell and without stdin, in a group of its own that is killed at the limit. Never raises.

    A process that hangs in the kernel cannot be killed; it is left behind after a few seconds.
    """
    begun = time.monotonic()
    environment = dict(os.environ, LC_ALL="C", PATH=_path())
    try:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        return Ended(tuple(argv), 127, f"{argv[0]}: {error.strerror}", 0.0)
    try:
        output, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        return Ended(tuple(argv), None, _kill(process), time.monotonic() - begun)
    except BaseException:
        _kill(process)
        raise
    return Ended(tuple(argv), process.returncode, output, time.monotonic() - begun)


def _kill(process: subprocess.Popen[str]) -> str:
    """End the whole group; what it had written so far."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        return process.communicate(timeout=_DEATH_S)[0] or ""
    except subprocess.TimeoutExpired:
        return "(it hangs in the kernel)"


def _path() -> str:
    """Services and cron have no /usr/sbin in their PATH."""
    given = os.environ.get("PATH", "").split(":")
    return ":".join(
        [*filter(None, given), *(d for d in ("/usr/sbin", "/usr/bin", "/sbin") if d not in given)]
    )


def tool(name: str) -> str | None:
    """Where a command is, sbin included."""
    for directory in _path().split(":"):
        path = os.path.join(directory, name)  # noqa: PTH118 - a name, not yet a path
        if os.access(path, os.X_OK):
            return path
    return None


def within(seconds: float, what: Callable[[], Any]) -> Any:  # noqa: ANN401 - any plain data
    """Call a function in a child and return its plain data: a disk that does not answer hangs only the child.

    Raises TimeoutError, and OSError as the function raised it.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        _answer(what, write)
    os.close(write)
    try:
        text = _receive(read, time.monotonic() + seconds)
    finally:
        os.close(read)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        _bury(child)
    if not text:
        raise TimeoutError(f"no answer in {seconds:.0f} s")
    value, error = json.loads(text)
    if error is not None:
        raise OSError(*error)
    return value


def _answer(what: Callable[[], Any], pipe: int) -> None:
    """In the child: answer and end, whatever happens."""
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        # Locks go with the files that hold them: a child that hangs must not keep any.
        os.closerange(3, pipe)
        os.closerange(pipe + 1, _MOST_FILES)
        try:
            answer: tuple[Any, Any] = (what(), None)
        except OSError as error:
            answer = (None, (error.errno, error.strerror))
        data = memoryview(json.dumps(answer).encode())
        while data:
            data = data[os.write(pipe, data) :]
    finally:
        os._exit(0)


def _receive(read: int, deadline: float) -> bytes:
    chunks: list[bytes] = []
    while select.select([read], [], [], max(0.0, deadline - time.monotonic()))[0]:
        chunk = os.read(read, 1 << 16)
        if not chunk:
            return b"".join(chunks)
        chunks.append(chunk)
    return b""


def _bury(child: int) -> None:
    """Wait for the child a moment; one that hangs in the kernel is left."""
    deadline = time.monotonic() + _DEATH_S
    while time.monotonic() < deadline:
        if os.waitpid(child, os.WNOHANG)[0]:
            return
        time.sleep(0.005)


_LOCK_S = 60.0
_LOOK_AGAIN_S = 0.5


@contextlib.contextmanager
def alone(path: Path, busy: str) -> Iterator[None]:
    """One at a time on a machine: the boot unit and a person must not both be at work."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Who may read a file may lock it.
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        os.fchmod(lock, 0o600)
    except OSError as error:
        raise ScratchError(Trouble(f"{path}: {error.strerror}")) from None
    try:
        deadline = time.monotonic() + _LOCK_S
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() > deadline:
                    remedy = f"wait for it, or see who it is: fuser {path}"
                    raise ScratchError(Trouble(busy, remedy)) from None
            time.sleep(_LOOK_AGAIN_S)
        yield
    finally:
        os.close(lock)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Have SIGTERM and SIGINT end the command that runs, and then the program, in good order."""

    def end(number: int, _frame: FrameType | None) -> None:
        raise Interrupted(number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
