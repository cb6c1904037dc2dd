"""Runs something in a process that gets no more than so much memory, and gives up after some time."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from pathlib import Path

SECONDS = 100


def in_bounded_memory(act: Callable[[], object], most_bytes: int) -> str:
    """What came of it: the exception with its text, or nothing. A process that was killed says so."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        now = int(Path("/proc/self/statm").read_bytes().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + most_bytes,) * 2)
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        said = ""
        try:
            act()
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"[:4000]
        finally:
            os.write(write, said.encode("utf-8", "replace"))
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        said = answer.read().decode()
    _, ended = os.waitpid(child, 0)
    return said if ended == 0 else f"killed: {ended} {said}"
