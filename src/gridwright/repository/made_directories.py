"""Directories that an import makes, and those that it finds: whose they are, whatever users exchange."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from gridwright.beneath import change_xattr, make_private
from gridwright.repository.below import is_there, part_name, same_times, steps
from gridwright.repository.extended import change_own_xattr, drop_inherited_acl
from gridwright.repository.keys import KeyRefusal
from gridwright.repository.known_file import KnownFile, signed_inode
from gridwright.repository.placing import renamed_new
from gridwright.repository.settings import OpenRepository
from gridwright.repository.unfinished import open_up, remove_half_made

_MADE_MODE = 0o755


class MadeDirectories:
    """Makes directories, and knows them again by a mark that another user cannot give."""

    def __init__(self, opened: OpenRepository, *, are_given: bool = False) -> None:
        """With `are_given`, all have their owners and modes by now: contents come into no other one."""
        self._opened = opened
        self._are_given = are_given
        self._is_root = os.geteuid() == 0
        self._mark = f"{'trusted' if self._is_root else 'user'}.gridwright.made"
        """What a directory has that an import has made, and not given its attributes yet: path and mtime."""
        self._unmarked: dict[bytes, tuple[int, int, int]] = {}
        """Those of file systems without such attributes, by path: mtime, device and inode."""
        self._met: tuple[bytes, int, int] | None = None
        """The last directory that was looked at: path, device, inode."""
        self.without_objects: set[bytes] = set()
        """Those that root has made, and of which no object tells whose they are."""

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
        if head and (head, *_identity(directory)) != self._met:
            # From above, so that each stays open for the next, and nobody exchanges what was looked at.
            for each in steps(head) if self._is_root or self._are_given else ():
                self._look_at(each)
            directory, name = below.parent(path)
            self._met = (head, *_identity(directory))
            if not self._is_root:
                open_up(self._opened, head, directory)
        return directory, name

    def _looked_at(self, path: bytes) -> int:
        """The innermost directory that is there of those that a dry run would make."""
        found = self._opened.below.root
        for each in steps(path):
            if self._opened.below.status(each) is None:
                break
            if self._is_root:
                self._look_at(each)
            found = self._opened.below.parent(each + b"/.")[0]
        return found

    def _make_directories(self, path: bytes) -> None:
        for at in steps(path):
            directory, name = self._opened.below.parent(at)
            try:
                if is_there(directory, name):
                    raise FileExistsError
                if self._are_given and self._row_of(at) is not None:
                    raise OSError(errno.ESTALE, "its directory was moved or removed meanwhile: import again")
                self._make(directory, name, at)
            except FileExistsError:
                if self._is_root:
                    self._look_at(at)
                continue
            self._keep_without_object(at)

    def _make(self, directory: int, name: bytes, path: bytes) -> None:
        """Make a directory under another name first, so that no interrupted import leaves one half made."""
        part = part_name()
        if not self._make_as(directory, part, path, name):
            with suppress(FileNotFoundError), same_times(directory):
                os.rmdir(part, dir_fd=directory)
            self._make_as(directory, name, path)

    def _make_as(self, directory: int, name: bytes, path: bytes, last: bytes | None = None) -> bool:
        """Make one, and give it its `last` name, if any; False where no rename keeps what has that name.

        One that is left half made goes, here or in the next command. Raises OSError.
        """
        with same_times(directory, making=name):
            made = None
            try:
                made = make_private(directory, name)
                self._set_mark(made, path)
                # Interrupted now it is whole, also as it is.
                return last is None or renamed_new(directory, name, directory, last)
            except FileExistsError:
                if made is not None:
                    os.rmdir(name, dir_fd=directory)
                raise
            except BaseException:
                remove_half_made(directory, name)
                raise
            finally:
                if made is not None:
                    os.close(made)

    def _set_mark(self, made: int, path: bytes) -> None:
        """Mark a new directory, then let others enter: what they exchange it with has another mark."""
        drop_inherited_acl(made)
        status = os.fstat(made)
        try:
            change_xattr(made, self._mark, b"%s\0%d" % (path, status.st_mtime_ns))
        except OSError:
            self._unmarked[path] = status.st_mtime_ns, *_identity(made)
        os.fchmod(made, self._first_mode(path) | status.st_mode & stat.S_ISGID)

    def _first_mode(self, path: bytes) -> int:
        """That of a new directory until it gets its own; the least where its object is not known yet."""
        if (row := self._row_of(path)) is not None:
            return _MADE_MODE & row.attributes.permissions | stat.S_IRWXU
        return stat.S_IRWXU if self._has_object(path) else _MADE_MODE

    def _has_object(self, path: bytes) -> bool:
        """Whether the listing has an object of a directory, which says whose it is."""
        with suppress(KeyRefusal):
            listed = self._opened.known.listed(self._opened.keys.key_of(path, is_directory=True))
            return listed is not None and not listed[0]
        return True

    def _keep_without_object(self, path: bytes) -> None:
        known = self._opened.known
        if self._is_root and known.is_listed and not (known.looks or self._has_object(path)):
            self.without_objects.add(path)

    @staticmethod
    def may_be_made(status: os.stat_result) -> bool:
        """Whether a directory has the owner and a mode of those that an import makes."""
        mode = stat.S_IMODE(status.st_mode) & ~stat.S_ISGID
        return status.st_uid == os.geteuid() and mode | _MADE_MODE == _MADE_MODE and mode >= stat.S_IRWXU

    def is_made(self, descriptor: int, path: bytes, status: os.stat_result) -> bool:
        """Whether an open directory is as an import has made it for this path; `made_ns` raises OSError."""
        return self.made_ns(descriptor, path, status) is not None

    def made_ns(self, descriptor: int, path: bytes, status: os.stat_result) -> int | None:
        """The mtime that an open directory got as an import made it for this path; None for any other.

        Raises OSError: ESTALE where it was made for another path.
        """
        if not self.may_be_made(status):
            return None
        try:
            made_for, _, moment = os.getxattr(descriptor, self._mark).partition(b"\0")
        except OSError:
            made_ns, *identity = self._unmarked.get(path, (0, 0, 0))
            return made_ns if tuple(identity) == _identity(descriptor) else None
        if made_for != path:
            raise OSError(errno.ESTALE, "another directory is in its place, which was left as it is")
        return int(moment) if moment.isdigit() else 0

    def _row_of(self, path: bytes) -> KnownFile | None:
        return self._opened.known.get(path) or self._opened.known.manifest_row_of(path)

    def _look_at(self, path: bytes) -> None:
        """Raise OSError where another directory may have come in the place of one, by an exchange."""
        directory, _ = self._opened.below.parent(path + b"/.")
        status = os.fstat(directory)
        trusted, row = {0, os.geteuid()}, self._row_of(path)
        if self.is_made(directory, path, status):
            if self._are_given and row is not None:
                raise OSError(errno.ESTALE, "its directory has not got its owner and mode yet: import again")
            self._keep_without_object(path)
            return
        if row is None or self._opened.below.writers(path) <= trusted:
            return
        if self._is_root and status.st_uid not in {row.uid, *trusted}:
            raise OSError(
                errno.ESTALE,
                f"a directory of user {status.st_uid} is in the place of one of user {row.uid}; it was left",
            )
        here, wanted = stat.S_IMODE(status.st_mode), row.attributes.permissions
        if self._are_given and row.inode != signed_inode(status.st_ino) and is_wider(wanted, here):
            raise OSError(
                errno.ESTALE,
                f"another directory, of mode {here:04o}, is in the place of one of {wanted:04o}; it was left",
            )

    def settle(self, descriptor: int) -> None:
        """Take the mark away: the directory has its attributes."""
        with suppress(OSError):
            change_own_xattr(descriptor, self._mark, None)


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def is_wider(here: int, wanted: int) -> bool:
    """Whether somebody may do more with permissions than with those that are here."""
    return bool(wanted & ~here & ~stat.S_ISVTX or here & ~wanted & stat.S_ISVTX)
