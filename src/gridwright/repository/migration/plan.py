"""What a dry run of a migration knows of what the run would have made by then, and counts of it."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable

from gridwright.beneath import Beneath
from gridwright.repository.below import is_part
from gridwright.repository.keys import shown
from gridwright.repository.migration.journal import (
    STRANGER,
    MigratedFile,
    MigrationJournal,
)
from gridwright.repository.settings import RepositoryReport, is_chosen
from gridwright.repository.walking import FileStatus

COPIED, LINKED, SAME = "copied", "linked", "unchanged"
NO_DIRECTORY_HERE = OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
_SAMPLE = 200


class MigrationPlan:
    """Of one dry run; nothing of it is written down. One thread uses it."""

    def __init__(self, journal: MigrationJournal, below: Beneath, report: RepositoryReport) -> None:
        self._journal = journal
        self._below = below
        self._report = report
        self.sample: list[bytes] = []
        """Some files that would be copied."""
        self.changing = set[bytes]()
        """Directories in which names would be made or removed."""
        self.going = set[bytes]()
        """What would be removed."""
        self.blocked: list[bytes] = []
        """Directories of the source that would not be made, as something else is here."""
        self.replaced = set[bytes]()
        """Directories that are here, of others at the source than before."""
        self.taken = set[bytes]()
        """What is here, and would be of the migration from now on."""
        self._firsts: dict[bytes, tuple[int, int]] = {}
        """First names of files with several: their inodes then, 0 for new ones, and their modes."""

    def is_blocked(self, path: bytes) -> bool:
        """Whether what a name lies in would not be made."""
        return bool(self.blocked) and is_chosen(path, self.blocked)

    def changes(self, path: bytes) -> None:
        """Note that a name would be made or removed."""
        self.changing.add(path.rpartition(b"/")[0])

    def first(self, path: bytes, source: FileStatus, here: os.stat_result | None) -> None:
        """Note the first name of a file with several; `here` is what stays of the library, if anything."""
        if source.st_nlink > 1:
            self._firsts[path] = here.st_ino if here is not None else 0, source.st_mode

    def copy(self, path: bytes, source: FileStatus) -> None:
        """Count what would be copied."""
        self._report.add(COPIED, source.st_size, source.st_mode)
        self.first(path, source, None)
        self.changes(path)
        if stat.S_ISREG(source.st_mode) and len(self.sample) < _SAMPLE:
            self.sample.append(path)

    def links(self, refused: Callable[[bytes, OSError], None], make_way: Callable[[bytes], bool]) -> None:
        """Count further names of files, where the first ones are as they would be then."""
        for path, first in (each for some in self._journal.links() for each in some):
            try:
                self._link(path, first, make_way)
            except OSError as error:
                refused(path, error)

    def _link(self, path: bytes, first: bytes, make_way: Callable[[bytes], bool]) -> None:
        here, row = self._below.status(path), self._journal.get(path)
        inode, mode = self._firsts.get(first, (None, 0))
        if inode is None:
            self._report.problem(path, f"it is another name of {shown(first)}, which was not copied")
        elif self.is_blocked(path):
            raise NO_DIRECTORY_HERE
        elif here is not None and here.st_ino == inode:
            self._report.add(SAME, mode=mode)
        elif here is not None and (row is None or not row.is_of_migration(here)):
            self._report.problem(path, STRANGER)
        elif here is None or not stat.S_ISDIR(here.st_mode) or make_way(path):
            self._report.add(LINKED, mode=mode)
            self.changes(path)

    def may_open(self, path: bytes) -> bool:
        """What `MigrationDirectories.may_open` would say by then. Raises OSError."""
        if path not in self.replaced:
            return True
        with os.scandir(self._below.parent(path + b"/.")[0]) as names:
            return all(is_part(os.fsencode(each.name)) or self._is_of_this_pass(path, each) for each in names)

    def _is_of_this_pass(self, directory: bytes, each: os.DirEntry[str]) -> bool:
        path = directory + b"/" + os.fsencode(each.name)
        if path in self.going or path in self.taken:
            return True
        row = self._journal.get(path)
        if row is None or not self._journal.is_seen(path):
            return False
        status = each.stat(follow_symlinks=False)
        return row.inode == status.st_ino if stat.S_ISDIR(status.st_mode) else row.is_of_migration(status)

    def remove(self, row: MigratedFile) -> None:
        """Note that a name would go. Raises OSError where something would be left in a directory."""
        path = row.path
        if stat.S_ISDIR(row.mode):
            names = os.listdir(self._below.parent(path + b"/.")[0])  # noqa: PTH208 - of a descriptor
            if any(path + b"/" + os.fsencode(name) not in self.going for name in names):
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY))
        self.going.add(path)
        self.changes(path)
