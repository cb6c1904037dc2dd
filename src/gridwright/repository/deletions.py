"""Deletes objects, and stops a mass deletion that nobody has named: half of a library, a prefix, a source.

Who deletes on the other side what was deleted on this one takes an accident along. So a command that would
delete more than is usual deletes nothing, says how many, and is told that number (`--delete-up-to`).
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain

from gridwright.refusals import reason_of
from gridwright.repository.content import crc64_of, open_for_reading
from gridwright.repository.copytool.released import why_only_copy
from gridwright.repository.gone import gone_files
from gridwright.repository.known import NO_DIRECTORY, Known
from gridwright.repository.known_file import KnownFile
from gridwright.repository.planned import ETAG as PLANNED
from gridwright.repository.scan import Action
from gridwright.repository.settings import OpenRepository, Prefer, RepositoryReport
from gridwright.repository.store import StoreError, StoreFault

UNNAMED = 10
"""So many are always deleted, unless nothing would be left: a tenth of a few files is none."""
SHARE = 0.1
MOST = 1000
AT_ONCE = 32
"""Objects that are deleted at once: each takes a question and an order, one after the other."""
FORGOTTEN_AT_ONCE = 256
"""Rows taken away in one transaction, which takes as long as the deletion of an object. After a kill, those
of objects that are gone are forgotten by the next run."""
_REFUSED = "refused"
_CHANGED = "the file was deleted and its object was changed; the object stays"
DELETED_DIRECTORIES = "deleted from the bucket as directories"
_FILES = f"inode <> 0 AND {NO_DIRECTORY}"
"""Rows of files and links that were here."""


@dataclass(frozen=True, slots=True)
class Deletions:
    """What one command would delete."""

    count: int
    known: int
    """How many were known before, of which these are some."""
    is_all: bool
    """Whether nothing would be left, or the other side is empty."""

    def refusal(self, up_to: int | None) -> str | None:
        """Why nothing may be deleted, beside the number that somebody has named; None where all may be."""
        if not self.count:
            return None
        if up_to is not None:
            why = None if self.count <= up_to else f"more than the {up_to} that --delete-up-to names"
        elif self.is_all:
            why = "nothing would be left"
        elif self.count <= UNNAMED:
            why = None
        elif self.count > MOST:
            why = f"more than {MOST}"
        else:
            why = f"more than {SHARE:.0%}" if self.count > SHARE * self.known else None
        return why and (
            f"{self.count} of {max(self.count, self.known)} would be deleted, {why}: none was; see where they"
            f" went, and if that was meant, add --delete-up-to {self.count}"
        )


def note_refusal(known: Known, verb: str, why: str | None) -> None:
    """Keep for `repo status` why the last export or import has refused to delete; None where it has not."""
    if why is not None or known.fact(f"{_REFUSED} {verb}"):
        known.set_fact(f"{_REFUSED} {verb}", "" if why is None else f"{time.time():.0f} {why}")


class ExportDeletions:
    """Whether an export may delete what its scan has kept as work (`deletions.py`)."""

    def __init__(self, opened: OpenRepository, report: RepositoryReport, up_to: int | None) -> None:
        """Made when the scan has ended, and before anything is sent; `up_to` is what somebody has named."""
        self._opened = opened
        self._report = report
        self._up_to = up_to
        self._before = opened.known.count(_FILES)[0]
        self._replaced: list[bytes] = []
        self._are_allowed: bool | None = None

    def add_replaced(self, path: bytes) -> None:
        """Count a file whose object would go since a directory has taken its place."""
        self._replaced.append(path)

    def are_allowed(self) -> bool:
        """Whether objects may be deleted; a refusal is a problem of the report.

        Asked when all is sent: what has another name by now, or another one left, is not lost.
        """
        if self._are_allowed is None:
            known = self._opened.known
            replaced = (row for path in self._replaced if (row := known.get(path)) is not None)
            are_moved = [self._is_elsewhere(row) for row in chain(gone_files(known), replaced)]
            is_all = len(are_moved) >= known.count(_FILES)[0]
            why = Deletions(are_moved.count(False), self._before, is_all).refusal(self._up_to)
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
            other.path != row.path
            and self._opened.known.was_seen(other.path)
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


class ObjectDeletions:
    """Deletes objects of paths where nothing is any more, many at once; used in a `with`."""

    def __init__(self, opened: OpenRepository, report: RepositoryReport, *, prefer: Prefer | None) -> None:
        """With `prefer="files"` objects go that somebody has changed."""
        self._opened = opened
        self._report = report
        self._prefer = prefer
        self._threads = ThreadPoolExecutor(AT_ONCE, "delete")
        self._under_way: deque[tuple[KnownFile, Future[None]]] = deque()
        self._gone: list[KnownFile] = []

    def __enter__(self) -> ObjectDeletions:
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            self._finish(0)
        finally:
            self._threads.shutdown(cancel_futures=True)
            self._forget()

    def delete(self, path: bytes) -> None:
        """Delete the object of a path where nothing is any more, and its row.

        The path is looked at again: what is there by now keeps its object. So does a path that cannot be
        looked at, and an object that somebody has changed; these are named. Paths come with what lies in a
        directory before it.
        """
        try:
            is_there = self._opened.below.status(path) is not None
        except OSError as error:
            why = f"whether it is gone cannot be seen ({reason_of(error)}); the object stays"
            self._report.problem(path, why)
            return
        if is_there:
            self._report.note_of("are there again; objects stay", path)
            return
        if (row := self._opened.known.get(path)) is not None:
            self.delete_of(row)
        self._opened.below.refresh()

    def delete_of(self, row: KnownFile) -> None:
        """Delete the object of a row, and the row; an object that somebody has changed stays, and is named.

        Where the bucket has versions, the object's stays as an older one.
        """
        if row.key is None:
            self._opened.known.forget(row.path)
            return
        try:
            why = why_only_copy(self._opened.settings.directory, row)
        except OSError as error:
            why = f"whether a released file needs it cannot be seen ({reason_of(error)}); the object stays"
        if why is not None:
            self._report.problem(row.path, why)
            return
        if row.attributes.is_directory:
            # Stores that keep files refuse that of a directory in which something is.
            self._finish(0)
        self._under_way.append((row, self._threads.submit(self._delete, row.key, row.etag)))
        self._finish(AT_ONCE - 1)

    def _delete(self, key: str, etag: str | None) -> None:
        found = self._opened.store.head(key).result().entry.etag
        if found != etag and self._prefer != "files":
            raise StoreError(StoreFault.CHANGED, key)
        # What somebody writes from now on stays, too, where the store heeds the condition.
        self._opened.store.delete(key, found)

    def _finish(self, most: int) -> None:
        """Account for deletions until so many at most are under way."""
        while len(self._under_way) > most:
            row, deleted = self._under_way.popleft()
            try:
                deleted.result()
            except StoreError as error:
                if error.fault is StoreFault.NOT_THERE:
                    self._gone.append(row)
                else:
                    changed = error.fault is StoreFault.CHANGED
                    self._report.problem(row.path, _CHANGED if changed else error.problems[0].what)
                continue
            self._gone.append(row)
            kind = DELETED_DIRECTORIES if row.attributes.is_directory else Action.DELETE
            self._report.add(kind, row.size, row.mode)
        if len(self._gone) >= FORGOTTEN_AT_ONCE:
            self._forget()

    def _forget(self) -> None:
        self._opened.known.forget(*(row.path for row in self._gone))
        self._opened.known.unlist(row.key for row in self._gone)
        self._gone.clear()


def refusals(fact: Callable[[str], str | None]) -> list[tuple[str, str]]:
    """What the last export and the last import refused to delete: which of them, and why; by its facts."""
    found = []
    for verb in ("export", "import"):
        moment, _, why = (fact(f"{_REFUSED} {verb}") or "").partition(" ")
        if why and moment.isdecimal():
            when = datetime.fromtimestamp(min(int(moment), 2**32), UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
            found.append((f"{verb} of {when}", why))
    return found
