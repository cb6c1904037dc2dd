"""Walks through the files below a directory, by threads of the native part: each name with its status."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from gridwright._native import TreeWalk, WalkedFile
from gridwright.beneath import Beneath, descriptor_path
from gridwright.repository.below import PART, is_part
from gridwright.repository.keys import RESERVED
from gridwright.repository.reserved import IS_RENAMED, is_reserved, may_be_reserved

__all__ = ["FileStatus", "TreeWalk", "UnreadDirectory", "WalkedFile", "is_own", "is_storable", "walk_below"]

FileStatus: TypeAlias = os.stat_result | WalkedFile
"""What `os.stat` says of a file, and what the native walk does, under the same names."""
_OWN = RESERVED.encode()
RENAMED = -1
"""In place of an errno: the directory is `.gridwright` under another name."""
THREADS = 8
"""More than cores: on a network each question for a status is a round trip."""
_PATIENCE_S = 0.2
"""How long a signal may wait."""


@dataclass(frozen=True, slots=True)
class UnreadDirectory:
    """A directory that was not walked through."""

    path: bytes
    errno: int | None
    """Why it could not be read; None where another file system is mounted there, or `RENAMED`."""

    @property
    def is_left_out(self) -> bool:
        """Whether it is none of the tree's own, rather than one that failed."""
        return self.errno in (None, RENAMED)

    @property
    def why(self) -> str:
        """For people."""
        if self.errno == RENAMED:
            return IS_RENAMED
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
    walk, renamed = TreeWalk(root, list(chosen), *skipped, THREADS), _Renamed(root)
    try:
        while (batch := walk.next(_PATIENCE_S)) is not None:
            files, troubles = renamed.taken_out(*batch)
            if left_out is not None:
                for each in [each for each in files if is_own(each.path)]:
                    left_out(each.path, each)
                files = [each for each in files if not is_own(each.path)]
                troubles = [each for each in troubles if each[1] == RENAMED or not is_own(each[0])]
            if files or troubles:
                yield files, [UnreadDirectory(path, why) for path, why in troubles]
            else:
                waiting(walk)
    finally:
        walk.stop()
        renamed.close()


class _Renamed:
    """Takes out of a walk what is `.gridwright` of a library by its mark, under any other name."""

    def __init__(self, root: int) -> None:
        self._below = Beneath(Path(descriptor_path(root)))
        self._found: tuple[bytes, ...] = ()

    def close(self) -> None:
        """Close what is open."""
        self._below.close()

    def taken_out(
        self, files: list[WalkedFile], troubles: list[tuple[bytes, int | None]]
    ) -> tuple[list[WalkedFile], list[tuple[bytes, int | None]]]:
        """A batch without them and all below them, where each is a trouble."""
        new = []
        for each in files:
            is_own = (
                stat.S_ISDIR(each.st_mode)
                and may_be_reserved(each.st_uid, each.st_mode)
                and each.path != _OWN
            )
            if is_own and not each.path.startswith(self._found or b"\0") and self._is_marked(each.path):
                new.append(each.path)
                self._found = (*self._found, each.path + b"/")
        if not self._found:
            return files, troubles
        files = [each for each in files if not (each.path + b"/").startswith(self._found)]
        troubles = [each for each in troubles if not (each[0] + b"/").startswith(self._found)]
        # One that is called so belongs to another repository, of a directory below this one.
        return files, [*troubles, *((path, RENAMED) for path in new if path.rpartition(b"/")[2] != _OWN)]

    def _is_marked(self, path: bytes) -> bool:
        try:
            return is_reserved(self._below.parent(path + b"/.")[0])
        except OSError:
            return False


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


def is_storable(mode: int) -> bool:
    """Whether a mode is that of what objects are made of: files, directories and symbolic links."""
    return stat.S_IFMT(mode) in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)
