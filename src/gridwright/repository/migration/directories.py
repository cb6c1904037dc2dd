"""Directories of the library, each held against the one of the source that the walk has met.

Until a directory is dressed, at the end of a pass, nobody else may enter it who could not enter it before.
"""

from __future__ import annotations

import os
import stat

from gridwright.beneath import Beneath, change_mode, change_owner, make_private, pinned
from gridwright.repository.below import is_part
from gridwright.repository.migration.deciding import MigrationDecision, is_replaced, may_dress
from gridwright.repository.migration.journal import MigratedFile, MigrationJournal, ended
from gridwright.repository.placing import Placer
from gridwright.repository.walking import WalkedFile

_MOST_KNOWN = 1000


class MigrationDirectories:
    """Makes and closes directories, and knows which ones lead to a path. One thread uses it."""

    def __init__(self, below: Beneath, journal: MigrationJournal, placer: Placer) -> None:
        self._below = below
        self._placer = placer
        self._journal = journal
        self._inodes: dict[bytes, tuple[int, ...]] = {b"": ()}

    def make(self, each: WalkedFile, row: MigratedFile | None) -> MigrationDecision | None:
        """Make a directory, or take the one that is there; why it is left, or None. Raises OSError."""
        path = each.path
        here = self._below.status(path)
        directory, name = self._below.parent(path)
        if here is not None and not stat.S_ISDIR(here.st_mode):
            self._placer.remove(path, directory, name, here)
            here = None
        if here is None:
            made = make_private(directory, name)
            here = os.fstat(made)
            os.close(made)
            self._journal.end(ended(path, each, here, is_made=row is None or row.is_made))
            return MigrationDecision.COPY
        if not may_dress(each, row, here, self._below.writers(path)):
            return MigrationDecision.EXCHANGED
        new = ended(path, each, here, is_made=row is not None and row.is_made)
        closes = is_replaced(each, row)
        if closes:
            # What lies in it is of another directory of the source until the contrary is known.
            new.is_begun = True
            self._journal.begin([new])
        else:
            self._journal.end(new)
        if closes or _is_closer(each, here):
            directory, name = self._below.parent(path)
            with pinned(directory, name, here) as pin:
                if os.geteuid() == 0:
                    change_owner(pin, 0, 0)
                change_mode(pin, 0o700)
        return None

    def may_open(self, row: MigratedFile) -> bool:
        """Whether a directory holds nothing that came from another one than its source. Raises OSError."""
        if not row.is_begun:
            return True
        with os.scandir(self._below.parent(row.path + b"/.")[0]) as names:
            return all(
                is_part(os.fsencode(each.name)) or self._is_of_this_pass(row.path, each) for each in names
            )

    def _is_of_this_pass(self, directory: bytes, each: os.DirEntry[str]) -> bool:
        path = directory + b"/" + os.fsencode(each.name)
        found = self._journal.get(path)
        if found is None or not self._journal.is_seen(path):
            return False
        status = each.stat(follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            return found.inode == status.st_ino
        return not found.is_begun and found.is_of_migration(status)

    def opened(self, row: MigratedFile) -> None:
        """Note that a directory has the attributes of its source."""
        if row.is_begun:
            self._journal.end(row)

    def within(self, path: bytes) -> int:
        """The inode of the library's directory that a path lies in, as it was met; 0 where it was not."""
        return row.inode if (row := self._journal.get(path.rpartition(b"/")[0])) is not None else 0

    def source_inodes(self, path: bytes) -> tuple[int, ...]:
        """Inodes of the source's directories that a path lies in, the outermost first; 0 for one not met."""
        head = path.rpartition(b"/")[0]
        unknown: list[bytes] = []
        while head not in self._inodes:
            unknown.append(head)
            head = head.rpartition(b"/")[0]
        inodes = self._inodes[head]
        if len(self._inodes) > _MOST_KNOWN:
            self._inodes = {b"": ()}
        for each in reversed(unknown):
            row = self._journal.get(each)
            inodes = (*inodes, row.source_inode if row is not None else 0)
            self._inodes[each] = inodes
        return inodes


def _is_closer(source: WalkedFile, here: os.stat_result) -> bool:
    """Whether those of the source may be fewer than those who may enter what is here."""
    is_given = os.geteuid() == 0 and (here.st_uid, here.st_gid) != (source.st_uid, source.st_gid)
    return is_given or bool(here.st_mode & ~source.st_mode & 0o777)
