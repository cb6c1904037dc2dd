"""The content of a file as it is read for an export, and what proves that two contents are the same."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import stat
import time
from collections.abc import Callable

from gridwright.beneath import status_within
from gridwright.repository.below import c_library
from gridwright.repository.file_clock import TICK_NS, UNKNOWN, FileClock
from gridwright.repository.known_file import stamp_of
from gridwright.repository.s3.parts import part_bytes
from gridwright.repository.store import ObjectHead, crc64

CHUNK = 4 << 20
_WRITTEN = 1 | 2 | 4
"""What is being written, begin to write the rest, and wait for it: sync_file_range(2)."""


class Torn(Exception):
    """The file changed while it was read."""


class FileContent:
    """An upload of an open file, which is given up when the file changes before the last byte has left.

    So an object holds what the file was at one moment, or is not made. `crc64` is known at the end.
    """

    def __init__(self, descriptor: int, clock: FileClock | None = None) -> None:
        """`clock` is that of its file system; without one, this machine's has to do. Raises OSError."""
        self._descriptor = descriptor
        write_back(descriptor)
        self.status = settled(descriptor) if clock is None else clock.settled(descriptor)
        self.ctime_ns = UNKNOWN if clock is None else clock.recorded_ctime(self.status)
        self._offset = 0
        self._crc64 = 0

    @property
    def size(self) -> int:
        """Bytes in all."""
        return self.status.st_size

    @property
    def open_file(self) -> tuple[int, tuple[int, int, int, int]]:
        """Its descriptor, and what it was when it was opened; the inode is one without a sign."""
        _, size, mtime_ns, ctime_ns, _ = stamp_of(self.status)
        return self._descriptor, (size, mtime_ns, ctime_ns, self.status.st_ino)

    @property
    def crc64(self) -> str:
        """CRC-64/NVME of what was read, in 16 hexadecimal digits."""
        return f"{self._crc64:016x}"

    @property
    def is_read(self) -> bool:
        """Whether all of it was read."""
        return self._offset == self.size

    def read_at(self, buffer: memoryview, offset: int) -> None:
        """Fill the whole buffer. Raises Torn where the file has become shorter, and OSError."""
        filled = 0
        while filled < len(buffer):
            got = os.preadv(self._descriptor, [buffer[filled:]], offset + filled)
            if not got:
                raise Torn
            filled += got

    def sent(self, crc64: int) -> None:
        """Take note that all of it was read in ranges, with this CRC-64/NVME."""
        self._offset, self._crc64 = self.size, crc64

    def check(self) -> None:
        """Raise Torn where the file was changed since it was opened."""
        if not is_same_moment(self.status, os.fstat(self._descriptor)):
            raise Torn


def write_back(descriptor: int) -> None:
    """Write what is in memory alone of an open file, so that its times tell of all later changes.

    A program that has mapped the file changes its times with the first change after a page was written, and
    with no other one (mmap(2)). On tmpfs, which writes nothing, such changes have no times. Raises OSError.
    """
    if c_library().sync_file_range(descriptor, ctypes.c_int64(0), ctypes.c_int64(0), _WRITTEN) != 0:
        number = ctypes.get_errno()
        if number not in (errno.EINVAL, errno.ESPIPE, errno.ENOSYS):
            raise OSError(number, os.strerror(number))
        os.fsync(descriptor)


def settled(descriptor: int) -> os.stat_result:
    """The status of an open file after this machine's clock has ticked since its last change."""
    status = os.fstat(descriptor)
    young = TICK_NS - (time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns))
    if 0 < young <= TICK_NS:
        time.sleep(young / 1e9)
        status = os.fstat(descriptor)
    return status


def is_same_moment(before: os.stat_result, after: os.stat_result) -> bool:
    """Whether a file was not changed between two looks at it. Tools set the mtime back, never the ctime."""
    return stamp_of(before) == stamp_of(after)


def open_for_reading(path: bytes, directory: int) -> int:
    """Open a file below an open directory: no symbolic link is followed, nothing but a file is opened.

    Where it is allowed, reading leaves the atime alone. Raises OSError, also for what is no file any more, or
    lies in another file system.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags | os.O_NOATIME, dir_fd=directory)
    except PermissionError:
        descriptor = os.open(path, flags, dir_fd=directory)
    except BlockingIOError:
        held = "another program holds a lease on it, as servers of Samba and NFS do: run the command again"
        raise OSError(errno.EBUSY, held, os.fsdecode(path)) from None
    try:
        if not stat.S_ISREG(status_within(directory, descriptor, path).st_mode):
            raise FileNotFoundError(errno.ENOENT, "it is no file any more", os.fsdecode(path))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def crc64_of(descriptor: int) -> str:
    """CRC-64/NVME of an open file, in 16 hexadecimal digits."""
    state = [0]

    def add(chunk: memoryview) -> None:
        state[0] = crc64(chunk, state[0])

    _read(descriptor, add)
    return f"{state[0]:016x}"


def etag_of(descriptor: int, step: int | None = None) -> str:
    """The ETag that S3 gives this content: its MD5, or that of the MD5s of its parts of this many bytes."""
    if step is None:
        whole = hashlib.md5(usedforsecurity=False)
        _read(descriptor, whole.update)
        return whole.hexdigest()
    size, digests, count = os.fstat(descriptor).st_size, b"", 0
    while count * step < size:
        part = hashlib.md5(usedforsecurity=False)
        _read(descriptor, part.update, count * step, step)
        digests += part.digest()
        count += 1
    return f"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{count}"


def is_same_content(descriptor: int, head: ObjectHead) -> bool | None:
    """Whether an open file and an object have the same content; None where the store's checksums cannot tell.

    A CRC of the whole object tells, and so does an ETag that is an MD5. That of an object in parts tells only
    where it equals: other tools cut other parts.
    """
    if os.fstat(descriptor).st_size != head.entry.size:
        return False
    if head.crc64 is not None:
        return crc64_of(descriptor) == head.crc64
    if etag_of(descriptor, part_bytes(head.entry.size) if head.parts else None) == head.entry.etag:
        return True
    return False if head.has_md5 and not head.parts else None


def _read(
    descriptor: int, what: Callable[[memoryview], object], start: int = 0, length: int | None = None
) -> None:
    offset, end = start, os.fstat(descriptor).st_size if length is None else start + length
    buffer = memoryview(bytearray(max(0, min(CHUNK, end - start))))
    while True:
        wanted = min(CHUNK, end - offset)
        got = os.preadv(descriptor, [buffer[:wanted]], offset) if wanted > 0 else 0
        if not got:
            return
        what(buffer[:got])
        offset += got
