"""Walks through the files below a directory, by threads of the native part: each name with its status."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from gridwright._native import TreeWalk, WalkedFile
from gridwright.repository.below import PART, is_part
from gridwright.repository.keys import RESERVED

__all__ = ["FileStatus", "TreeWalk", "UnreadDirectory", "WalkedFile", "is_kept", "is_own", "walk_below"]

FileStatus: TypeAlias = os.stat_result | WalkedFile
"""What `os.stat` says of a file, and what the native walk does, under the same names."""
_OWN = RESERVED.encode()
THREADS = 8
"""More than cores: on a network each question for a status is a round trip."""
_PATIENCE_S = 0.2
"""How long a signal may wait."""


@dataclass(frozen=True, slots=True)
class UnreadDirectory:
    """A directory that was not walked through."""

    path: bytes
    errno: int | None
    """Why it could not be read; None where another file system is mounted there."""

    @property
    def why(self) -> str:
        """For people."""
        if self.errno is None:
            return "another file system is mounted there, and left out"
        if self.errno == errno.ENAMETOOLONG:
            return "its path is longer than 16 KiB: what lies in it is left out"
        return f"the directory cannot be read: {os.strerror(self.errno)}"


def walk_below(
    root: int,
    chosen: Sequence[bytes] = (),
    *,
    waiting: Callable[[TreeWalk], None] = lambda _walk: None,
    left_out: Callable[[bytes, WalkedFile], None] | None = None,
) -> Iterator[tuple[list[WalkedFile], list[UnreadDirectory]]]:
    """Everything below an open directory in batches, each directory before what lies in it.

    Gridwright's own files are left out, and so are other file systems. `waiting` is called each time that
    nothing has come for a moment, and `left_out` for each such file. Raises OSError where the walk cannot be
    begun.
    """
    skipped = (PART, _OWN) if left_out is None else (b"", b"")
    walk = TreeWalk(root, list(chosen), *skipped, THREADS)
    try:
        while (batch := walk.next(_PATIENCE_S)) is not None:
            files, troubles = batch
            if left_out is not None:
                for each in [each for each in files if is_own(each.path)]:
                    left_out(each.path, each)
                files = [each for each in files if not is_own(each.path)]
                troubles = [each for each in troubles if not is_own(each[0])]
            if files or troubles:
                yield files, [UnreadDirectory(path, why) for path, why in troubles]
            else:
                waiting(walk)
    finally:
        walk.stop()


def parts_below(root: int, fits: Callable[[bytes], bool]) -> list[WalkedFile]:
    """Gridwright's own files whose names fit, each directory before what lies in it.

    What cannot be read is left out. Raises OSError where the walk cannot be begun.
    """
    found = list[WalkedFile]()

    def note(path: bytes, status: WalkedFile) -> None:
        if fits(path.rpartition(b"/")[2]):
            found.append(status)

    for _ in walk_below(root, left_out=note):
        pass
    return sorted(found, key=lambda each: each.path)


def is_own(path: bytes) -> bool:
    """Whether a path is Gridwright's own, or of a file that is not whole yet, as a scan leaves them out."""
    if _OWN not in path:
        return False
    names = path.split(b"/")
    return names[0] == _OWN or any(map(is_part, names))


def is_kept(mode: int) -> bool:
    """Whether a mode is that of what objects are made of: files, directories and symbolic links."""
    return stat.S_IFMT(mode) in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)
