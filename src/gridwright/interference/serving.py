"""Finds the processes that serve file systems in user space: what they do, they do for whoever uses them."""

from __future__ import annotations

import os
from functools import lru_cache

from gridwright.interference.processes import Identity, SeenProcess


def serves_fuse(process: SeenProcess) -> bool:
    """Whether a process serves a FUSE file system: it has /dev/fuse open (fuse(4))."""
    return not process.kernel and _serves(process.identity)


@lru_cache(maxsize=65536)
def _serves(identity: Identity) -> bool:
    directory = f"/proc/{identity[0]}/fd"
    try:
        return any(os.readlink(f"{directory}/{name}") == "/dev/fuse" for name in os.listdir(directory))  # noqa: PTH115, PTH208
    except OSError:
        return False
