"""Directories that an import makes, and those that it finds: whose they are, whatever users exchange."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from gridwright.beneath import change_xattr, make_private
from gridwright.repository.settings import OpenRepository

_MADE_MODE = 0o755


class MadeDirectories:
    """Makes directories, and knows them again by a mark that another user cannot give."""

    def __init__(self, opened: OpenRepository) -> None:
        self._opened = opened
        self._is_root = os.geteuid() == 0
        self._mark = f"{'trusted' if self._is_root else 'user'}.gridwright.made"
        """What a directory has that an import has made, and not given its attributes yet: its path."""
        self._unmarked: dict[bytes, tuple[int, int]] = {}
        """Those of file systems without such attributes, by path: device and inode."""
        self._met: tuple[bytes, int, int] | None = None
        """The last directory that was looked at: path, device, inode."""

    def parent(self, path: bytes) -> tuple[int, bytes]:
        """The open directory that a path lies in, and its name there; directories that are missing are made.

        Raises OSError: ESTALE where another directory than was made or meant is on the way.
        """
        below = self._opened.below
        head = path.rpartition(b"/")[0]
        try:
            directory, name = below.parent(path)
        except FileNotFoundError:
            if self._opened.known.looks:
                return self._looked_at(head), path.rpartition(b"/")[2]
            self._make_directories(head)
            directory, name = below.parent(path)
        if self._is_root and head and (head, *_identity(directory)) != self._met:
            # From above, so that each stays open for the next, and nobody exchanges what was looked at.
            for each in _steps(head):
                self._look_at(each)
            directory, name = below.parent(path)
            self._met = (head, *_identity(directory))
        return directory, name

    def _looked_at(self, path: bytes) -> int:
        """The innermost directory that is there of those that a dry run would make."""
        found = self._opened.below.root
        for each in _steps(path):
            if self._opened.below.status(each) is None:
                break
            if self._is_root:
                self._look_at(each)
            found = self._opened.below.parent(each + b"/.")[0]
        return found

    def _make_directories(self, path: bytes) -> None:
        for at in _steps(path):
            directory, name = self._opened.below.parent(at)
            try:
                made = make_private(directory, name)
            except FileExistsError:
                if self._is_root:
                    self._look_at(at)
                continue
            try:
                # Only now others may enter: what they exchange it with has another mark.
                try:
                    change_xattr(made, self._mark, at)
                except OSError:
                    self._unmarked[at] = _identity(made)
                os.fchmod(made, _MADE_MODE | os.fstat(made).st_mode & stat.S_ISGID)
            finally:
                os.close(made)

    def is_made(self, descriptor: int, path: bytes, status: os.stat_result) -> bool:
        """Whether an open directory is as an import has made it for this path.

        Raises OSError: ESTALE where it was made for another one.
        """
        if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & ~stat.S_ISGID != _MADE_MODE:
            return False
        try:
            made_for = os.getxattr(descriptor, self._mark)
        except OSError:
            return self._unmarked.get(path) == _identity(descriptor)
        if made_for != path:
            raise OSError(errno.ESTALE, "another directory is in its place, which was left as it is")
        return True

    def _look_at(self, path: bytes) -> None:
        """Raise OSError where another user's directory may have come in the place of one, by an exchange."""
        directory, _ = self._opened.below.parent(path + b"/.")
        status = os.fstat(directory)
        trusted = {0, os.geteuid()}
        if self.is_made(directory, path, status) or status.st_uid in trusted:
            return
        row = self._opened.known.get(path) or self._opened.known.told_path(path)
        if row is None or row.uid == status.st_uid or self._opened.below.writers(path) <= trusted:
            return
        raise OSError(
            errno.ESTALE,
            f"a directory of user {status.st_uid} is in the place of one of user {row.uid}; it was left",
        )

    def settle(self, descriptor: int) -> None:
        """Take the mark away: the directory has its attributes."""
        with suppress(OSError):
            change_xattr(descriptor, self._mark, None)


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def _steps(path: bytes) -> list[bytes]:
    """A directory, after those that it lies in."""
    names = path.split(b"/")
    return [b"/".join(names[: count + 1]) for count in range(len(names))]
