"""Pre-content events of fanotify (Linux 6.14 and newer): somebody is about to touch a range of a file.

Sources: fanotify_init(2), fanotify_mark(2), fanotify(7) and <linux/fanotify.h> of Linux 6.14. What the kernel
does beyond them, as tried on Linux 6.18 with ext4 and XFS, stands in docs/lazy-load.md.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass

FAN_CLASS_PRE_CONTENT = 0x08
FAN_CLOEXEC = 0x01
FAN_NONBLOCK = 0x02
FAN_UNLIMITED_QUEUE = 0x10
FAN_UNLIMITED_MARKS = 0x20
FAN_MARK_ADD = 0x01
FAN_MARK_REMOVE = 0x02
FAN_MARK_DONT_FOLLOW = 0x04
FAN_PRE_ACCESS = 0x00100000
FAN_ALLOW = 0x01
FAN_DENY = 0x02
_ERRNO_SHIFT = 24
_INFO_RANGE = 6
_METADATA = struct.Struct("=IBBHQii")
_INFO_HEADER = struct.Struct("=BBH")
_RANGE = struct.Struct("=BBHIQQ")
_RESPONSE = struct.Struct("=iI")
_READ_BYTES = 64 * 1024

_libc = ctypes.CDLL(None, use_errno=True)
_libc.fanotify_init.argtypes = (ctypes.c_uint, ctypes.c_uint)
_libc.fanotify_mark.argtypes = (
    ctypes.c_int,
    ctypes.c_uint,
    ctypes.c_uint64,
    ctypes.c_int,
    ctypes.c_char_p,
)


@dataclass(frozen=True, slots=True)
class Access:
    """Somebody waits: process `pid` is about to touch `count` bytes at `offset` of a file.

    The descriptor is read-only, belongs to whoever read the event, and its number names the event in the
    answer. A truncation is an access too: of no bytes, or of the page around the new end.
    """

    descriptor: int
    pid: int
    offset: int
    count: int


def new_group() -> int:
    """A new group of pre-content events: its descriptor, which does not block and is closed by exec.

    Raises OSError: EINVAL from a kernel without such events, EPERM without the right to administer the
    system.
    """
    flags = FAN_CLASS_PRE_CONTENT | FAN_CLOEXEC | FAN_NONBLOCK | FAN_UNLIMITED_QUEUE | FAN_UNLIMITED_MARKS
    group: int = _libc.fanotify_init(flags, os.O_RDONLY | os.O_LARGEFILE | os.O_CLOEXEC)
    if group < 0:
        raise _failed()
    return group


def mark(group: int, descriptor: int) -> None:
    """Have accesses to an open file wait for an answer; only files opened from now on raise events.

    Raises OSError: EOPNOTSUPP or EINVAL where the file system has no pre-content events.
    """
    _mark(group, FAN_MARK_ADD, descriptor)


def unmark(group: int, descriptor: int) -> None:
    """Have accesses to an open file wait no longer; done where it has no mark. Raises OSError."""
    try:
        _mark(group, FAN_MARK_REMOVE, descriptor)
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise


def _mark(group: int, action: int, descriptor: int) -> None:
    # With no path the mark goes to what the descriptor has open; one of O_PATH needs its name below /proc.
    if _libc.fanotify_mark(group, action, FAN_PRE_ACCESS, descriptor, None) < 0:
        raise _failed()


def read_accesses(group: int) -> list[Access]:
    """The accesses that wait and were not read yet; none where there are none.

    Raises OSError where it is no group.
    """
    try:
        data = os.read(group, _READ_BYTES)
    except OSError as error:
        if error.errno in (errno.EBADF, errno.EINVAL):
            raise
        # None waits; or one could not be given a descriptor, and was refused by the kernel.
        return []
    return list(_parsed(data))


def _parsed(data: bytes) -> Iterator[Access]:
    place = 0
    while place + _METADATA.size <= len(data):
        length, _, _, header, mask, descriptor, pid = _METADATA.unpack_from(data, place)
        if mask & FAN_PRE_ACCESS and descriptor >= 0:
            offset, count = _range(data[place + header : place + length])
            yield Access(descriptor, pid, offset, count)
        place += length


def _range(records: bytes) -> tuple[int, int]:
    place = 0
    while place + _INFO_HEADER.size <= len(records):
        kind, _, length = _INFO_HEADER.unpack_from(records, place)
        if kind == _INFO_RANGE and place + _RANGE.size <= len(records):
            *_, offset, count = _RANGE.unpack_from(records, place)
            return offset, count
        place += max(length, _INFO_HEADER.size)
    # Without a range nothing less than all of the file is known to be meant.
    return 0, 2**63 - 1


def allow(group: int, number: int) -> bool:
    """Let the access with this number go on; False where none waits with it. Raises OSError."""
    return _respond(group, number, FAN_ALLOW)


def deny(group: int, number: int, error: int) -> bool:
    """End the access with this number with an error: EIO, EPERM, EBUSY, ETXTBSY, EAGAIN, ENOSPC or EDQUOT.

    False where none waits with this number. Raises OSError.
    """
    return _respond(group, number, FAN_DENY | (error << _ERRNO_SHIFT))


def _respond(group: int, number: int, response: int) -> bool:
    try:
        os.write(group, _RESPONSE.pack(number, response))
    except OSError as error:
        if error.errno == errno.ENOENT:
            return False
        raise
    return True


def _failed() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
