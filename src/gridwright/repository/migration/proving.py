"""Proves that source and library are equal: all contents read again, and the source still meanwhile."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from functools import partial

from gridwright.beneath import Beneath
from gridwright.repository.content import Torn
from gridwright.repository.keys import shown
from gridwright.repository.migration.attributes import why_not
from gridwright.repository.migration.copying import Copier, MigrationStopped, SourceGone
from gridwright.repository.migration.journal import MigratedFile, MigrationJournal
from gridwright.repository.migration.workers import CopyTask, CopyWorkers
from gridwright.repository.settings import RepositoryReport
from gridwright.repository.walking import walk_below

VERIFIED = "verified"
_TOLD = 10
"""Names that are told one by one."""


class MigrationProof:
    """What is looked at once more in the end."""

    def __init__(
        self, journal: MigrationJournal, below: Beneath, workers: CopyWorkers, report: RepositoryReport
    ) -> None:
        self._journal = journal
        self._below = below
        self._workers = workers
        self._report = report

    def compare_contents(self) -> None:
        """Read every file on both sides again. What was changed here since it was copied is left out."""
        for row in self._journal.seen():
            try:
                here = self._below.status(row.path)
            except OSError as error:
                self._failed(row.path, error)
                continue
            if stat.S_ISDIR(row.mode) or here is None or not row.is_of_migration(here):
                continue
            task = CopyTask(
                row.path,
                partial(_is_same, row.path),
                partial(self._compared, row),
                partial(self._failed, row.path),
            )
            self._workers.do(task)
        self._workers.wait()

    def _compared(self, row: MigratedFile, is_same: bool) -> None:
        if is_same:
            self._report.add(VERIFIED, row.size)
        else:
            self._report.problem(row.path, "its content is not that of the source")

    def _failed(self, path: bytes, error: Exception) -> None:
        if isinstance(error, Torn | SourceGone):
            self._report.problem(path, "the source was changed while it was compared")
        elif isinstance(error, OSError):
            self._report.problem(path, f"it cannot be compared: {why_not(error)}")
        elif not isinstance(error, MigrationStopped):
            raise error

    def look_whether_still(self, source: int, chosen: Sequence[bytes]) -> None:
        """Name what was written to at the source while the pass ran. Raises GridwrightError, OSError."""
        told = {name for name, _ in self._report.problems}
        count = 0
        for walked, _ in walk_below(source, chosen, waiting=self._workers.watch):
            for each in walked:
                row = self._journal.get(each.path)
                is_still = row is not None and row.is_same_source(each)
                if is_still or stat.S_ISSOCK(each.st_mode) or shown(each.path) in told:
                    continue
                count += 1
                if count <= _TOLD:
                    self._report.problem(each.path, "the source was written to during the last pass")
        if count > _TOLD:
            more = f"{count - _TOLD} more names of the source were written to during the last pass"
            self._report.problem(os.fsencode("."), more)


def _is_same(path: bytes, copier: Copier) -> bool:
    return copier.same(path) is not None
