"""What is taken out of a library stays in it: below `.gridwright/trash`, by the time of the command.

A file moves there with its inode, owner, mode and times, by a rename, so that who has it open goes on writing
to what lies there. The trash is of whoever made it and closed to all others; exports leave it out.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gridwright.beneath import DIRECTORY, Beneath, descriptor_path, make_private, open_own, remove_tree
from gridwright.repository.below import is_there, same_times
from gridwright.repository.keys import RESERVED, TRASH
from gridwright.repository.walking import (
    IS_RENAMED,
    ReservedUnusable,
    open_reserved,
    open_usable,
    remove_reserved,
    walk_below,
)
from gridwright.units import counted, format_bytes

_TIME = "%Y%m%dT%H%M%SZ"
TRASHES = f"{RESERVED}/{TRASH}"
"""Where they lie, below a repository's directory."""


@dataclass(frozen=True, slots=True)
class TrashedFiles:
    """What one command has moved there."""

    name: str
    """The directory below `.gridwright/trash`."""
    moment: float
    """When the command began, in seconds since 1970."""
    count: int
    bytes: int

    def text(self) -> str:
        """For people."""
        return f"{self.name}, {counted(self.count, 'file')} ({format_bytes(self.bytes)})"


@dataclass(slots=True)
class TrashReport:
    """The trash of a repository, and what was removed from it."""

    repository: str
    is_dry_run: bool = False
    there: list[TrashedFiles] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    """What is `.gridwright` of this library, with trash, and was given another name."""
    of_another: str | None = None
    """Why nothing of the trash is seen: `.gridwright` is another user's, or no such directory; what helps."""
    removed: list[TrashedFiles] = field(default_factory=list)
    stayed: list[TrashedFiles] = field(default_factory=list)
    """What could not be removed."""

    def document(self) -> dict[str, Any]:
        """The result for programs."""
        parts = {"there": self.there, "removed": self.removed, "stayed": self.stayed}
        places = {"elsewhere": self.elsewhere, "of_another": self.of_another}
        return (
            {"repository": self.repository, "dry_run": self.is_dry_run}
            | places
            | {name: [asdict(each) for each in found] for name, found in parts.items()}
        )

    def text(self) -> str:
        """The result for people."""
        looks = self.is_dry_run
        lines = [f"{self.repository}: trash, below {TRASHES}" + ", a dry run: nothing was changed" * looks]
        lines += [f"  {'would be ' * looks}removed: {each.text()}" for each in self.removed]
        lines += [f"  could not be removed: {each.text()}" for each in self.stayed]
        lines += [f"  {each.text()}" for each in self.there]
        if not self.there and not (looks and self.removed):
            lines.append(f"  {self.of_another or 'nothing lies there'}")
        lines += [f"  {each}: {IS_RENAMED}" for each in self.elsewhere]
        return "\n".join(lines)


class Trash:
    """The trash of one command. One thread uses it."""

    def __init__(self, root: int, moment: str | None = None) -> None:
        """`root` is the open directory of the repository; nothing is made before something is moved."""
        self._root = root
        self._name = moment or moment_name()
        self._opened: dict[int, int] = {}

    def take(self, directory: int, name: bytes, path: bytes) -> tuple[int, bytes, str]:
        """Move what has a name in an open directory here, where its path says; its directory, open, and name.

        And where that is, below the repository's directory.

        Close that descriptor. Raises OSError: FileNotFoundError where nothing has the name any more, ESTALE
        where the place belongs to somebody else.
        """
        for number in range(1000):
            try:
                around, own = self._around(number, path)
            except NotADirectoryError:
                # A file that had the path of a directory lies there.
                continue
            if not is_there(around, own):
                try:
                    os.rename(name, own, src_dir_fd=directory, dst_dir_fd=around)
                except BaseException:
                    os.close(around)
                    raise
                return around, own, f"{TRASHES}/{self._numbered(number)}"
            os.close(around)
        raise FileExistsError(errno.EEXIST, f"{TRASHES}/{self._name} has too many files of this name")

    def _around(self, number: int, path: bytes) -> tuple[int, bytes]:
        """The open directory that a path has here; another one for each file that had the path before."""
        *names, own = path.split(b"/")
        here = os.dup(self._top(number))
        for each in names:
            before = here
            with suppress(FileExistsError):
                os.mkdir(each, 0o700, dir_fd=before)
            try:
                here = os.open(each, DIRECTORY, dir_fd=before)
            finally:
                os.close(before)
        return here, own

    def _top(self, number: int) -> int:
        if number not in self._opened:
            trash = _opened_trash(self._root, make=True)
            try:
                _make_own(trash, self._numbered(number))
                self._opened[number] = open_own(self._numbered(number), directory=trash)
            finally:
                os.close(trash)
        return self._opened[number]

    def tidy(self) -> None:
        """Close what it holds open, and remove directories in which nothing lies."""
        while self._opened:
            number, descriptor = self._opened.popitem()
            _remove_empty(descriptor)
            os.close(descriptor)
            with suppress(OSError):
                trash = _opened_trash(self._root, make=False)
                try:
                    os.rmdir(self._numbered(number), dir_fd=trash)
                finally:
                    os.close(trash)
            _remove_empty_trash(self._root)

    def _numbered(self, number: int) -> str:
        return f"{self._name}.{number}" if number else self._name


def moment_name() -> str:
    """How the trash of a command that begins now is called."""
    return datetime.now(UTC).strftime(_TIME)


def _remove_empty(directory: int) -> None:
    with suppress(OSError), Beneath(Path(descriptor_path(directory))) as below:
        paths = [
            each.path for walked, _ in walk_below(directory) for each in walked if stat.S_ISDIR(each.st_mode)
        ]
        for path in sorted(paths, reverse=True):
            with suppress(OSError):
                around, name = below.parent(path)
                os.rmdir(name, dir_fd=around)


def trashed(root: int) -> Iterator[TrashedFiles]:
    """What lies in the trash that this user has made, the oldest first. Raises OSError."""
    try:
        trash = _opened_trash(root, make=False)
    except (FileNotFoundError, ReservedUnusable):
        return
    try:
        for name in sorted(os.listdir(trash)):  # noqa: PTH208 - of a descriptor
            if (moment := _moment(name)) is None:
                continue
            count = size = 0
            with suppress(NotADirectoryError, FileNotFoundError):
                directory = os.open(name, DIRECTORY, dir_fd=trash)
                try:
                    for walked, _ in walk_below(directory):
                        sizes = [each.st_size for each in walked if not stat.S_ISDIR(each.st_mode)]
                        count, size = count + len(sizes), size + sum(sizes)
                finally:
                    os.close(directory)
            yield TrashedFiles(name, moment, count, size)
    finally:
        os.close(trash)


def why_unseen(root: int) -> str | None:
    """Why what lies in the trash is not seen, and what helps; None where it is. Raises OSError."""
    try:
        os.close(_opened_trash(root, make=False))
    except FileNotFoundError:
        pass
    except ReservedUnusable as error:
        return error.strerror
    return None


def empty_trash(
    root: int, older_than_s: float, *, looks: bool = False
) -> Iterator[tuple[TrashedFiles, bool]]:
    """Remove what was moved there longer ago; each of them, and whether it is gone. Raises OSError.

    Who only `looks` removes nothing, and is told of each that it would go.
    """
    for each in list(trashed(root)):
        if time.time() - each.moment < older_than_s:
            continue
        if looks:
            yield each, True
        else:
            trash = _opened_trash(root, make=False)
            try:
                yield each, remove_tree(each.name, directory=trash)
            finally:
                os.close(trash)
    if not looks:
        _remove_empty_trash(root)


def _remove_empty_trash(root: int) -> None:
    """Remove the trash in which nothing lies, and `.gridwright` without anything else: others may make it."""
    with suppress(OSError):
        own = open_reserved(root, make=False)
        try:
            with suppress(FileNotFoundError):
                os.rmdir(TRASH, dir_fd=own)
        finally:
            os.close(own)
        remove_reserved(root)


def _moment(name: str) -> float | None:
    try:
        return datetime.strptime(name.partition(".")[0], _TIME).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _opened_trash(root: int, *, make: bool) -> int:
    own = open_reserved(root, make=make)
    try:
        if make:
            _make_own(own, TRASH)
        return open_usable(own, TRASH, TRASHES)
    finally:
        os.close(own)


def _make_own(directory: int, name: str) -> None:
    """Make a directory that nobody else can write, where it is not. Raises OSError."""
    own = os.fsencode(name)
    if not is_there(directory, own):
        with suppress(FileExistsError), same_times(directory):
            os.close(make_private(directory, own))
