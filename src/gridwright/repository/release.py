"""Frees the space of files whose content is in the bucket; names and attributes stay.

A file is only made a name after its object was asked for again, just before; while nobody has it open, which
a lease of the kernel holds; and while it is what was exported.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

from gridwright.errors import environment_error
from gridwright.repository.content import crc64_of
from gridwright.repository.known_file import KnownFile
from gridwright.repository.making import Maker
from gridwright.repository.settings import OpenRepository, RepositoryReport, is_chosen
from gridwright.repository.store import StoreError, StoreFault

_LEASES_UNKNOWN = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK})


@dataclass(frozen=True, slots=True)
class ReleaseOptions:
    """What is to be released."""

    paths: Sequence[bytes] = ()
    until_free: float | None = None
    """Part of the file system that is to be free, 0 to 1; None releases all that was chosen."""
    unread_for_s: float = 0.0
    """Only files that nobody has read, written or changed for so long."""
    dry_run: bool = False


def release(opened: OpenRepository, options: ReleaseOptions) -> RepositoryReport:
    """Release files, those that were read longest ago first. Raises GridwrightError where the store fails."""
    report = RepositoryReport(opened.settings.name, "release", options.dry_run)
    if os.geteuid() != 0 and not opened.cover.is_lazy:
        raise environment_error(
            "nothing is released: whoever reads a released file here would get zeros",
            where=str(opened.settings.directory),
            remedy="run it as root, who can take the permissions of released files away until they are here",
        )
    begun = time.time()
    planned = 0
    for row in opened.known.rows("is_name_only = 0 AND inode <> 0 AND size > 0", order="atime_ns, path"):
        if not is_chosen(row.path, options.paths) or not _is_file(row):
            continue
        if is_enough(opened, options.until_free, planned):
            break
        try:
            if _release(opened, row, options, report):
                planned += row.blocks * 512 if options.dry_run else 0
        except StoreError as error:
            if error.fault in (StoreFault.UNREACHABLE, StoreFault.THROTTLED):
                raise
            report.problem(row.path, error.problems[0].what)
        except OSError as error:
            report.problem(row.path, f"it cannot be released: {error.strerror}")
    opened.known.flush()
    if not is_enough(opened, options.until_free, planned) and options.until_free is not None:
        report.problem("", f"less than {options.until_free:.0%} is free, and nothing more can be released")
    report.requests = dict(opened.store.requests.by_kind)
    report.seconds = time.time() - begun
    return report


def is_enough(opened: OpenRepository, until_free: float | None, planned: int) -> bool:
    """Whether as much is free as was wanted, with what a dry run would have freed."""
    if until_free is None:
        return False
    space = os.fstatvfs(opened.below.root)
    return (space.f_bavail * space.f_frsize + planned) >= until_free * space.f_blocks * space.f_frsize


def _is_file(row: KnownFile) -> bool:
    return row.attributes.is_file and row.key is not None and row.links == 1


def _release(
    opened: OpenRepository, row: KnownFile, options: ReleaseOptions, report: RepositoryReport
) -> bool:
    directory, name = opened.below.parent(row.path)
    try:
        descriptor = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=directory)
    except FileNotFoundError:
        return False
    try:
        status = os.fstat(descriptor)
        last = max(status.st_atime_ns, status.st_mtime_ns, status.st_ctime_ns) / 1e9
        if time.time() - last < options.unread_for_s:
            return False
        if (status.st_size, status.st_mtime_ns, status.st_ino) != (row.size, row.mtime_ns, row.inode):
            report.add("left, as they were changed", row.size)
            return False
        if not _is_nobodys(descriptor):
            report.add("left, as they are open", row.size)
            return False
        if status.st_ctime_ns != row.ctime_ns and not _has_content(descriptor, row):
            report.add("left, as they were changed", row.size)
            return False
        _check_object(opened, row)
        is_released = options.dry_run or _is_replaced(opened, row, directory, descriptor, report)
        report.add("released" if is_released else "left, as they are open", row.size)
        return is_released
    finally:
        # Whoever waits to open it goes on.
        os.close(descriptor)


def _is_replaced(
    opened: OpenRepository, row: KnownFile, directory: int, descriptor: int, report: RepositoryReport
) -> bool:
    """Put a name in the place of the file; False where somebody has come meanwhile, perhaps to write."""
    if fcntl.fcntl(descriptor, fcntl.F_GETLEASE) != fcntl.F_WRLCK:
        return False
    status = os.fstat(directory)
    # Who opens the old file in this instant has it with its content.
    Maker(opened, report).name_only(row)
    opened.known.put(row)
    os.utime(directory, ns=(status.st_atime_ns, status.st_mtime_ns))
    return True


def _is_nobodys(descriptor: int) -> bool:
    """Whether nobody else has the file open; until the descriptor is closed, whoever opens it waits.

    Raises OSError where the file system has no leases: then nobody can tell.
    """
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EBUSY):
            return False
        if error.errno in _LEASES_UNKNOWN:
            raise OSError(error.errno, "this file system cannot tell whether it is open") from error
        raise
    return True


def _has_content(descriptor: int, row: KnownFile) -> bool:
    return row.crc64 is not None and crc64_of(descriptor) == row.crc64


def _check_object(opened: OpenRepository, row: KnownFile) -> None:
    """Ask for the object once more. Raises StoreError where it is not the exported one."""
    head = opened.store.head(row.key or "", None).result()
    if (head.entry.etag, head.entry.size) != (row.etag, row.size):
        raise StoreError(StoreFault.CHANGED, row.key or "", "it is not what was exported")
    if row.crc64 is not None and head.crc64 is not None and head.crc64 != row.crc64:
        raise StoreError(StoreFault.DAMAGED, row.key or "", "its CRC is not that of the file")
