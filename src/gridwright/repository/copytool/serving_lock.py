"""One agent of a node serves a directory at a time: it holds a lock, which ends with its process."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from pathlib import Path

from gridwright.errors import environment_error
from gridwright.repository.keys import shown

RUN_DIRECTORY = Path("/run/gridwright/repository")


def take_lock(directory: str) -> int:
    """The lock of the agent of a directory. Raises GridwrightError where another one has it."""
    RUN_DIRECTORY.mkdir(parents=True, exist_ok=True, mode=0o700)
    place = _place(directory)
    while True:
        lock = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise environment_error(
                "another process serves it",
                where=shown(directory),
                remedy="end that one first (systemctl status shows it); its files are being served",
            ) from None
        # Whoever had it may have removed the file between our opening and our locking it.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock), place.stat()):
                return lock
        os.close(lock)


def give_lock_back(directory: str, lock: int) -> None:
    """Let the next one have the lock, and leave nothing of it behind."""
    with contextlib.suppress(OSError):
        _place(directory).unlink()
    os.close(lock)


def remove_left_behind() -> None:
    """Remove locks of processes that were killed: nobody holds them any more."""
    for place in RUN_DIRECTORY.glob("*.lock"):
        with contextlib.suppress(OSError):
            lock = os.open(place, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Under its lock, since whoever takes it next looks whether the file is still there.
                if os.path.samestat(os.fstat(lock), place.stat()):
                    place.unlink()
            finally:
                os.close(lock)


def _place(directory: str) -> Path:
    digest = hashlib.sha256(os.fsencode(os.path.realpath(directory))).hexdigest()[:24]
    return RUN_DIRECTORY / f"{digest}.lock"
