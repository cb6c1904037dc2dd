"""Copies one name of the source: whole under a temporary name, as it was at one moment, and then named."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from gridwright.beneath import PrivateDirectory, pinned
from gridwright.repository.below import part_name
from gridwright.repository.content import CHUNK, Torn, is_same_moment, open_for_reading, settled
from gridwright.repository.extended import read_xattrs
from gridwright.repository.migration.attributes import (
    PRIVILEGES,
    are_privileges_void,
    can_be_dressed,
    dress,
    is_dressed,
)
from gridwright.repository.placing import Placer, place_new
from gridwright.repository.reserved import LibraryFiles
from gridwright.repository.settings import RepositoryReport

ATTEMPTS = 3
"""Tries to read a file that changes meanwhile."""
_GRAIN = 64 << 10
"""Zeros of so many bytes in a file that has holes are holes again."""
_MOST_WAITING = 8
"""Replaced files that wait for a moment, of each of several threads."""
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class MigrationStopped(Exception):
    """The migration is being ended."""


class SourceGone(Exception):
    """The name is not at the source any more, or is no file any more."""


class Copier:
    """Reads below the source, never writes there, and makes below the library. One thread uses it."""

    def __init__(
        self,
        source: Path,
        target: Path,
        pass_by: Callable[[int], None],
        ask: Callable[[bytes], None],
        report: RepositoryReport,
        moment: str,
    ) -> None:
        """Open both sides. Raises OSError.

        `pass_by` is told of bytes before they are written; it waits, or raises MigrationStopped. `ask` is
        told of each path before the source is asked for anything, and of an empty one after that. Files that
        are replaced may go to the trash of this `moment`; the report says so.
        """
        self.source = LibraryFiles(source)
        self.target = LibraryFiles(target)
        self.placer = Placer(self.target.root, report, moment, _MOST_WAITING)
        self._pass_by = pass_by
        self._ask = ask
        self._private: tuple[bytes, PrivateDirectory] | None = None
        self._inodes: Sequence[int] = ()
        self.left_owners = False
        self.left_privileges = False

    def leave(self) -> None:
        """Remove the private directory in which copies are made: other directories are written to next."""
        if self._private is not None:
            self._private[1].close()
            self._private = None

    def close(self) -> None:
        """Close all that is open."""
        self.leave()
        self.source.close()
        self.target.close()

    def expect(self, inodes: Sequence[int]) -> None:
        """Read only below these directories of the source, the outermost first; 0 for one that is not known.

        So what a user puts in the place of a directory is not copied as if it were what the walk has met.
        """
        self._inodes = inodes

    def copy(
        self, path: bytes, *, there: os.stat_result | None, within: int = 0
    ) -> tuple[os.stat_result, os.stat_result]:
        """Copy, in place of what was seen `there` where that is known of; status of source and copy.

        `within` is the inode of the library's directory that it lies in; 0 where that is not known.
        Raises OSError, which is FileExistsError where something else is there, or was changed; SourceGone,
        and Torn where the source changed each time.
        """
        self._enter(path, within)
        mode = self.status(path).st_mode
        if stat.S_ISREG(mode):
            for _ in range(ATTEMPTS):
                with suppress(Torn):
                    return self._copy_file(path, there=there)
                self.source.refresh()
            raise Torn
        return self._copy_other(path, there=there)

    def status(self, path: bytes) -> os.stat_result:
        """The status of the source. Raises OSError and SourceGone."""
        self._ask(path)
        try:
            directory, name = self.source.parent(path, inodes=self._inodes)
            return os.stat(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError as error:
            raise SourceGone from error
        finally:
            self._ask(b"")

    def _copy_file(
        self, path: bytes, *, there: os.stat_result | None
    ) -> tuple[os.stat_result, os.stat_result]:
        with (
            self.reading(path) as (descriptor, status, xattrs),
            self._part(path, there=there) as (private, part),
        ):
            new = os.open(part, _NEW, 0o600, dir_fd=private)
            try:
                void = self._void(descriptor, status)
                self._copy_content(path, descriptor, new, status)
                self._dress(new, status, xattrs, void=void)
                return status, os.fstat(new)
            finally:
                os.close(new)

    @contextmanager
    def reading(self, path: bytes) -> Iterator[tuple[int, os.stat_result, bytes | None]]:
        """An open file of the source, its status and attributes. Raises SourceGone and OSError."""
        self._ask(path)
        try:
            directory, name = self.source.parent(path, inodes=self._inodes)
            descriptor = open_for_reading(name, directory)
        except FileNotFoundError as error:
            raise SourceGone from error
        try:
            status, xattrs = settled(descriptor), read_xattrs(descriptor)
            self._ask(b"")
            yield descriptor, status, xattrs
        finally:
            os.close(descriptor)
            self._ask(b"")

    def _copy_content(self, path: bytes, old: int, new: int, status: os.stat_result) -> None:
        os.ftruncate(new, status.st_size)
        has_holes = status.st_blocks * 512 < status.st_size
        for offset, chunk in self.chunks(path, old, status.st_size, has_holes=has_holes):
            self._pass_by(len(chunk))
            for start in range(0, len(chunk), _GRAIN) if has_holes else (0,):
                piece = chunk[start : start + _GRAIN] if has_holes else chunk
                if not has_holes or any(piece):
                    _write(new, piece, offset + start)
        self._ask(path)
        if not is_same_moment(status, os.fstat(old)):
            raise Torn
        self._ask(b"")

    def chunks(
        self, path: bytes, descriptor: int, size: int, *, has_holes: bool
    ) -> Iterator[tuple[int, memoryview]]:
        """Offset and content of what the file has, without holes that it tells of; one buffer holds each."""
        buffer = memoryview(bytearray(max(1, min(CHUNK, size))))
        for start, end in _extents(descriptor, size) if has_holes else ((0, size),):
            offset = start
            while offset < end:
                self._ask(path)
                got = os.preadv(descriptor, [buffer[: min(CHUNK, end - offset)]], offset)
                self._ask(b"")
                if not got:
                    raise Torn
                yield offset, buffer[:got]
                offset += got

    def _copy_other(
        self, path: bytes, *, there: os.stat_result | None
    ) -> tuple[os.stat_result, os.stat_result]:
        self._ask(path)
        directory, name = self.source.parent(path, inodes=self._inodes)
        with pinned(directory, name) as pin:
            status, xattrs = os.fstat(pin), read_xattrs(pin)
            target = os.readlink(b"", dir_fd=pin) if stat.S_ISLNK(status.st_mode) else None
            if are_privileges_void(pin, status):
                raise OSError(errno.EPERM, "it is a device, and the source is mounted with nodev")
        self._ask(b"")
        with self._part(path, there=there) as (private, part):
            if target is not None:
                os.symlink(target, part, dir_fd=private)
            else:
                os.mknod(part, stat.S_IFMT(status.st_mode) | 0o600, status.st_rdev, dir_fd=private)
            with pinned(private, part) as pin:
                self._dress(pin, status, xattrs)
                return status, os.fstat(pin)

    @contextmanager
    def _part(self, path: bytes, *, there: os.stat_result | None) -> Iterator[tuple[int, bytes]]:
        """A directory where nobody can exchange what is made, and a name there; `path` is its name then."""
        name = path.rpartition(b"/")[2]
        private, part = self._enter(path), part_name()
        try:
            yield private.descriptor, part
            if there is not None:
                self.placer.replace(path, private.parent, part, name, there, source=private.descriptor)
            else:
                # A rename would go over what came there meanwhile.
                place_new(private.parent, part, name, source=private.descriptor)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(part, dir_fd=private.descriptor)

    def compare(self, path: bytes, *, looks: bool) -> tuple[os.stat_result, os.stat_result] | bool:
        """Dress a copy that has the content of its source; else, whether it may be made anew.

        Who only `looks` changes nothing. Raises as `same` and `dress_again`.
        """
        here = self.same(path)
        if here is None:
            return False
        return self.dress_again(path, here, looks=looks) or here.st_uid == os.geteuid()

    def is_dressed(self, path: bytes) -> bool:
        """Whether a directory has the attributes of its source. Raises OSError."""
        self._ask(path)
        directory, name = self.source.parent(path, inodes=self._inodes)
        with pinned(directory, name) as pin:
            status, xattrs = os.fstat(pin), read_xattrs(pin)
            void = self._void(pin, status)
        self._ask(b"")
        directory, name = self.target.parent(path)
        with pinned(directory, name) as pin:
            return is_dressed(pin, status, xattrs, void=void)

    def dress_directory(self, path: bytes, met: tuple[int, int]) -> bool:
        """Whether a directory had to be given other attributes; the inodes here and at the source were `met`.

        Raises OSError: ESTALE where something else has come in the place of either.
        """
        before = self.target.status(path)
        if before is None or before.st_ino != met[0]:
            raise OSError(errno.ESTALE, "another directory has come in its place")
        dressed = self.dress_again(path, before, met[1])
        return dressed is None or before.st_ctime_ns != dressed[1].st_ctime_ns

    def _enter(self, path: bytes, within: int = 0) -> PrivateDirectory:
        """A private directory beside a path. Raises OSError: ESTALE where that lies in another directory."""
        head = path.rpartition(b"/")[0]
        if self._private is None or self._private[0] != head:
            self.leave()
            self._private = head, PrivateDirectory(self.target.parent(path)[0], part_name())
        if within not in (0, os.fstat(self._private[1].parent).st_ino):
            self.leave()
            raise OSError(errno.ESTALE, "another directory has come in its place")
        return self._private[1]

    def dress_again(
        self,
        path: bytes,
        here: os.stat_result | None = None,
        source: int | None = None,
        *,
        looks: bool = False,
    ) -> tuple[os.stat_result, os.stat_result] | None:
        """Give what is `here`, a file or a directory, the attributes of its source.

        None where it may not have them (`can_be_dressed`). `source` is the inode that was looked at there.
        Raises OSError: ESTALE where something else has come in the place of either.
        """
        self._ask(path)
        directory, name = self.source.parent(path, inodes=self._inodes) if path else (self.source.root, b".")
        with pinned(directory, name) as pin:
            status, xattrs = os.fstat(pin), read_xattrs(pin)
            void = self._void(pin, status)
        self._ask(b"")
        if source is not None and status.st_ino != source:
            raise OSError(errno.ESTALE, "another file has come in the place of the source")
        directory, name = self.target.parent(path) if path else (self.target.root, b".")
        with pinned(directory, name, here) as pin:
            if not stat.S_ISDIR(status.st_mode) and not can_be_dressed(os.fstat(pin), status):
                return None
            if not looks:
                self._dress(pin, status, xattrs, void=void)
            return status, os.fstat(pin)

    def _void(self, descriptor: int, status: os.stat_result) -> int:
        """The bits of the mode of an open or pinned file of the source that are not given."""
        if not are_privileges_void(descriptor, status):
            return 0
        self.left_privileges = True
        return PRIVILEGES

    def _dress(self, target: int, status: os.stat_result, xattrs: bytes | None, *, void: int = 0) -> None:
        if not dress(target, status, xattrs, void=void):
            self.left_owners = True

    def same(self, path: bytes) -> os.stat_result | None:
        """The status of the copy where both sides have the same content; None where they have not.

        It is read from the disk where the kernel lets go of its cache. Raises OSError, and Torn where the
        source changed meanwhile.
        """
        directory, name = self.target.parent(path)
        here = os.stat(name, dir_fd=directory, follow_symlinks=False)
        there = self.status(path)
        if stat.S_IFMT(here.st_mode) != stat.S_IFMT(there.st_mode):
            return None
        if stat.S_ISLNK(here.st_mode):
            ours = os.readlink(name, dir_fd=directory)
            directory, name = self.source.parent(path, inodes=self._inodes)
            return here if ours == os.readlink(name, dir_fd=directory) else None
        if not stat.S_ISREG(here.st_mode):
            return here if here.st_rdev == there.st_rdev else None
        if here.st_size != there.st_size:
            return None
        copy = open_for_reading(name, directory)
        try:
            here = os.fstat(copy)
            with self.reading(path) as (descriptor, status, _):
                return here if self._is_same_file(path, descriptor, copy, status) else None
        finally:
            os.close(copy)

    def read(self, path: bytes, most: int) -> int:
        """Read at most so many bytes of a file, to see how long that takes; how many. Raises as `reading`."""
        done = 0
        with self.reading(path) as (descriptor, status, _):
            for _, chunk in self.chunks(path, descriptor, min(status.st_size, most), has_holes=False):
                done += len(chunk)
        return done

    def _is_same_file(self, path: bytes, old: int, copy: int, status: os.stat_result) -> bool:
        for each in (old, copy):
            with suppress(OSError):
                os.posix_fadvise(each, 0, 0, os.POSIX_FADV_DONTNEED)
        same = self._has_content_of(path, old, copy, status)
        if same and status.st_blocks * 512 < status.st_size:
            # Where the source has a hole, the copy may have more than zeros.
            same = self._has_content_of(path, copy, old, os.fstat(copy))
        if not is_same_moment(status, os.fstat(old)):
            raise Torn
        return same

    def _has_content_of(self, path: bytes, one: int, other: int, status: os.stat_result) -> bool:
        """Whether another file has what one of this status has outside of its holes."""
        has_holes = status.st_blocks * 512 < status.st_size
        for offset, chunk in self.chunks(path, one, status.st_size, has_holes=has_holes):
            self._pass_by(len(chunk))
            if os.pread(other, len(chunk), offset) != chunk:
                return False
        return True


def _extents(descriptor: int, size: int) -> Iterator[tuple[int, int]]:
    """Where a file has data; all of it where the file system cannot tell."""
    offset = 0
    while offset < size:
        try:
            start = os.lseek(descriptor, offset, os.SEEK_DATA)
        except OSError:
            # Nothing but a hole is left (ENXIO).
            return
        offset = os.lseek(descriptor, start, os.SEEK_HOLE)
        yield start, min(offset, size)


def _write(descriptor: int, data: memoryview, offset: int) -> None:
    while data:
        done = os.pwrite(descriptor, data, offset)
        data, offset = data[done:], offset + done
