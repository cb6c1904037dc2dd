"""Gives what is whole its name, and takes names away: nothing that somebody else has made or written is lost.

A new name is taken only where nothing has it. What is known under a name changes places with the new file
in one step, is looked at again then, and gets its name back where it is not as it was known. It lies in the
trash meanwhile, so that no kill loses it, and goes from there when it is sure that nobody writes to it:

- On file systems of this kernel alone a lease is held from before the exchange on (F_RDLCK of fcntl(2)). It
  is refused while anybody has the file open for writing, and has who opens it so later wait. After a time of
  grace, for who had resolved the name before, the old file is removed.
- On all others, such as NFS and Lustre, no lease tells of other clients: the old file stays in the trash.

Where names cannot be exchanged (NFS, Lustre), the old file moves to the trash first: for a moment nothing has
the name, and no file is ever overwritten.

Contents that come for a file have a temporary name first, and are flushed many at a time.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import queue
import stat
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace

from gridwright.repository.below import c_library, held_at_most, remove_part, same_times, sync_beside_others
from gridwright.repository.content import write_back
from gridwright.repository.file_locks import has_lease, take_lease
from gridwright.repository.known_file import KnownFile
from gridwright.repository.settings import RepositoryReport
from gridwright.repository.store import FetchedFile
from gridwright.repository.trash import TRASHES, Trash

GRACE_S = 0.1
"""How long an old file waits for those who resolved its name before the exchange: they are between two steps
of open(2), or were taken off their core there."""
_MOST_WAITING = 96
"""Old files that wait so at a time, where so many may be open: each has two descriptors."""
_NO_REPLACE, _EXCHANGE = 1, 2
_UNKNOWN = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})


@dataclass(frozen=True, slots=True)
class _Entry:
    """A name in an open directory of the trash. Close it in the end."""

    directory: int
    name: bytes
    trash: str
    """Where that directory of the trash is, below the repository's."""

    def status(self) -> os.stat_result:
        return os.stat(self.name, dir_fd=self.directory, follow_symlinks=False)

    def remove(self) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self.name, dir_fd=self.directory)

    def close(self) -> None:
        os.close(self.directory)


@dataclass(frozen=True, slots=True)
class _Replaced:
    """A file in the trash whose lease is held, until a time of `time.monotonic`."""

    path: bytes
    entry: _Entry
    descriptor: int
    seen: os.stat_result
    until: float


class Placer:
    """Gives and takes names below one directory. One thread uses it; `settle` in the end."""

    def __init__(
        self,
        root: int,
        report: RepositoryReport,
        moment: str | None = None,
        most_waiting: int = _MOST_WAITING,
    ) -> None:
        """`root` is the open directory; `moment` names the trash as that of other threads of a command."""
        self._report = report
        self._most_waiting = held_at_most(2, most_waiting)
        self._trash = Trash(root, moment)
        self._waiting = deque[_Replaced]()

    def replace(
        self,
        path: bytes,
        directory: int,
        part: bytes,
        name: bytes,
        seen: os.stat_result,
        *,
        source: int | None = None,
        keep: bool = False,
    ) -> None:
        """Give what is whole, `part`, the name of a file that was `seen` with this status.

        Both lie in the open directory, or `part` in `source`. With `keep` the old file stays in the trash.
        Raises OSError: FileExistsError, with why, where somebody has changed it since or may be writing to
        it; then all is as it was.
        """
        source = directory if source is None else source
        with ExitStack() as opened:
            try:
                descriptor = _looked_at(directory, name, seen)
            except FileNotFoundError:
                with same_times(directory):
                    place_new(directory, part, name, source=source)
                return
            opened.callback(os.close, descriptor)
            has_lease = stat.S_ISREG(seen.st_mode) and hold_writers(descriptor)
            # The lease came after the look: who has written in between is seen now.
            _check(os.fstat(descriptor), seen)
            old = self._exchanged(opened, path, directory, part, name, seen, source)
            if old is None:
                return
            found = old.status()
            if not keep and has_lease:
                until = time.monotonic() + GRACE_S
                entry = replace(old, directory=os.dup(old.directory))
                self._waiting.append(_Replaced(path, entry, os.dup(descriptor), seen, until))
            elif _is_elsewhere(found) or (stat.S_ISLNK(seen.st_mode) and not keep):
                old.remove()
            else:
                self._note_replaced(path, old)
        self._finish(self._most_waiting)

    def _exchanged(
        self,
        opened: ExitStack,
        path: bytes,
        directory: int,
        part: bytes,
        name: bytes,
        seen: os.stat_result,
        source: int,
    ) -> _Entry | None:
        """As `_exchange`, of a `part` and a file that is as it was `seen`; another one keeps its name."""
        with same_times(directory):
            part_entry = self._take(opened, source, part, path)
            new = part_entry.status()
            try:
                old = self._exchange(opened, part_entry, directory, name, path)
            except BaseException:
                # An order to stop may come after the exchange, when the old file is here.
                with suppress(OSError):
                    if is_as(part_entry.status(), new):
                        part_entry.remove()
                raise
            if old is not None and not is_as(old.status(), seen):
                self._put_back(opened, old, directory, name, path, new)
                raise _changed()
        return old

    def remove(self, path: bytes, directory: int, name: bytes, seen: os.stat_result) -> None:
        """Move a file that was `seen` with this status to the trash; of several names one just goes.

        Raises OSError: FileExistsError where it is another one, or was changed; then it has its name.
        """
        with ExitStack() as opened:
            opened.callback(os.close, _looked_at(directory, name, seen))
            opened.enter_context(same_times(directory))
            old = self._take(opened, directory, name, path)
            found = old.status()
            if not is_as(found, seen):
                try:
                    place_new(directory, old.name, name, source=old.directory)
                except FileExistsError:
                    self._say_two(path, old)
                raise _changed()
            if _is_elsewhere(found):
                old.remove()

    def plan(
        self,
        path: bytes,
        directory: int,
        name: bytes,
        seen: os.stat_result,
        *,
        keep: bool,
        is_elsewhere: bool,
    ) -> None:
        """Say what `replace` would leave in the trash: no file that has another name by then."""
        if is_elsewhere or (stat.S_ISLNK(seen.st_mode) and not keep):
            return
        if not keep:
            with suppress(FileExistsError), ExitStack() as opened:
                descriptor = _looked_at(directory, name, seen)
                opened.callback(os.close, descriptor)
                if hold_writers(descriptor):
                    return
        self._report.note_of(
            "would be replaced, and what is there, which others may have open, would lie below "
            f"{TRASHES}, by the time of the run",
            path,
        )

    def settle(self) -> None:
        """Remove old files that nobody writes to, when their time of grace is over; name the others."""
        self._finish(0)
        self._trash.tidy()

    def _finish(self, most: int) -> None:
        while self._waiting and (len(self._waiting) > most or self._waiting[0].until <= time.monotonic()):
            time.sleep(max(0.0, self._waiting[0].until - time.monotonic()))
            each = self._waiting.popleft()
            try:
                if has_lease(each.descriptor, fcntl.F_RDLCK) and is_as(os.fstat(each.descriptor), each.seen):
                    each.entry.remove()
                else:
                    self._say_two(each.path, each.entry)
            finally:
                each.entry.close()
                os.close(each.descriptor)

    def _take(self, opened: ExitStack, directory: int, name: bytes, path: bytes) -> _Entry:
        entry = _Entry(*self._trash.take(directory, name, path))
        opened.callback(entry.close)
        return entry

    def _exchange(
        self, opened: ExitStack, entry: _Entry, directory: int, name: bytes, path: bytes
    ) -> _Entry | None:
        """Have an entry of the trash and what has a name change places; where that is now, None for nothing.

        Raises OSError: FileExistsError where something else got the name meanwhile.
        """
        if c_library().renameat2(entry.directory, entry.name, directory, name, _EXCHANGE) == 0:
            return entry
        number = ctypes.get_errno()
        if number == errno.ENOENT:
            place_new(directory, entry.name, name, source=entry.directory)
            return None
        if number not in _UNKNOWN:
            raise OSError(number, os.strerror(number))
        try:
            old = self._take(opened, directory, name, path)
        except FileNotFoundError:
            old = None
        try:
            place_new(directory, entry.name, name, source=entry.directory)
        except FileExistsError:
            if old is not None:
                self._say_two(path, old)
            raise
        except BaseException:
            # Nothing has the name: the old file gets it back, unless the new one has it after all.
            if old is not None:
                with suppress(OSError):
                    place_new(directory, old.name, name, source=old.directory)
            raise
        return old

    def _put_back(
        self,
        opened: ExitStack,
        old: _Entry,
        directory: int,
        name: bytes,
        path: bytes,
        new: os.stat_result,
    ) -> None:
        """Give a file its name back; what has it by now goes, where it is the `new` file that nobody has."""
        try:
            again = self._exchange(opened, old, directory, name, path)
        except FileExistsError:
            return
        if again is not None and is_as(again.status(), new):
            again.remove()
        elif again is not None:
            self._say_two(path, again)

    def _note_replaced(self, path: bytes, old: _Entry) -> None:
        self._report.note_of(
            f"were replaced, and what was there, which others may have open, lies in {old.trash}",
            path,
        )

    def _say_two(self, path: bytes, entry: _Entry) -> None:
        self._report.problem(
            path,
            f"somebody wrote to it or made another one meanwhile: both are there, one in {entry.trash};"
            " compare them",
        )


def place_new(
    directory: int, part: bytes, name: bytes, *, source: int | None = None, descriptor: int | None = None
) -> None:
    """Give what is whole a name that nothing has. Raises OSError: FileExistsError where something has it.

    `part` lies in the open directory `source`, or in the same one; it may be open as `descriptor`.
    """
    source = directory if source is None else source
    if renamed_new(source, part, directory, name):
        return
    # NFS and some others have no such rename; of two names the second is never made over another file.
    os.link(part, name, src_dir_fd=source, dst_dir_fd=directory, follow_symlinks=False)
    if descriptor is not None:
        with suppress(OSError):
            _reopen(descriptor, directory, name)
    os.unlink(part, dir_fd=source)


def _reopen(descriptor: int, directory: int, name: bytes) -> None:
    """Have a descriptor of a file be open by another name of it. Raises OSError.

    NFS and FUSE keep a removed name that is open as another one (.nfs…, .fuse_hidden…), until it is closed:
    that would give the directory a new time after it had its own back.
    """
    again = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    try:
        if os.path.samestat(os.fstat(again), os.fstat(descriptor)):
            os.dup2(again, descriptor, inheritable=False)
    finally:
        os.close(again)


def renamed_new(source: int, part: bytes, directory: int, name: bytes) -> bool:
    """Rename a file or a directory to a name that nothing has; False where there is no such rename.

    Raises OSError: FileExistsError where something has it.
    """
    if c_library().renameat2(source, part, directory, name, _NO_REPLACE) == 0:
        return True
    number = ctypes.get_errno()
    if number not in _UNKNOWN:
        raise OSError(number, os.strerror(number))
    return False


def name_new(directory: int, descriptor: int, name: bytes) -> None:
    """Give an open file that has no name one in an open directory. Raises OSError as `place_new`."""
    os.link(b"/proc/self/fd/%d" % descriptor, name, dst_dir_fd=directory)


def _looked_at(directory: int, name: bytes, seen: os.stat_result) -> int:
    """A descriptor of the file that was seen, which is open for reading where it is one and may be.

    Raises OSError: FileExistsError where another file has its name, or it was changed.
    """
    flags = os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        reading = os.O_RDONLY | os.O_NONBLOCK if stat.S_ISREG(seen.st_mode) else os.O_PATH
        descriptor = os.open(name, flags | reading, dir_fd=directory)
    except PermissionError:
        descriptor = os.open(name, flags | os.O_PATH, dir_fd=directory)
    except BlockingIOError:
        raise _open() from None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            # A link or a pipe is there.
            raise _changed() from None
        raise
    try:
        if not is_untouched(os.fstat(descriptor), seen):
            raise _changed()
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def is_as(status: os.stat_result, seen: os.stat_result) -> bool:
    """Whether two are one file with the same content, as far as times tell; a rename changes the ctime."""
    return all(
        getattr(status, each) == getattr(seen, each)
        for each in ("st_dev", "st_ino", "st_size", "st_mtime_ns")
    ) and stat.S_IFMT(status.st_mode) == stat.S_IFMT(seen.st_mode)


def is_untouched(status: os.stat_result, seen: os.stat_result) -> bool:
    """As `is_as`, and with its ctime, unless the file has several names.

    Who takes one of them, as this command may have done, changes that, too.
    """
    return is_as(status, seen) and (status.st_ctime_ns == seen.st_ctime_ns or seen.st_nlink > 1)


def _is_elsewhere(status: os.stat_result) -> bool:
    """Whether a file in the trash has another name, so that it needs none there."""
    return status.st_nlink > 1


def _check(status: os.stat_result, seen: os.stat_result) -> None:
    if not is_as(status, seen):
        raise _changed()


def _changed() -> FileExistsError:
    return FileExistsError(errno.EEXIST, "somebody has changed it meanwhile; it was left as it is")


def _open() -> FileExistsError:
    return FileExistsError(errno.EEXIST, "somebody has it open for writing; it was left as it is")


def hold_writers(descriptor: int) -> bool:
    """Have who opens a file for writing wait; False where no such lease holds for all, or for this user.

    Raises FileExistsError where somebody has it open for writing, or mapped so.
    """
    try:
        is_taken = take_lease(descriptor, fcntl.F_RDLCK)
    except OSError:
        # Another file system, a descriptor of O_PATH, or somebody else's file.
        return False
    if not is_taken:
        raise _open()
    return True


FLUSHED_FILES, FLUSHED_BYTES = 192, 64 << 20
"""Files that are whole, or their bytes, from which on a flush is worth while; fewer where few may be open."""
ALONE_BYTES = 1 << 20
"""Bytes of files, in the mean, that are flushed one by one: that takes no longer than to write them."""
_HOLE = 64 << 10
"""Bytes of zeros that become a hole in a file that had holes."""


class HeldDirectory:
    """An open directory, closed when the last one of those that hold it lets go. One thread uses it."""

    def __init__(self, path: bytes, descriptor: int) -> None:
        """Hold a copy of the descriptor."""
        self.path = path
        self.descriptor = os.dup(descriptor)
        self._held = 1

    def hold(self) -> HeldDirectory:
        """Hold it once more."""
        self._held += 1
        return self

    def let_go(self) -> None:
        """Hold it once less."""
        self._held -= 1
        if not self._held:
            os.close(self.descriptor)


@dataclass(frozen=True, slots=True)
class BeforeName:
    """A new file just before it gets its name, after which users may change it."""

    status: os.stat_result
    is_held: bool
    """By a lease: whoever opens it waits."""


@dataclass(slots=True)
class Fetching:
    """One file whose content is on its way."""

    row: KnownFile
    part: bytes
    """Its name until it is whole; empty for a file without one."""
    held: HeldDirectory
    name: bytes
    descriptor: int
    """-1 for one that is made as its content comes."""
    before: os.stat_result | None
    """What had its name when it was begun."""
    future: Future[str | None] | Future[FetchedFile] | None = None
    before_name: BeforeName | None = None
    """What it was when it got its name."""
    attempt: int = 1
    failure: OSError | None = None
    """Why it is not on disk, though it was flushed."""
    is_closed: bool = False

    @property
    def directory(self) -> int:
        """Where it lies."""
        return self.held.descriptor

    def drop(self) -> None:
        """Leave nothing of it, unless it was closed; while its content may come, the file stays open.

        It is closed before its name goes: FUSE and NFS keep one that is open until then, which would give the
        directory a new time.
        """
        is_over = self.future is None or self.future.done()
        if is_over:
            self._close_file()
        if self.part and not self.is_closed:
            with suppress(OSError):
                remove_part(self.directory, self.part)
        if is_over:
            self.close()

    def fetched(self) -> str | None:
        """Wait until the content is there; its CRC-64/NVME. Raises StoreError, OSError."""
        found = self.future.result() if self.future is not None else None
        if isinstance(found, tuple):
            made, crc64 = found
            self.descriptor = -1 if made is None else made
            return crc64
        return found

    def close(self) -> None:
        """Close what it holds open, once: its numbers may be those of other files afterwards."""
        if self.is_closed:
            return
        self.is_closed = True
        self._close_file()
        self.held.let_go()

    def _close_file(self) -> None:
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


@dataclass(slots=True)
class Flushed:
    """Files that a flush is for; `future` has its OSError where it failed of all."""

    files: list[Fetching]
    future: Future[None]


Arrived = queue.SimpleQueue[Fetching | Flushed]


class Flushing:
    """Has whole files flushed in a thread of its own while others are fetched: one flush at a time.

    One flush of the file system for many small files: a flush for each would take most of the time. Large
    ones are flushed each: a flush of the file system waits for whatever others write there, and for the
    ranges that are just coming, too.
    """

    def __init__(self, descriptor: int, arrived: Arrived) -> None:
        """`descriptor` is of any file there; what was flushed goes to `arrived`."""
        self._descriptor = descriptor
        self._arrived = arrived
        self.most_held = held_at_most()
        self._thread = ThreadPoolExecutor(1, "flush")
        self.whole: list[Fetching] = []
        """Fetched and checked, and waiting for a flush."""
        self._bytes = 0
        self._is_flushing = False

    def add(self, fetching: Fetching) -> None:
        """Have one flushed with others."""
        self.whole.append(fetching)
        self._bytes += fetching.row.size

    def must_wait(self, under_way: int) -> bool:
        """Whether nothing may be begun before the flush has ended."""
        return self._is_flushing and (
            len(self.whole) + under_way >= self.most_held or self._bytes >= 4 * FLUSHED_BYTES
        )

    def begin(self, *, even_few: bool = False) -> bool:
        """Begin a flush if it is worth while, or there is anything; whether one is under way."""
        many = min(FLUSHED_FILES, self.most_held // 2)
        is_worth = len(self.whole) >= many or self._bytes >= FLUSHED_BYTES
        if not self._is_flushing and self.whole and (is_worth or even_few):
            self._is_flushing = True
            files, size = self.whole, self._bytes
            self.whole, self._bytes = [], 0
            future = self._thread.submit(self._flush, files, size)
            future.add_done_callback(lambda done: self._arrived.put(Flushed(files, done)))
        return self._is_flushing

    def _flush(self, files: Sequence[Fetching], size: int) -> None:
        are_written = size < len(files) * ALONE_BYTES and sync_beside_others(self._descriptor)
        for each in files:
            try:
                if are_written:
                    # What could not be, each file tells: kernels before 5.8 told nothing until now.
                    write_back(each.descriptor)
                else:
                    os.fsync(each.descriptor)
            except OSError as error:
                each.failure = error

    def ended(self) -> None:
        """What `arrived` had was taken: the next flush may begin."""
        self._is_flushing = False

    def close(self) -> None:
        """Wait for the thread; what it was to flush is in `arrived` then."""
        self._thread.shutdown()


@contextmanager
def flushing(descriptor: int, arrived: Arrived) -> Iterator[Flushing]:
    """Flush files; what is whole where that is broken off is the caller's to drop."""
    found = Flushing(descriptor, arrived)
    try:
        yield found
    finally:
        found.close()


def dig_holes(descriptor: int, size: int) -> None:
    """Free what is only zeros in a file that had holes, in pieces of 64 KiB."""
    library = c_library()
    keep_size, punch_hole = 1, 2
    zeros = bytes(_HOLE)
    for offset in range(0, size, _HOLE):
        if os.pread(descriptor, _HOLE, offset) == zeros[: min(_HOLE, size - offset)]:
            length = ctypes.c_int64(min(_HOLE, size - offset))
            library.fallocate64(descriptor, keep_size | punch_hole, ctypes.c_int64(offset), length)
