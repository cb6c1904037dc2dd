"""Further names of files that have several, made when the first ones are there."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from gridwright.beneath import Beneath
from gridwright.repository.keys import shown
from gridwright.repository.making import part_name
from gridwright.repository.migration.deciding import MigrationDecision
from gridwright.repository.migration.directories import MigrationDirectories
from gridwright.repository.migration.journal import MigratedFile, MigrationJournal
from gridwright.repository.placing import Placer, place_new
from gridwright.repository.settings import RepositoryReport

LINKED, SAME = "linked", "unchanged"


class MigrationLinks:
    """Names of one run that were postponed. One thread uses it."""

    def __init__(
        self,
        journal: MigrationJournal,
        below: Beneath,
        directories: MigrationDirectories,
        placer: Placer,
        report: RepositoryReport,
        refused: Callable[[bytes, OSError], None],
        look: Callable[[bytes, Callable[[os.stat_result], None]], None],
    ) -> None:
        """`refused` is told of a name that cannot be made, and why.

        `look` has the status of a path at the source given to a function, until the workers were waited for.
        """
        self._journal = journal
        self._below = below
        self._directories = directories
        self._placer = placer
        self._report = report
        self._refused = refused
        self._look = look

    def make(self, wait: Callable[[], None]) -> None:
        """Make further names of files with several, now that the first ones are there.

        `wait` waits for the workers.
        """
        for some in self._journal.links():
            todo: list[tuple[MigratedFile, os.stat_result | None]] = []
            sources: dict[bytes, os.stat_result] = {}
            for path, _ in some:
                self._look(path, partial(sources.__setitem__, path))
            wait()
            for path, first in some:
                of = self._journal.get(first)
                if path not in sources:
                    continue
                if of is not None and not of.is_begun and sources[path].st_ino != of.source_inode:
                    self._report.problem(path, "the source was changed while it was copied")
                    continue
                try:
                    here = self._below.status(path)
                    row = self._row(path, first, here)
                except OSError as error:
                    self._refused(path, error)
                    continue
                if row is not None:
                    todo.append((row, here))
            self._journal.begin([row for row, _ in todo])
            names = dict(some)
            for row, here in todo:
                try:
                    of = self._journal.get(names[row.path])
                    if of is not None:
                        self._place(of, row.path, here)
                except OSError as error:
                    self._refused(row.path, error)
                    continue
                if of is not None:
                    self._journal.end(replace(of, path=row.path, is_made=True))
                    self._report.add(LINKED)

    def _row(self, path: bytes, first: bytes, here: os.stat_result | None) -> MigratedFile | None:
        """The row of a name that is to be made another name of a file; None where there is nothing to do."""
        of, row = self._journal.get(first), self._journal.get(path)
        old = self._below.status(first)
        if of is None or old is None or of.is_begun or not of.is_of_migration(old):
            self._report.problem(path, f"it is another name of {shown(first)}, which was not copied")
            return None
        if here is not None and here.st_ino == old.st_ino:
            self._report.add(SAME)
            self._journal.end(replace(of, path=path, is_made=True))
            return None
        if here is not None and (row is None or not row.is_of_migration(here, old)):
            self._report.problem(path, MigrationDecision.STRANGER.value)
            return None
        before = row or replace(of, inode=0, size=0, mtime_ns=0)
        return replace(
            of, path=path, inode=before.inode, size=before.size, mtime_ns=before.mtime_ns, is_begun=True,
            is_made=True,
        )  # fmt: skip

    def _place(self, first: MigratedFile, path: bytes, here: os.stat_result | None) -> None:
        directory, name = self._below.parent(first.path)
        directory = os.dup(directory)
        try:
            target, new = self._below.parent(path)
            part = part_name()
            os.link(name, part, src_dir_fd=directory, dst_dir_fd=target, follow_symlinks=False)
            try:
                made = os.stat(part, dir_fd=target, follow_symlinks=False).st_ino
                if made != first.inode or self._directories.within(path) not in (0, os.fstat(target).st_ino):
                    raise OSError(errno.ESTALE, "another file has come in its place")
                if here is None:
                    place_new(target, part, new)
                else:
                    self._placer.replace(path, target, part, new, here)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(part, dir_fd=target)
        finally:
            os.close(directory)
