"""What a killed import leaves: files that are not whole, and directories with the time of the kill."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from gridwright.beneath import Beneath
from gridwright.repository.below import is_own_part
from gridwright.repository.settings import OpenRepository
from gridwright.repository.walking import parts_below

_FACT = "unfinished"


@contextmanager
def finishing(opened: OpenRepository) -> Iterator[bool]:
    """Note that an import is under way, until it ends, and tidy up after one that was killed.

    Gives whether there was one: then times of directories are those that are known, not those of now.
    """
    was_killed = opened.known.fact(_FACT) == "1"
    if was_killed:
        sweep(opened.below)
    opened.known.set_fact(_FACT, "1")
    yield was_killed
    opened.known.set_fact(_FACT, "0")


def sweep(below: Beneath) -> None:
    """Remove files that are not whole, below a directory; nobody else works on this directory."""
    for each in reversed(parts_below(below.root, is_own_part)):
        with suppress(OSError):
            directory, name = below.parent(each.path)
            if stat.S_ISDIR(each.st_mode):
                # A user may have given the name to a directory of others: only an empty one is removed.
                os.rmdir(name, dir_fd=directory)
            else:
                os.unlink(name, dir_fd=directory)
    below.refresh()


def set_times_back(opened: OpenRepository) -> None:
    """Give directories the times that are known of them: names in them were replaced, which is no change."""
    for row in opened.known.rows(f"mode & {stat.S_IFMT(0o177777)} = {stat.S_IFDIR}", order="path DESC"):
        with suppress(OSError):
            directory = opened.below.parent(row.path + b"/.")[0] if row.path else opened.below.root
            os.utime(directory, ns=(row.atime_ns, row.mtime_ns))
