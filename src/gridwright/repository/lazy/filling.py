"""Content is written into a file that is a name only, and never over what a user wrote.

It is durable before anybody may know of it, and never makes the file longer.

The order is what a kill or a loss of power at any instant needs: the time that the file had, content, its
time again, and then the bits that say that the content is here, which become durable after the content. Only
then may anybody read the range, or write to it.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from dataclasses import replace

from gridwright.repository.lazy.loaded_ranges import LoadedRanges, clear_ranges, write_ranges
from gridwright.repository.lazy.open_files import is_open_for_writing
from gridwright.repository.references import ContentPlace, FileState, write_state

_FALLOC_FL_KEEP_SIZE = 1
_MAP_FAILED = ctypes.c_void_p(-1).value

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int64,
)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


def fill(
    descriptor: int, state: FileState, ranges: LoadedRanges, first: int, count: int, content: bytes
) -> None:
    """Write the content of chunks that follow each other, and note that they are here.

    `descriptor` is read-only; nobody's access to the file may be let go on meanwhile. The file keeps its
    mtime unless somebody has it open for writing, who may be writing right now: then it gets a new one.
    Chunks beyond a new end of the file are dropped. Raises OSError (ENOSPC); then none of the chunks is
    noted.
    """
    note_cut(descriptor, state, ranges)
    offset, length = ranges.bytes_of(first, count)
    if length > 0:
        before = os.fstat(descriptor)
        keeps_time = not is_open_for_writing(descriptor)
        writable = os.open(f"/proc/self/fd/{descriptor}", os.O_RDWR | os.O_CLOEXEC)
        try:
            if keeps_time:
                # Who finds this after a crash gives the file its time back.
                ranges.mtime_ns = before.st_mtime_ns
                write_ranges(writable, ranges, state.reference)
            try:
                _write_within(writable, offset, memoryview(content)[:length])
            finally:
                # A slow disk takes longer to flush than who stops the service waits, and a disk may be full.
                if keeps_time:
                    os.utime(writable, ns=(before.st_atime_ns, before.st_mtime_ns))
            os.fdatasync(writable)
            ranges.mtime_ns = None
            # What was cut off meanwhile needs no content.
            ranges.limit = min(ranges.limit, os.fstat(writable).st_size)
            durable = replace(ranges, here=bytearray(ranges.here))
            durable.add(first, count)
            write_ranges(writable, durable, state.reference)
            os.fsync(writable)
            ranges.here = durable.here
        finally:
            os.close(writable)


def finish(descriptor: int, state: FileState) -> None:
    """Note that all content is here. Raises OSError."""
    write_state(
        descriptor,
        FileState(state.reference, ContentPlace.EXPORTED, mtime_ns=state.mtime_ns, crc64=state.crc64),
    )
    os.fsync(descriptor)
    clear_ranges(descriptor)


def note_cut(descriptor: int, state: FileState, ranges: LoadedRanges) -> None:
    """Note durably where a file ends that was cut: what grows there again is zeros, and not the object's.

    A file grows only after an access that was asked for, so that each cut is seen before it is hidden. Raises
    OSError.
    """
    size = os.fstat(descriptor).st_size
    if size < ranges.limit:
        ranges.limit = size
        write_ranges(descriptor, ranges, state.reference)
        os.fsync(descriptor)


def recover(descriptor: int, state: FileState, ranges: LoadedRanges, *, nobody_wrote: bool) -> None:
    """End a writing of content that was interrupted.

    Where nobody can have written since, the file gets the time back that it had before.

    Otherwise the file keeps its new time and counts as changed, which loses nothing. Raises OSError.
    """
    if ranges.mtime_ns is None:
        return
    if nobody_wrote:
        os.utime(descriptor, ns=(os.fstat(descriptor).st_atime_ns, ranges.mtime_ns))
    ranges.mtime_ns = None
    write_ranges(descriptor, ranges, state.reference)


def _write_within(writable: int, offset: int, content: memoryview) -> None:
    """Write through a mapping: it cannot make a file longer that somebody cuts just now, as pwrite can."""
    length = len(content)
    if _libc.fallocate(writable, _FALLOC_FL_KEEP_SIZE, offset, length) < 0:
        number = ctypes.get_errno()
        if number != errno.EOPNOTSUPP:
            raise OSError(number, os.strerror(number))
    # Python's own mmap would hold the interpreter while the event of this very call waits for its answer.
    address = _libc.mmap(None, length, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, writable, offset)
    if address in (None, _MAP_FAILED):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    try:
        source = os.memfd_create("gridwright-content", os.MFD_CLOEXEC)
        try:
            _write_all(source, content)
            _copy_into(source, address, length, writable, offset)
        finally:
            os.close(source)
    finally:
        _libc.munmap(address, length)


def _write_all(file: int, content: memoryview) -> None:
    done = 0
    while done < len(content):
        done += os.write(file, content[done:])


def _copy_into(source: int, address: int, length: int, file: int, offset: int) -> None:
    # The kernel copies: a page beyond the end is an EFAULT to it, where our own store would be a SIGBUS.
    target = memoryview((ctypes.c_char * length).from_address(address)).cast("B")
    done = 0
    while done < length:
        try:
            copied = os.preadv(source, [target[done:]], done)
        except OSError as error:
            if error.errno == errno.EFAULT and os.fstat(file).st_size < offset + length:
                return
            if error.errno == errno.EFAULT:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
            raise
        if copied == 0:
            raise OSError(errno.EIO, "the content is shorter than its chunk")
        done += copied
