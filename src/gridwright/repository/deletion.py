"""Deletes the object of a file that is gone, if the file still is, and the object is the known one."""

from __future__ import annotations

import os
from contextlib import suppress

from gridwright.repository.content import crc64_of, open_for_reading
from gridwright.repository.deletion_limit import Deletions, note_refusal
from gridwright.repository.gone import gone_files
from gridwright.repository.known import NO_DIRECTORY
from gridwright.repository.known_file import KnownFile
from gridwright.repository.planned import ETAG as PLANNED
from gridwright.repository.scan import Action
from gridwright.repository.settings import OpenRepository, Prefer, RepositoryReport
from gridwright.repository.store import StoreError, StoreFault

_CHANGED = "the file was deleted and its object was changed; the object stays"
_FILES = f"inode <> 0 AND {NO_DIRECTORY}"
"""Rows of files and links that were here."""
DELETED_DIRECTORIES = "deleted from the bucket as directories"


class ExportDeletions:
    """Whether an export may delete what its scan has kept as work (`deletion_limit.py`)."""

    def __init__(self, opened: OpenRepository, report: RepositoryReport, up_to: int | None) -> None:
        """Made when the scan has ended, and before anything is sent; `up_to` is what somebody has named."""
        self._opened = opened
        self._report = report
        self._up_to = up_to
        self._count = sum(1 for _ in gone_files(opened.known))
        self._before = opened.known.count(_FILES)[0] if self._count else 0
        self._are_allowed: bool | None = None

    def are_allowed(self) -> bool:
        """Whether objects may be deleted; a refusal is a problem of the report.

        Asked when all is sent: what has another name by now, or another one left, is not lost.
        """
        if self._are_allowed is None:
            known = self._opened.known
            is_all = self._count >= known.count(_FILES)[0]
            moved = sum(map(self._is_elsewhere, gone_files(known)))
            why = Deletions(self._count - moved, self._before, is_all).refusal(self._up_to)
            if why is not None:
                self._report.problem("--deletions", why)
            note_refusal(known, "export", why)
            self._are_allowed = why is None
        return self._are_allowed

    def settle(self) -> None:
        """An export of all without `--deletions` ends a refusal where nothing is gone any more."""
        if self._report.is_complete and not self._opened.known.count(self._opened.known.gone)[0]:
            note_refusal(self._opened.known, "export", None)

    def _is_elsewhere(self, row: KnownFile) -> bool:
        """Whether the file of a row was found under another name, with the content that it had."""
        return any(
            self._opened.known.was_seen(other.path)
            and (other.size, other.mtime_ns, other.target) == (row.size, row.mtime_ns, row.target)
            and (other.target is not None or self._crc64(other) == row.crc64)
            for other in self._opened.known.by_inode(row.inode)
        )

    def _crc64(self, row: KnownFile) -> str | None:
        """That of a file, of which a dry run has sent nothing."""
        if row.etag != PLANNED:
            return row.crc64
        with suppress(OSError):
            directory, name = self._opened.below.parent(row.path)
            descriptor = open_for_reading(name, directory)
            try:
                return crc64_of(descriptor)
            finally:
                os.close(descriptor)
        return None


def delete_object(
    opened: OpenRepository, path: bytes, report: RepositoryReport, *, prefer: Prefer | None
) -> None:
    """Delete the object of a path where nothing is any more, and its row.

    The path is looked at again: what is there by now keeps its object. So does a path that cannot be looked
    at, and an object that somebody has changed; these are named.
    """
    try:
        is_there = opened.below.status(path) is not None
    except OSError as error:
        report.problem(path, f"whether it is gone cannot be seen ({error.strerror}); the object stays")
        return
    if is_there:
        report.note_of("are there again; objects stay", path)
        return
    delete_object_of(opened, opened.known.get(path), report, prefer=prefer)
    opened.below.refresh()


def delete_object_of(
    opened: OpenRepository, row: KnownFile | None, report: RepositoryReport, *, prefer: Prefer | None
) -> None:
    """Delete the object of a row, and the row; an object that somebody has changed stays, and is named.

    Where the bucket has versions, the object's stays as an older one.
    """
    if row is None:
        return
    if row.key is None:
        opened.known.forget(row.path)
        return
    try:
        head = opened.store.head(row.key).result()
        if head.entry.etag != row.etag and prefer != "files":
            report.problem(row.path, _CHANGED)
            return
        # What somebody writes from now on stays, too, where the store heeds the condition.
        opened.store.delete(row.key, head.entry.etag)
    except StoreError as error:
        if error.fault is StoreFault.CHANGED:
            report.problem(row.path, _CHANGED)
            return
        if error.fault is not StoreFault.NOT_THERE:
            report.problem(row.path, error.problems[0].what)
            return
        opened.known.forget(row.path)
        return
    opened.known.forget(row.path)
    report.add(DELETED_DIRECTORIES if row.attributes.is_directory else Action.DELETE, row.size)
