"""Copies one name of the source: whole under a temporary name, as it was at one moment, and then named."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gridwright.beneath import Beneath
from gridwright.repository.below import at
from gridwright.repository.content import CHUNK, Torn, is_same_moment, open_for_reading, settled
from gridwright.repository.extended import read_xattrs
from gridwright.repository.making import part_name
from gridwright.repository.migration.attributes import dress

ATTEMPTS = 3
"""Tries to read a file that changes meanwhile."""
_GRAIN = 64 << 10
"""Zeros of so many bytes in a file that has holes are holes again."""
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class MigrationStopped(Exception):
    """The migration is being ended."""


class SourceGone(Exception):
    """The name is not at the source any more, or is no file any more."""


class Copier:
    """Reads below the source, never writes there, and makes below the library. One thread uses it."""

    def __init__(
        self, source: Path, target: Path, pass_by: Callable[[int], None], ask: Callable[[bytes], None]
    ) -> None:
        """Open both sides. Raises OSError.

        `pass_by` is told of bytes before they are written; it waits, or raises MigrationStopped. `ask` is
        told of each path before the source is asked for anything, and of an empty one after that.
        """
        self.source = Beneath(source)
        self.target = Beneath(target)
        self._pass_by = pass_by
        self._ask = ask
        self.left_owners = False

    def close(self) -> None:
        """Close all that is open."""
        self.source.close()
        self.target.close()

    def copy(self, path: bytes, *, is_there: bool) -> tuple[os.stat_result, os.stat_result]:
        """Copy, in place of what is there where that is known of; status of source and copy.

        Raises OSError, which is FileExistsError where something is there that nobody knew of, SourceGone, and
        Torn where the source changed each time.
        """
        mode = self.status(path).st_mode
        if stat.S_ISREG(mode):
            for _ in range(ATTEMPTS):
                with suppress(Torn):
                    return self._copy_file(path, is_there=is_there)
                self.source.refresh()
            raise Torn
        return self._copy_other(path, is_there=is_there)

    def status(self, path: bytes) -> os.stat_result:
        """The status of the source. Raises OSError and SourceGone."""
        self._ask(path)
        try:
            directory, name = self.source.parent(path)
            return os.stat(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError as error:
            raise SourceGone from error
        finally:
            self._ask(b"")

    def _copy_file(self, path: bytes, *, is_there: bool) -> tuple[os.stat_result, os.stat_result]:
        with self.reading(path) as (descriptor, status, xattrs), self._part(path, is_there=is_there) as part:
            new = os.open(part, _NEW, 0o600)
            try:
                self._copy_content(path, descriptor, new, status)
                self._dress(new, status, xattrs)
                return status, os.fstat(new)
            finally:
                os.close(new)

    @contextmanager
    def reading(self, path: bytes) -> Iterator[tuple[int, os.stat_result, bytes | None]]:
        """An open file of the source, its status and attributes. Raises SourceGone and OSError."""
        self._ask(path)
        try:
            directory, name = self.source.parent(path)
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

    def _copy_other(self, path: bytes, *, is_there: bool) -> tuple[os.stat_result, os.stat_result]:
        self._ask(path)
        directory, name = self.source.parent(path)
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        is_link = stat.S_ISLNK(status.st_mode)
        target = os.readlink(name, dir_fd=directory) if is_link else b""
        xattrs = read_xattrs(at(directory, name))
        self._ask(b"")
        with self._part(path, is_there=is_there) as part:
            if is_link:
                os.symlink(target, part)  # noqa: PTH211 - bytes
            else:
                os.mknod(part, status.st_mode & ~0o777 | 0o600, status.st_rdev)
            self._dress(part, status, xattrs)
            return status, os.lstat(part)

    @contextmanager
    def _part(self, path: bytes, *, is_there: bool) -> Iterator[bytes]:
        """A temporary path beside a path, that gets its name in the end."""
        directory, name = self.target.parent(path)
        part, whole = at(directory, part_name()), at(directory, name)
        try:
            yield part
            if is_there:
                os.rename(part, whole)  # noqa: PTH104 - bytes
            else:
                # A rename would go over what came there meanwhile.
                os.link(part, whole, follow_symlinks=False)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(part)  # noqa: PTH108 - bytes

    def dress_again(self, path: bytes) -> tuple[os.stat_result, os.stat_result]:
        """Give a name that is there the attributes of its source. Raises OSError."""
        self._ask(path)
        directory, name = self.source.parent(path) if path else (self.source.root, b".")
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        xattrs = read_xattrs(at(directory, name))
        self._ask(b"")
        directory, name = self.target.parent(path) if path else (self.target.root, b".")
        self._dress(at(directory, name), status, xattrs)
        return status, os.stat(name, dir_fd=directory, follow_symlinks=False)

    def _dress(self, target: int | bytes, status: os.stat_result, xattrs: bytes | None) -> None:
        if not dress(target, status, xattrs):
            self.left_owners = True

    def is_same(self, path: bytes) -> bool:
        """Whether both sides have the same content, read from the disk where the kernel lets go of its cache.

        Raises OSError, and Torn where the source changed meanwhile.
        """
        directory, name = self.target.parent(path)
        here = os.stat(name, dir_fd=directory, follow_symlinks=False)
        there = self.status(path)
        if stat.S_IFMT(here.st_mode) != stat.S_IFMT(there.st_mode):
            return False
        if stat.S_ISLNK(here.st_mode):
            ours = os.readlink(name, dir_fd=directory)
            directory, name = self.source.parent(path)
            return ours == os.readlink(name, dir_fd=directory)
        if not stat.S_ISREG(here.st_mode):
            return here.st_rdev == there.st_rdev
        if here.st_size != there.st_size:
            return False
        copy = open_for_reading(name, directory)
        try:
            with self.reading(path) as (descriptor, status, _):
                return self._is_same_file(path, descriptor, copy, status)
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
