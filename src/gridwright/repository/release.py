"""Frees the space of files whose content is in the bucket; names and attributes stay.

A file only gives its name to a placeholder after its object was asked for again, just before; while nobody
has it open, which a lease of the kernel holds; and while it is what was exported. It goes when nobody has
come to open it for a time of grace (`aside.py`).
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from gridwright.errors import environment_error
from gridwright.repository.aside import FACT, AsideDirectory
from gridwright.repository.content import crc64_of
from gridwright.repository.extended import read_xattrs
from gridwright.repository.known_file import KnownFile
from gridwright.repository.lazy.open_files import give_lease_back, has_lease, take_lease
from gridwright.repository.making import Maker, note_here, part_name
from gridwright.repository.object_format import kept_mode
from gridwright.repository.placing import place_new
from gridwright.repository.settings import OpenRepository, RepositoryReport, is_chosen
from gridwright.repository.store import StoreError, StoreFault

GRACE_S = 0.1
"""How long a file waits for those who resolved its name before a placeholder got it: they are between two
steps of open(2), or were taken off their core there."""
_MOST_ASIDE = 64
"""Files that wait so at a time: each has four descriptors."""
_CHANGED, _OPEN = "left, as they were changed", "left, as they are open"
_LINKED = "left, as they have another name"
"""A placeholder would take one of the names alone, and the file keep the others."""
_Attributes: TypeAlias = tuple[int, int, int, int, int, bytes | None]


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
    _Release(opened, options, report).run()
    report.requests = dict(opened.store.requests.by_kind)
    report.seconds = time.time() - begun
    return report


@dataclass(frozen=True, slots=True)
class _FileAside:
    """A file that has given its name away, and waits."""

    row: KnownFile
    """What is true of its placeholder."""
    descriptor: int
    """The file, leased."""
    placeholder: int
    aside: AsideDirectory
    attributes: _Attributes
    blocks: int
    until: float
    """A time of `time.monotonic`."""

    def close(self) -> None:
        """Close all; whoever waits to open the file goes on."""
        os.close(self.descriptor)
        os.close(self.placeholder)
        self.aside.close()


class _Release:
    def __init__(self, opened: OpenRepository, options: ReleaseOptions, report: RepositoryReport) -> None:
        self._opened = opened
        self._options = options
        self._report = report
        self._maker = Maker(opened, report)
        self._waiting = deque[_FileAside]()
        self._planned_bytes = 0
        self._is_all_placed = opened.known.fact(FACT) != "1"

    def run(self) -> None:
        """Release until enough is free, or nothing more can be released."""
        if not self._options.dry_run:
            self._opened.known.set_fact(FACT, "1")
        try:
            for row in self._opened.known.rows(
                "is_name_only = 0 AND inode <> 0 AND size > 0", order="atime_ns, path"
            ):
                if is_chosen(row.path, self._options.paths) and _is_file(row):
                    self._finish(_MOST_ASIDE - 1)
                    if self._is_enough():
                        break
                    self._try(row)
        finally:
            self._finish(0)
            self._opened.known.flush()
        if not self._options.dry_run and self._is_all_placed:
            self._opened.known.set_fact(FACT, "0")
        if not self._is_enough() and self._options.until_free is not None:
            self._report.problem(
                "", f"less than {self._options.until_free:.0%} is free, and nothing more can be released"
            )

    def _is_enough(self) -> bool:
        """Whether as much is free as was wanted, with what a dry run would have freed."""
        waiting = sum(each.blocks for each in self._waiting) * 512
        if self._options.until_free is None or not self._would_be_enough(waiting):
            return False
        # Some of them may get their names back.
        self._finish(0)
        return self._would_be_enough(0)

    def _would_be_enough(self, more_bytes: int) -> bool:
        space = os.fstatvfs(self._opened.below.root)
        free = space.f_bavail * space.f_frsize + self._planned_bytes + more_bytes
        return free >= (self._options.until_free or 0.0) * space.f_blocks * space.f_frsize

    def _try(self, row: KnownFile) -> None:
        try:
            self._release(row)
        except StoreError as error:
            if error.fault in (StoreFault.UNREACHABLE, StoreFault.THROTTLED):
                raise
            self._report.problem(row.path, error.problems[0].what)
        except OSError as error:
            # The next command puts back what may lie beside it.
            self._is_all_placed = False
            self._report.problem(row.path, f"it cannot be released: {error.strerror}")

    def _release(self, row: KnownFile) -> None:
        directory, name = self._opened.below.parent(row.path)
        try:
            descriptor = os.open(
                name, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=directory
            )
        except FileNotFoundError:
            return
        is_aside = False
        try:
            if _was_touched(os.fstat(descriptor), self._options.unread_for_s):
                return
            if not take_lease(descriptor):
                self._report.add(_OPEN, row.size)
                return
            # Who has written before the lease is seen now; nobody does after it.
            status = os.fstat(descriptor)
            if status.st_nlink != 1:
                self._report.add(_LINKED, row.size)
            elif not _is_as_exported(descriptor, status, row):
                self._report.add(_CHANGED, row.size)
            else:
                _check_object(self._opened, row)
                if self._options.dry_run:
                    self._report.add("released", row.size)
                    self._planned_bytes += row.blocks * 512
                else:
                    is_aside = self._set_aside(row, directory, name, descriptor)
        finally:
            if not is_aside:
                # Whoever waits to open it goes on.
                os.close(descriptor)

    def _set_aside(self, row: KnownFile, directory: int, name: bytes, descriptor: int) -> bool:
        """Give the name of a leased file to a placeholder; False where somebody has come meanwhile."""
        made, attributes = replace(row), _attributes(descriptor)
        with contextlib.ExitStack() as opened:
            aside = AsideDirectory.make(directory)
            opened.callback(aside.close)
            try:
                part = part_name()
                placeholder = self._maker.unplaced_name(made, aside.descriptor, part)
                opened.callback(os.close, placeholder)
                place_new(aside.descriptor, part, name)
                is_nobodys = has_lease(descriptor) and take_lease(placeholder)
            except OSError:
                aside.remove(name)
                raise
            if not is_nobodys:
                aside.remove(name)
                self._report.add(_OPEN, row.size)
                return False
            aside.swap(name, name)
            if aside.inode(name) != row.inode:
                # Somebody has given the name to another file.
                aside.swap(name, name)
                aside.remove(name)
                self._report.add(_CHANGED, row.size)
                return False
            note_here(made, os.fstat(placeholder))
            give_lease_back(placeholder)
            opened.pop_all()
        until = time.monotonic() + GRACE_S
        self._waiting.append(_FileAside(made, descriptor, placeholder, aside, attributes, row.blocks, until))
        return True

    def _finish(self, most: int) -> None:
        """Remove files whose time of grace is over, and wait until no more than so many have any left."""
        while self._waiting and (len(self._waiting) > most or self._waiting[0].until <= time.monotonic()):
            time.sleep(max(0.0, self._waiting[0].until - time.monotonic()))
            waiting = self._waiting.popleft()
            try:
                self._finish_one(waiting)
            except OSError as error:
                # The next command puts back what lies there.
                self._is_all_placed = False
                self._report.problem(waiting.row.path, f"it cannot be released: {error.strerror}")
            finally:
                waiting.close()

    def _finish_one(self, waiting: _FileAside) -> None:
        row, aside = waiting.row, waiting.aside
        name = row.path.rpartition(b"/")[2]
        is_changed = _attributes(waiting.descriptor) != waiting.attributes
        is_linked = os.fstat(waiting.descriptor).st_nlink != 1
        if has_lease(waiting.descriptor) and not is_changed and not is_linked:
            aside.remove(name)
            self._opened.known.put(row)
            self._report.add("released", row.size)
            return
        self._report.add(_CHANGED if is_changed else _LINKED if is_linked else _OPEN, row.size)
        if why := aside.put_back(name, waiting.placeholder):
            self._is_all_placed = False
            self._report.problem(row.path, why)


def _is_file(row: KnownFile) -> bool:
    return row.attributes.is_file and row.key is not None and row.links == 1


def _was_touched(status: os.stat_result, within_s: float) -> bool:
    last = max(status.st_atime_ns, status.st_mtime_ns, status.st_ctime_ns) / 1e9
    return time.time() - last < within_s


def _attributes(descriptor: int) -> _Attributes:
    """What may change of a file without its being opened."""
    status = os.fstat(descriptor)
    owners = status.st_uid, status.st_gid
    return status.st_mode, *owners, status.st_size, status.st_mtime_ns, read_xattrs(descriptor)


def _is_as_exported(descriptor: int, status: os.stat_result, row: KnownFile) -> bool:
    """Whether a file still has the content of its object and, where it was touched, its attributes."""
    if (status.st_size, status.st_mtime_ns, status.st_ino) != (row.size, row.mtime_ns, row.inode):
        return False
    if status.st_ctime_ns == row.ctime_ns:
        return True
    mode, uid, gid, _, _, xattrs = _attributes(descriptor)
    if (kept_mode(mode), uid, gid, xattrs) != (row.mode, row.uid, row.gid, row.xattrs):
        return False
    return row.crc64 is not None and crc64_of(descriptor) == row.crc64


def _check_object(opened: OpenRepository, row: KnownFile) -> None:
    """Ask for the object once more. Raises StoreError where it is not the exported one."""
    head = opened.store.head(row.key or "", None).result()
    if (head.entry.etag, head.entry.size) != (row.etag, row.size):
        raise StoreError(StoreFault.CHANGED, row.key or "", "it is not what was exported")
    if row.crc64 is not None and head.crc64 is not None and head.crc64 != row.crc64:
        raise StoreError(StoreFault.DAMAGED, row.key or "", "its CRC is not that of the file")
