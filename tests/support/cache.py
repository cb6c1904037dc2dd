"""Where what tests build or fetch once is kept, outside of the checkout: one process makes it."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

LIMIT_S = 30 * 60.0
"""How long another process may take to make something."""


def cache() -> Path:
    """The directory, there or not."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gridwright"


@contextmanager
def only_builder(directory: Path) -> Iterator[None]:
    """Wait for another process that makes what is to be in a directory. Raises RuntimeError after LIMIT_S."""
    with (directory / "lock").open("w") as lock:
        _wait_for(lock.fileno())
        yield


def _wait_for(lock: int) -> None:
    deadline = time.monotonic() + LIMIT_S
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise RuntimeError("another process has been making the same for too long") from None
            time.sleep(0.2)


def made_once(name: str, make: Callable[[Path], None]) -> Path:
    """The directory of a name, which `make` fills where it is not there; whole or not at all."""
    directory = cache() / name
    if directory.exists():
        return directory
    cache().mkdir(parents=True, exist_ok=True)
    with only_builder(cache()):
        if not directory.exists():
            part = cache() / f"{name}.part"
            # Of a process that was killed.
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir()
            make(part)
            part.rename(directory)
    return directory
