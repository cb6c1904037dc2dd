"""What a killed import leaves: files that are not whole, and directories with the time of the kill."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from gridwright.repository.below import is_own_part
from gridwright.repository.settings import OpenRepository

_FACT = "unfinished"


@contextmanager
def finishing(opened: OpenRepository) -> Iterator[bool]:
    """Note that an import is under way, until it ends, and tidy up after one that was killed.

    Gives whether there was one: then times of directories are those that are known, not those of now.
    """
    was_killed = opened.known.fact(_FACT) == "1"
    if was_killed:
        sweep(opened.below.root)
    opened.known.set_fact(_FACT, "1")
    yield was_killed
    opened.known.set_fact(_FACT, "0")


def sweep(root: int) -> None:
    """Remove files that are not whole, below an open directory; nobody else works on this directory."""
    walk = os.fwalk(b".", topdown=False, dir_fd=root, follow_symlinks=False, onerror=lambda _: None)
    for _, directories, names, directory in walk:
        for name in filter(is_own_part, names):
            with suppress(OSError):
                os.unlink(name, dir_fd=directory)
        for name in filter(is_own_part, directories):
            # A user may have given the name to a directory of others: only an empty one is removed.
            with suppress(OSError):
                os.rmdir(name, dir_fd=directory)


def set_times_back(opened: OpenRepository) -> None:
    """Give directories the times that are known of them: names in them were replaced, which is no change."""
    for row in opened.known.rows(f"mode & {stat.S_IFMT(0o177777)} = {stat.S_IFDIR}", order="path DESC"):
        with suppress(OSError):
            directory = opened.below.parent(row.path + b"/.")[0] if row.path else opened.below.root
            os.utime(directory, ns=(row.atime_ns, row.mtime_ns))
