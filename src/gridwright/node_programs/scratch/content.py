"""Finds out what is on a disk without writing to it: signatures, superblocks, empty ends, who holds it.

Blank is a disk on which libblkid knows no signature and whose ends are empty as well: a database that uses a
raw disk leaves no signature, only bytes. Clouds hand out instance stores that read as zeros.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from typing import Any

from gridwright.node_programs.scratch.commands import run, within
from gridwright.node_programs.scratch.disks import Content
from gridwright.node_programs.scratch.superblocks import (
    FILESYSTEM_BYTES,
    MD_BYTES,
    MD_OFFSET,
    FileSystemSuperblock,
    file_system,
    md_member,
)

END_BYTES = 4 << 20
"""How much of each end counts: labels of all that libblkid knows lie within, and the first bytes of a first
partition (at 1 MiB), for whoever lost a partition table and wants the data back."""
_READ_S = 30.0
"""For 8 MiB of a disk that works; one that does not answer is a finding, not a hang."""
_PIECE = 1 << 20


def inspect(path: str) -> Content:
    """Read a disk. Never raises: `error` tells what cannot be read, and nothing is done to such a disk."""
    try:
        seen = within(_READ_S, lambda: _look(path))
    except (OSError, TimeoutError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return Content(error=f"it cannot be read: {reason}")
    signed = run(["wipefs", "--no-act", "--parsable", path], _READ_S)
    if not signed.well:
        return Content(error=str(signed), busy=seen["busy"])
    return Content(
        signatures=signatures(signed.output),
        zero_ends=seen["zero"],
        md=md_member(bytes.fromhex(seen["md"])),
        filesystem=file_system(bytes.fromhex(seen["filesystem"])),
        busy=seen["busy"],
    )


def inspect_array(path: str) -> FileSystemSuperblock | None:
    """The file system on a running md device; None where there is none or it does not answer."""
    try:
        return file_system(bytes.fromhex(within(_READ_S, lambda: _look(path))["filesystem"]))
    except (OSError, TimeoutError):
        return None


def signatures(parsable: str) -> tuple[tuple[int, str], ...]:
    """Parse `wipefs --parsable`: lines of offset,uuid,label,type below one that begins with #."""
    found = []
    for line in parsable.splitlines():
        fields = line.split(",")
        if line.startswith("#") or not line.strip():
            continue
        # What cannot be read is a signature all the same, and at the start: the disk is not blank.
        offset = int(fields[0], 16) if re.fullmatch(r"0x[0-9a-f]+", fields[0]) else 0
        found.append((offset, fields[-1].strip()))
    return tuple(sorted(found))


def _look(path: str) -> dict[str, Any]:
    """In a child: plain data. Raises OSError."""
    disk = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        # md writes superblocks past the page cache of its members; what is cached may be old.
        with contextlib.suppress(OSError):
            os.posix_fadvise(disk, 0, 0, os.POSIX_FADV_DONTNEED)
        size = os.lseek(disk, 0, os.SEEK_END)
        md = os.pread(disk, MD_BYTES, MD_OFFSET)
        member = md_member(md)
        start = member.data_offset if member is not None and member.role == 0 else 0
        return {
            "zero": all(_is_empty(disk, *piece) for piece in _ends(size)),
            "md": md.hex(),
            "filesystem": os.pread(disk, FILESYSTEM_BYTES, start).hex(),
            "busy": _is_busy(path),
        }
    finally:
        os.close(disk)


def _ends(size: int) -> list[tuple[int, int]]:
    """Offset and length of both ends, once where they meet."""
    if size <= 2 * END_BYTES:
        return [(0, size)]
    return [(0, END_BYTES), (size - END_BYTES, END_BYTES)]


def _is_empty(disk: int, start: int, length: int) -> bool:
    at = start
    while at < start + length:
        piece = os.pread(disk, min(_PIECE, start + length - at), at)
        if not piece or piece not in (bytes(len(piece)), b"\xff" * len(piece)):
            return False
        at += len(piece)
    return True


def _is_busy(path: str) -> bool:
    """An exclusive open is refused while anything has claimed the disk (Linux block/bdev.c, bd_may_claim)."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        return True
    return False
