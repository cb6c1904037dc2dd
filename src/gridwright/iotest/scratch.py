"""The one directory that iotest works in: made fresh, marked, and removed on every way out.

`.gridwright-iotest-ID` holds a marker file that says which process of which host made it. One
whose process is dead, and that was not kept on purpose, is removed by the next run. Nothing else
in the library is touched.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gridwright.atomic import write_atomically
from gridwright.beneath import OwnDirectory, open_own, own_directories
from gridwright.errors import GridwrightError
from gridwright.runs.worker_process import is_alive, process_facts
from gridwright.trusted import read_file

PREFIX = ".gridwright-iotest-"
MARKER = "gridwright-iotest.json"
STREAM, MIXED, METADATA = "stream", "mixed", "metadata"
"""How the names of the files of a stream begin, and that of its directory."""
SHARED = "shared"
"""How the names of files begin that streams share."""


@dataclass(frozen=True, slots=True)
class FileSet:
    """The files a write phase left, so that a later one can read and verify them.

    `file_bytes[i]` is the size of `stream-i.dat`, and `first_file + i` the number stamped into it.
    """

    seed: int
    block_bytes: int
    file_bytes: tuple[int, ...]
    first_file: int = 0


class Scratch:
    """A fresh directory inside a library."""

    def __init__(self, directory: Path, opened: int, marker: dict[str, Any]) -> None:
        """`opened` is the descriptor of the directory, which becomes this object's."""
        self.directory = directory
        self._opened = opened
        self._marker = marker
        self._identity = _identity(opened)

    @classmethod
    def create(cls, library: Path, **owner: str) -> Scratch:
        """Make the directory and its marker, which also names its `owner`. Raises OSError."""
        directory = library / f"{PREFIX}{secrets.token_hex(6)}"
        parent = os.open(library, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # Others may come in by a name that they know: that of the marker of a run.
            os.mkdir(directory.name, 0o711, dir_fd=parent)
            opened = open_own(directory.name, directory=parent)
            try:
                scratch = cls(
                    directory, opened, {"process": process_facts(), "kept": False, "files": None} | owner
                )
                scratch._write_marker()
            except BaseException:
                OwnDirectory(directory, opened, parent).remove()
                os.close(opened)
                raise
        finally:
            os.close(parent)
        return scratch

    def make_shared(self, name: str, *, instead_of: str | None) -> None:
        """Make an empty file that streams share, and remove that of an earlier phase. Raises OSError.

        Each has a name of its own: clients of other nodes may remember an earlier one by its name.
        """
        if instead_of is not None:
            with suppress(FileNotFoundError):
                os.unlink(Path(instead_of).name, dir_fd=self._opened)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        os.close(os.open(Path(name).name, flags, 0o600, dir_fd=self._opened))

    def retain(self, files: FileSet) -> None:
        """Mark the directory as kept on purpose. Raises OSError."""
        kept = asdict(files)
        if not files.first_file:
            del kept["first_file"]
        self._marker |= {"kept": True, "files": kept}
        self._write_marker()

    def remove(self, beat: Callable[[], None]) -> None:
        """Remove the directory, if it is still the one that was made. Raises OSError.

        `beat` is called after each file: on large ones, or many, this takes a while.
        """
        for own in own_directories(self.directory.parent, self.directory.name):
            is_ours = own.path == self.directory and _identity(own.descriptor) == self._identity
            if is_ours and not own.remove(beat):
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(self.directory))

    def _write_marker(self) -> None:
        write_atomically(MARKER, json.dumps(self._marker, indent=1) + "\n", 0o644, directory=self._opened)


@dataclass(frozen=True, slots=True)
class Leftover:
    """A directory that an earlier run of iotest left in the library."""

    directory: Path
    kept: FileSet | None
    stale: bool
    bytes: int
    changed: float
    node: str | None = None
    """The node of a test of several that made it."""


def leftovers(library: Path) -> list[Leftover]:
    """Find what this user's earlier runs left, newest first; what has no marker of ours is not looked at."""
    found = [left for own in own_directories(library, PREFIX) if (left := _leftover(own)) is not None]
    return sorted(found, key=lambda leftover: leftover.changed, reverse=True)


def remove_stale(library: Path) -> list[Leftover]:
    """Remove directories whose process on this host is dead and that were not kept; name them."""
    removed = []
    for own in own_directories(library, PREFIX):
        leftover = _leftover(own)
        if leftover is not None and leftover.stale:
            own.remove()
            removed.append(leftover)
    return removed


def _leftover(own: OwnDirectory) -> Leftover | None:
    try:
        marker = json.loads(read_file(own.descriptor, MARKER))
        process, kept, files = marker["process"], marker["kept"], marker["files"]
        kept_set = (
            FileSet(
                int(files["seed"]),
                int(files["block_bytes"]),
                tuple(map(int, files["file_bytes"])),
                int(files.get("first_file", 0)),
            )
            if kept
            else None
        )
        with os.scandir(own.descriptor) as entries:
            size = sum(entry.stat(follow_symlinks=False).st_size for entry in entries)
        changed = os.stat(MARKER, dir_fd=own.descriptor, follow_symlinks=False).st_mtime
        stale = not kept and is_alive(process) is False
    except (GridwrightError, OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return Leftover(own.path, kept_set, stale, size, changed, marker.get("node"))


def remove_owned(library: Path, run: str, nodes: Collection[str]) -> list[Path]:
    """Remove what the nodes of a test left that can do so no more; name it. Others' are not touched."""
    removed = []
    for own in own_directories(library, PREFIX):
        try:
            marker = json.loads(read_file(own.descriptor, MARKER))
            owned = marker["run"] == run and marker["node"] in nodes and not marker["kept"]
        except (GridwrightError, OSError, ValueError, KeyError, TypeError):
            continue
        if owned:
            own.remove()
            removed.append(own.path)
    return removed


def _identity(directory: int) -> tuple[int, int]:
    status = os.fstat(directory)
    return status.st_dev, status.st_ino
