"""Copies one name of the source: whole under a temporary name, as it was at one moment, and then named.

Several threads copy; another one notices that the source does not answer.
"""

from __future__ import annotations

import errno
import os
import queue
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gridwright.beneath import PrivateDirectory, change_mode, change_owner, change_times, change_xattr, pinned
from gridwright.errors import GridwrightError, environment_error
from gridwright.refusals import reason_of
from gridwright.repository.below import part_name
from gridwright.repository.content import CHUNK, Torn, is_same_moment, open_for_reading, settled
from gridwright.repository.extended import decode, read_xattrs
from gridwright.repository.placing import Placer, place_new
from gridwright.repository.settings import RepositoryReport
from gridwright.repository.trash import moment_name
from gridwright.repository.walking import LibraryFiles, TreeWalk

PRIVILEGES = stat.S_ISUID | stat.S_ISGID
"""Who runs the file becomes its owner, or one of its group."""


def are_privileges_void(descriptor: int, status: os.stat_result) -> bool:
    """Whether an open or pinned file has privileges, or is a device, that its mount makes nothing of.

    With `nosuid` and `nodev` its file system is not trusted with either: whoever serves it may make them up.
    """
    if stat.S_ISBLK(status.st_mode) or stat.S_ISCHR(status.st_mode):
        return bool(os.fstatvfs(descriptor).f_flag & os.ST_NODEV)
    if not stat.S_ISREG(status.st_mode) or not status.st_mode & PRIVILEGES:
        return False
    return bool(os.fstatvfs(descriptor).f_flag & os.ST_NOSUID)


def dress(target: int, source: os.stat_result, xattrs: bytes | None, *, void: int = 0) -> bool:
    """Dress an open or pinned file; whether owner and group could be given.

    The set-user-ID bit stays where the owner does; bits of the mode that are `void` are not given. Raises
    OSError: ESTALE where the types differ.
    """
    here = os.fstat(target)
    if stat.S_IFMT(here.st_mode) != stat.S_IFMT(source.st_mode):
        raise OSError(errno.ESTALE, "another file has come in its place")
    if is_dressed(target, source, xattrs, void=void):
        return True
    is_owned = _give(target, here, source)
    _write_xattrs(target, xattrs)
    if not stat.S_ISLNK(source.st_mode):
        # Of whoever makes the copy, a program of another user must not run as him.
        is_privileged = is_owned or stat.S_ISDIR(source.st_mode)
        left = void if is_privileged else PRIVILEGES
        change_mode(target, stat.S_IMODE(source.st_mode) & ~left)
    change_times(target, source.st_atime_ns, source.st_mtime_ns)
    return is_owned


def is_dressed(target: int, source: os.stat_result, xattrs: bytes | None, *, void: int = 0) -> bool:
    """Whether an open or pinned file has these attributes, as far as they are given."""
    here = os.fstat(target)
    return not here.st_mode & void and _all(here) == _all(source) and read_xattrs(target) == xattrs


def can_be_dressed(here: os.stat_result, source: os.stat_result) -> bool:
    """Whether a file that is here may be dressed: its owner may still have it open, to write to it.

    So no file gets another owner, or a set-user-ID bit, after it was made; it is made anew.
    """
    if stat.S_IFMT(here.st_mode) not in (stat.S_IFREG, stat.S_IFDIR):
        return False
    if os.geteuid() != 0 and source.st_uid != os.geteuid():
        return here.st_uid == os.geteuid()
    is_owner = (here.st_uid, here.st_gid) == (source.st_uid, source.st_gid)
    return is_owner and not source.st_mode & ~here.st_mode & PRIVILEGES


def _all(status: os.stat_result) -> tuple[int, ...]:
    # Whoever lists a directory changes when it was last read.
    accessed = 0 if stat.S_ISDIR(status.st_mode) else status.st_atime_ns
    return (status.st_mode, status.st_uid, status.st_gid, accessed, status.st_mtime_ns)


def _give(target: int, here: os.stat_result, source: os.stat_result) -> bool:
    if (here.st_uid, here.st_gid) == (source.st_uid, source.st_gid):
        return True
    try:
        change_owner(target, source.st_uid, source.st_gid)
    except PermissionError:
        if os.geteuid() == 0:
            raise
        return False
    return True


def _write_xattrs(target: int, wanted: bytes | None) -> None:
    """Exactly these: what a directory's default ACL gave a new file goes."""
    present = read_xattrs(target)
    if present == wanted:
        return
    new, old = decode(wanted or b"{}"), decode(present or b"{}")
    for name in old.keys() - new.keys():
        with suppress(OSError):
            change_xattr(target, name, None)
    for name, value in new.items():
        if old.get(name) != value:
            change_xattr(target, name, value)


def why_not(error: OSError) -> str:
    """An error for people."""
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return "a symbolic link or a file is where a directory should be"
    if error.errno == errno.ESTALE:
        return "somebody has put another file in its place meanwhile"
    if error.errno == errno.ENOTSUP:
        return "the library's file system keeps no such extended attributes or ACLs"
    return reason_of(error)


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


THREADS = 8
MOST_AT_ONCE = 64
PATIENCE_S = 60.0
"""A source that is silent for longer hangs: an NFS client waits for its server for ever."""
_POLL_S = 0.2
_ENDING_S = 0.6


@dataclass(frozen=True, slots=True)
class CopyTask:
    """Something to do for a path."""

    path: bytes
    act: Callable[[Copier], Any]
    done: Callable[[Any], None]
    """Called by the thread that collects, with what `act` gave."""
    failed: Callable[[Exception], None]
    inodes: Sequence[int] = ()
    """Directories of the source that the path lies in, as `Copier.expect` takes them."""


class Bandwidth:
    """Lets so many bytes a second pass, of all threads together."""

    def __init__(self, bytes_per_s: float | None, stop: threading.Event) -> None:
        self._rate = bytes_per_s
        self._stop = stop
        self._lock = threading.Lock()
        self._free = 0.0

    def wait(self, size: int) -> None:
        """Wait until so many bytes may pass. Raises MigrationStopped."""
        if self._stop.is_set():
            raise MigrationStopped
        if not self._rate:
            return
        with self._lock:
            now = time.monotonic()
            begin = max(now, self._free)
            self._free = begin + size / self._rate
        if self._stop.wait(begin - now):
            raise MigrationStopped


class CopyWorkers:
    """Copiers in threads of their own; one thread hands out and collects."""

    def __init__(
        self,
        source: Path,
        target: Path,
        report: RepositoryReport,
        *,
        bytes_per_s: float | None = None,
        progress: Callable[[int], None] = lambda _bytes: None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._places = source, target
        self._report = report
        self.moment = moment_name()
        """Of the trash that all threads share."""
        self._stop = threading.Event()
        self._bandwidth = Bandwidth(bytes_per_s, self._stop)
        self._progress = progress
        self._patience_s = patience_s
        self._tasks: queue.SimpleQueue[CopyTask | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[CopyTask, Any, Exception | None]] = queue.SimpleQueue()
        self._asked: list[tuple[bytes, float] | None] = [None] * THREADS
        self._under_way = 0
        self._copiers: list[Copier] = []
        self.placers: list[Placer] = []
        """Those of the copiers, and of whoever hands out."""
        self.left_owners = False
        self.left_privileges = False
        self._threads = [
            threading.Thread(target=self._work, args=(place,), daemon=True) for place in range(THREADS)
        ]
        for each in self._threads:
            each.start()

    def do(self, task: CopyTask) -> None:
        """Hand out a task; where many are under way, collect one before. Raises GridwrightError."""
        self.wait(MOST_AT_ONCE - 1)
        self._under_way += 1
        self._tasks.put(task)

    def wait(self, most: int = 0) -> None:
        """Collect until at most so many are under way. Raises GridwrightError where the source hangs."""
        while self._under_way > most:
            try:
                task, result, error = self._done.get(timeout=_POLL_S)
            except queue.Empty:
                self._look_for_hanging()
                continue
            self._under_way -= 1
            if error is None:
                task.done(result)
            else:
                task.failed(error)
        if not self._under_way:
            # No thread is at work: what is written next may be directories.
            for copier in self._copiers:
                copier.leave()
            # All at once: one removes what is empty of the trash that they share.
            for placer in self.placers:
                placer.settle()

    def watch(self, walk: TreeWalk) -> None:
        """Raise GridwrightError where a walk of the source hangs."""
        slowest = walk.slowest()
        if slowest is not None and slowest[1] > self._patience_s:
            raise self._silent(slowest[0])
        self._look_for_hanging()

    def _look_for_hanging(self) -> None:
        now = time.monotonic()
        for asked in self._asked:
            if asked is not None and now - asked[1] > self._patience_s:
                raise self._silent(asked[0])

    def _silent(self, path: bytes) -> GridwrightError:
        return silent_source(self._places[0], path, self._patience_s)

    def stop(self) -> None:
        """End all soon; a thread that hangs in the kernel is left behind."""
        self._stop.set()
        for _ in self._threads:
            self._tasks.put(None)
        until = time.monotonic() + _ENDING_S
        for each in self._threads:
            each.join(max(0.0, until - time.monotonic()))

    def _work(self, place: int) -> None:
        def ask(path: bytes) -> None:
            self._asked[place] = (path, time.monotonic()) if path else None

        def pass_by(size: int) -> None:
            self._bandwidth.wait(size)
            self._progress(size)

        copier: Copier | None = None
        while (task := self._tasks.get()) is not None and not self._stop.is_set():
            result, failure = None, None
            try:
                if copier is None:
                    copier = Copier(*self._places, pass_by, ask, self._report, self.moment)
                    self._copiers.append(copier)
                    self.placers.append(copier.placer)
                copier.expect(task.inodes)
                result = task.act(copier)
                self.left_owners = self.left_owners or copier.left_owners
                self.left_privileges = self.left_privileges or copier.left_privileges
            except Exception as error:
                failure = error
            self._asked[place] = None
            self._done.put((task, result, failure))
        if copier is not None:
            with suppress(OSError):
                copier.close()


def silent_source(source: Path, path: bytes, patience_s: float) -> GridwrightError:
    """The error of a source that does not answer."""
    return environment_error(
        f"the source has not answered for {patience_s:.0f} s, at {os.fsdecode(path)!a}",
        where=str(source),
        remedy="see to its server and its mount, and run the command again: it goes on",
    )
