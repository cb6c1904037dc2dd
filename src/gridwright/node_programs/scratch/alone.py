"""Lets one copy of the program run at a time on a machine, and end in good order when it is told to."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from gridwright.node_programs.scratch.problems import Interrupted, ScratchError, Trouble

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
