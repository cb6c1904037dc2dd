"""Takes changelogs: paths of what they tell go into the journal, and the records are given up then.

A record is read, its paths are on disk, and only then it is cleared; whoever is killed between reads it
again. Where records do not tell all, it is noted that a scan is owed, before they are cleared.

Two things of Lustre's need care. An index is given before its record is written, so that one may still be
missing at the end of what is read: nothing is cleared from the first that is missing on. And times that are
set again and again are noted once in the time between two clears (`mdd_changelog_data_store` of
lustre/mdd/mdd_object.c): so records are cleared before files are looked at, never after.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from gridwright.repository.changelog.journal import ChangeJournal, Position
from gridwright.repository.changelog.records import ChangeRecord, RecordError, inode_of
from gridwright.repository.changelog.resolving import ChangedPaths, PathFinder, Unresolved
from gridwright.repository.changelog.source import ChangelogUser, ChangeSource
from gridwright.repository.copytool.action_list import Fid
from gridwright.repository.settings import OpenRepository

_AT_ONCE = 20_000
"""Files whose paths are found before their records are given up."""
_MOST_MISSING = 100_000
"""Indexes that may be out of order."""
MOST_PATHS = 50_000
"""Paths that may wait whatever the number of files: beyond that and half of all files, a scan is cheaper."""
MOST_TREES = 1000
"""Directories that were moved."""
SCAN_AGAIN_S = 7 * 86_400.0
"""A file that is kept open and written to has no record until it is closed: a scan sees it."""


class _NotRegistered(Exception):
    """Nobody keeps the records of an MDT for us any more."""


@dataclass(slots=True)
class _Taken:
    """Records of one MDT that are not in the journal yet."""

    to: int
    """All up to this index were read."""
    later: set[int] = field(default_factory=set)
    """Indexes beyond one that is missing."""
    touched: set[Fid] = field(default_factory=set)
    moved: set[Fid] = field(default_factory=set)
    owed: str = ""
    """Why these do not tell all that was changed."""

    def add(self, record: ChangeRecord) -> None:
        """Add one."""
        if record.index > self.to:
            self.later.add(record.index)
        while self.to + 1 in self.later:
            self.to += 1
            self.later.remove(self.to)
        if len(self.later) > _MOST_MISSING:
            self.owed = f"record {self.to + 1} is missing"
            self.to = max(self.later)
            self.later.clear()
        if record.type is None:
            self.owed = f"record {record.index} is of a type that this release does not know"
        self.touched.update(record.touched)
        self.moved.update(record.moved)


@dataclass(frozen=True, slots=True)
class ChangeTaker:
    """Takes the changelogs of one repository."""

    opened: OpenRepository
    source: ChangeSource
    finder: PathFinder
    journal: ChangeJournal

    def take(self, users: Sequence[ChangelogUser]) -> None:
        """Take all records there are; whether a scan is owed says the journal.

        No error of Lustre ends this: a scan finds what changelogs do not tell.
        """
        for why in (self._not_all(users), self._too_old()):
            if why:
                self.journal.owe(why)
        for mdt in set(self.journal.mdts()) - {each.mdt for each in users}:
            self.journal.forget(mdt)
        for user in users:
            try:
                self._take_one(user)
            except _NotRegistered:
                # Its position stays, so that the next export asks again.
                self.journal.owe(
                    f"{user.user} is not registered at {user.mdt} any more: Lustre removes users that are "
                    "idle for long; gridwright setup registers it again"
                )
            except (OSError, RecordError) as error:
                why = (error.strerror if isinstance(error, OSError) else None) or str(error)
                self.journal.owe(f"the changelog of {user.mdt} cannot be read: {why}")
        waiting = self.journal.count()
        if not self.journal.owed and waiting > MOST_PATHS and waiting > self.opened.known.count()[0] // 2:
            self.journal.owe(f"{waiting} files were touched, so that a scan is cheaper")
        if not self.journal.owed and len(self.journal.trees()) > MOST_TREES:
            self.journal.owe(f"more than {MOST_TREES} directories were moved, so that a scan is cheaper")

    def _not_all(self, users: Sequence[ChangelogUser]) -> str:
        """Why changelogs cannot tell all, whatever is in them; empty where they can."""
        try:
            count = self.source.mdt_count()
            root = os.fsencode(self.opened.settings.directory)
            inode = inode_of(self.source.fid_of(root))
        except OSError as error:
            return f"Lustre does not answer: {error.strerror}"
        if count != len(users):
            return (
                f"Lustre has {count} MDTs, and changelog users are registered at {len(users)}; "
                "gridwright setup registers them"
            )
        if inode != os.fstat(self.opened.below.root).st_ino:
            return "inode numbers are not those of FIDs here, as on clients of 32 bits"
        return ""

    def _too_old(self) -> str:
        scanned = self.journal.scanned_s
        if scanned is None:
            return "nothing was scanned yet"
        days = (time.time() - scanned) / 86_400
        return f"the last scan was {days:.0f} days ago" if days * 86_400 > SCAN_AGAIN_S else ""

    def _take_one(self, user: ChangelogUser) -> None:
        try:
            self._take_rest(user)
        except OSError:
            # A log that is cleared for somebody else under a reader ends with ENOENT.
            self._take_rest(user)

    def _take_rest(self, user: ChangelogUser) -> None:
        position = self._position(user)
        first = position.read_to + 1 if position else 1
        taken: _Taken | None = None
        for record in self.source.records(user.mdt, first):
            if taken is None:
                taken = self._begun(user, record.index, position)
            taken.add(record)
            if len(taken.touched) >= _AT_ONCE:
                self._commit(user, taken)
                taken = _Taken(taken.to, taken.later)
        if taken is not None:
            self._commit(user, taken)
        elif position is not None:
            self.journal.take(user, position.read_to, (), ())

    def _begun(self, user: ChangelogUser, index: int, position: Position | None) -> _Taken:
        """What was taken when the first record that is there has this index.

        Records that are missing are waited for once: they may still be written.
        """
        first = position.read_to + 1 if position is not None else index
        if index <= first:
            return _Taken(index - 1)
        was_awaited = self.journal.was_awaited(user.mdt, first)
        why = f"records {first} to {index - 1} of {user.mdt} are missing"
        return _Taken(index - 1 if was_awaited else first - 1, owed=why)

    def _position(self, user: ChangelogUser) -> Position | None:
        """How far its changelog was taken; None where nobody knows, and a scan is owed.

        Lustre removes users that are idle for long, and what is changed then is in no record. Clearing again
        what was cleared tells; it also makes up for a kill before the clearing. Of an MDT that never had a
        record nothing can be asked: 0 would give up all.

        Raises _NotRegistered, OSError.
        """
        position = self.journal.position(user.mdt)
        if position is None or position.user != user.user:
            self.journal.owe(f"nothing was read of the changelog of {user.mdt} as {user.user} yet")
            position = Position(user.user, user.index, 0.0)
        if not position.read_to:
            return position
        try:
            self.source.clear(user.mdt, user.user, position.read_to)
        except FileNotFoundError:
            raise _NotRegistered from None
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            self.journal.owe(f"the changelog of {user.mdt} is not the one that was read before")
            return None
        return position

    def _commit(self, user: ChangelogUser, taken: _Taken) -> None:
        paths = ChangedPaths()
        if not (taken.owed or self.journal.owed):
            try:
                paths = self.finder.find(taken.touched, taken.moved)
            except Unresolved as unresolved:
                taken.owed = str(unresolved)
            except OSError as error:
                # One path that cannot be told must not keep all records for ever.
                taken.owed = f"Lustre does not tell the path of a file: {error.strerror}"
        self.journal.take(user, taken.to, paths.single, paths.trees, taken.owed)
        if not taken.to:
            # 0 would give up all, and records before the first that is there are waited for.
            return
        try:
            self.source.clear(user.mdt, user.user, taken.to)
        except FileNotFoundError:
            raise _NotRegistered from None
        except OSError as error:
            # Records of others, from before the user was registered, are not its to clear.
            if error.errno != errno.EINVAL:
                raise
