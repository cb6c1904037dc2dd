"""Changes of a repository on a Lustre whose metadata servers keep changelogs for it.

Looks at files that changelogs name, as a scan looks at all: the record says where, the disk what is so.

Takes changelogs: paths of what they tell go into the journal, and the records are given up then.

A record is read, its paths are on disk, and only then it is cleared; whoever is killed between reads it
again. Where records do not tell all, it is noted that a scan is owed, before they are cleared.

Two things of Lustre's need care. An index is given before its record is written, so that one may still be
missing at the end of what is read: nothing is cleared from the first that is missing on. And times that are
set again and again are noted once in the time between two clears (`mdd_changelog_data_store` of
lustre/mdd/mdd_object.c): so records are cleared before files are looked at, never after.

Paths of changed files: those that they have now, and those under which they are known.

What a file was called when it was last looked at is known by its inode, which is its FID; what it is called
now says Lustre. So no name and no parent of a record is needed, and a directory that was renamed since, or
is gone, does no harm.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gridwright.beneath import Beneath
from gridwright.handed_files import parsed_json, read_named
from gridwright.refusals import reason_of
from gridwright.repository.below import relative_directory
from gridwright.repository.changelog.journal import ChangeJournal, ChangelogUser, ChangeSource, Position
from gridwright.repository.changelog.lustre_source import LustreSource, answers
from gridwright.repository.changelog.records import ChangeRecord, RecordError, inode_of
from gridwright.repository.copytool.liblustreapi import Fid
from gridwright.repository.known import GONE_BY_CHANGES
from gridwright.repository.scan import find_gone, keep_changed, look_at_root, note_troubles, scan
from gridwright.repository.settings import OpenRepository, RepositoryReport
from gridwright.repository.walking import UnreadDirectory, is_own_path
from gridwright.units import counted

if TYPE_CHECKING:
    from gridwright.repository.walking import FileStatus


_BATCH = 500
_LINK_BYTES, _ROOM_OF_LINKS = 18, 2048
"""What a name takes in `trusted.link` beside itself, and half of what that attribute may hold
(MAX_LINKEA_SIZE of lustre_linkea.h): names beyond that are not kept, and Lustre does not tell them."""


class Unresolved(Exception):
    """Paths do not tell what was changed: a scan has to. Says why."""


@dataclass(slots=True)
class ChangedPaths:
    """Paths of a repository that are to be looked at."""

    single: set[bytes] = field(default_factory=set)
    """By themselves."""
    trees: set[bytes] = field(default_factory=set)
    """With all below them."""


@dataclass(frozen=True, slots=True)
class _Named:
    fid: Fid
    paths: Sequence[bytes]
    """Relative to the repository; those elsewhere are left out."""
    is_directory: bool
    leads_here: bool
    """Whether it is the repository's directory, or one that this lies in."""


@dataclass(frozen=True, slots=True)
class PathFinder:
    """Finds paths below one repository's directory, which is `prefix` below the mount."""

    source: ChangeSource
    journal: ChangeJournal
    mount: Path
    prefix: bytes

    def find(self, touched: Collection[Fid], moved: Collection[Fid]) -> ChangedPaths:
        """The paths of files that were touched; `moved` are those of them that may be other directories.

        Raises Unresolved, and OSError where Lustre does not answer.
        """
        found = ChangedPaths()
        for each in answers(self._named, touched):
            if each.leads_here and each.fid in moved:
                raise Unresolved("the repository's own directory was moved")
            is_tree = each.is_directory and each.fid in moved
            _add(found, each.paths, is_tree=is_tree)
        inodes = {inode_of(each): each in moved for each in touched}
        known = list(inodes)
        for start in range(0, len(known), _BATCH):
            for inode, path, is_directory in self.journal.rows_of(known[start : start + _BATCH]):
                _add(found, [path], is_tree=is_directory and inodes[inode])
        return found

    def _named(self, fid: Fid) -> _Named:
        paths = self.source.paths_of(fid)
        inside = [path for each in paths if (path := self._below(each)) is not None]
        leads_here = any(self.prefix == each or _is_above(each, self.prefix) for each in paths)
        status = self._status(paths[0]) if paths and (inside or _may_lack_names(paths)) else None
        if status is not None and stat.S_ISREG(status.st_mode) and status.st_nlink > len(paths):
            paths = self.source.paths_of(fid)
            status = self._status(paths[0]) if paths else None
            if status is not None and status.st_nlink > len(paths):
                raise Unresolved(f"Lustre knows {len(paths)} of the {status.st_nlink} names of a file")
            inside = [path for each in paths if (path := self._below(each)) is not None]
        is_directory = status is not None and stat.S_ISDIR(status.st_mode)
        return _Named(fid, [each for each in inside if not is_own_path(each)], is_directory, leads_here)

    def _below(self, path: bytes) -> bytes | None:
        """A path relative to the repository; None for one elsewhere."""
        if not self.prefix:
            return path
        if path == self.prefix:
            return b""
        return path[len(self.prefix) + 1 :] if _is_above(self.prefix, path) else None

    def _status(self, path: bytes) -> os.stat_result | None:
        try:
            return os.lstat(os.fsencode(self.mount) + b"/" + path)
        except (FileNotFoundError, NotADirectoryError):
            return None


def _add(found: ChangedPaths, paths: Iterable[bytes], *, is_tree: bool) -> None:
    for path in paths:
        (found.trees if is_tree else found.single).add(path)
        found.single.update(_parents(path))


def _parents(path: bytes) -> Iterator[bytes]:
    """The directory that a path lies in: a striped one may have another FID in records than it has."""
    parent = path.rpartition(b"/")[0]
    if parent:
        yield parent


def _is_above(directory: bytes, path: bytes) -> bool:
    return not directory or path.startswith(directory + b"/")


def _may_lack_names(paths: Sequence[bytes]) -> bool:
    return sum(len(each.rpartition(b"/")[2]) + _LINK_BYTES for each in paths) > _ROOM_OF_LINKS


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
        self.touched.update(record.changed_fids)
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
                why = reason_of(error)
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
            return f"Lustre does not answer: {reason_of(error)}"
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
                taken.owed = f"Lustre does not tell the path of a file: {reason_of(error)}"
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


_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
_Looked = tuple[list[tuple[bytes, "FileStatus"]], list[bytes], list[UnreadDirectory]]
"""What is there, what is not, and what could not be looked at."""


def find_reported_changes(
    opened: OpenRepository, journal: ChangeJournal, report: RepositoryReport, *, deletions: bool
) -> None:
    """Keep as work what an export has to do of all that waits in the journal.

    Raises OSError where the file system does not answer.
    """
    opened.known.gone = GONE_BY_CHANGES
    look_at_root(opened)
    unread = set[bytes]()
    trees = journal.trees()
    if trees:
        unread |= scan(opened, trees, report)
    for tree in trees:
        if not _is_within(tree, unread):
            journal.note_gone_within(tree)
    looks = answers(partial(look_at, opened.settings.directory), journal.paths())
    for there, missing, troubles in looks:
        unread |= note_troubles(troubles, report)
        keep_changed(opened, there, report)
        journal.note_gone(missing)
    journal.note_there(unread)
    find_gone(opened, (), unread, deletions=deletions, report=report)
    if b"" in unread:
        journal.owe("the repository's own directory could not be looked at")
    else:
        journal.looked(unread)


def find_all_changes(
    opened: OpenRepository, journal: ChangeJournal, report: RepositoryReport, *, deletions: bool
) -> None:
    """Scan, and have the journal go on from there."""
    unread = scan(opened, (), report)
    find_gone(opened, (), unread, deletions=deletions, report=report)
    if b"" in unread:
        # Nothing is known of what was not looked at: the next export scans again.
        return
    journal.scanned(unread, opened.known.gone)


def look_at(directory: Path, paths: Sequence[bytes]) -> _Looked:
    """Look at some paths below a directory; no symbolic link on the way is followed."""
    there: list[tuple[bytes, FileStatus]] = []
    missing: list[bytes] = []
    troubles: dict[bytes, UnreadDirectory] = {}
    with Beneath(directory) as below:
        for path in paths:
            try:
                status = below.status(path)
            except OSError as error:
                if error.errno == errno.EXDEV:
                    mount = os.fsencode(error.filename)
                    troubles[mount] = UnreadDirectory(mount, None)
                    continue
                if error.errno not in _NOT_THERE:
                    parent = path.rpartition(b"/")[0]
                    troubles[parent] = UnreadDirectory(parent, error.errno)
                    continue
                status = None
            if status is None:
                missing.append(path)
            else:
                there.append((path, status))
    return there, missing, list(troubles.values())


def _is_within(path: bytes, directories: Collection[bytes]) -> bool:
    return any(path == each or path.startswith(each + b"/") for each in directories)


_MDT = re.compile(r"[A-Za-z0-9_-]{1,8}-MDT[0-9a-f]{4}")
_USER = re.compile(r"cl[0-9]{1,10}")
_INDEX = re.compile(r"[0-9]{1,18}", re.ASCII)
SourceOf = Callable[[Path], ChangeSource]
_MOST_BYTES = 1 << 20
"""Of a file that says who is registered; there is a line for each MDT."""


@dataclass(frozen=True, slots=True)
class RegisteredUsers:
    """What `gridwright setup` writes on the machine that exports: who is registered for a repository."""

    mount: Path
    """Where the Lustre is mounted."""
    users: Sequence[ChangelogUser]

    @classmethod
    def read(cls, file: Path) -> RegisteredUsers:
        """Raises OSError where the file cannot be read, ValueError where it says something else."""
        found = parsed_json(read_named(file, _MOST_BYTES))
        if not isinstance(found, dict) or not isinstance(found.get("users"), dict):
            raise ValueError("it has no users")
        return cls(Path(_text(found, "mount", re.compile(r"/[^\0]*"))), _users(found["users"]))


def _users(found: dict[str, Any]) -> list[ChangelogUser]:
    return [_user(mdt, about) for mdt, about in sorted(found.items())]


def _user(mdt: str, about: object) -> ChangelogUser:
    if not _MDT.fullmatch(mdt):
        raise ValueError(f"{mdt!a} is no MDT")
    if not isinstance(about, dict):
        raise ValueError(f"nobody is registered at {mdt}")
    return ChangelogUser(mdt, _text(about, "user", _USER), int(_text(about, "index", _INDEX)))


def _text(found: dict[str, Any], name: str, pattern: re.Pattern[str]) -> str:
    value = found.get(name)
    value = str(value) if isinstance(value, int) else value
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise ValueError(f"its {name} is {value!a}")
    return value


class RepositoryChanges:
    """What one export asks of changelogs: first to take them, and then what was changed."""

    def __init__(self, opened: OpenRepository, source_of: SourceOf = LustreSource) -> None:
        self._opened = opened
        self._source_of = source_of
        self._journal = ChangeJournal(opened.known)

    def take(self) -> None:
        """Take what changelogs have. It needs no store, so that records never wait for one.

        Whatever is wrong with changelogs, a scan finds what they do not tell.
        """
        try:
            registered = self._registered()
            directory = self._opened.settings.directory
            prefix = relative_directory(directory, registered.mount)
            source = self._source_of(registered.mount)
        except (OSError, ValueError) as error:
            why = reason_of(error)
            self._journal.owe(f"changelogs cannot be read: {why}")
            return
        finder = PathFinder(source, self._journal, registered.mount, prefix)
        ChangeTaker(self._opened, source, finder, self._journal).take(registered.users)

    def _registered(self) -> RegisteredUsers:
        file = self._opened.settings.changelog
        if file is None:
            raise ValueError("no file says who is registered")
        try:
            return RegisteredUsers.read(file)
        except FileNotFoundError:
            raise ValueError(
                f"{file} is not there: gridwright setup registers a user, and writes it"
            ) from None
        except ValueError as error:
            raise ValueError(f"{file}: {error}; gridwright setup writes it anew") from None

    def find(self, report: RepositoryReport, *, deletions: bool) -> None:
        """Keep as work what an export has to do, of all that changelogs have told or a scan tells."""
        if why := self._journal.owed:
            report.notes.append(f"all files were looked at: {why}")
            find_all_changes(self._opened, self._journal, report, deletions=deletions)
        else:
            count = self._journal.count()
            what = "file or directory" if count == 1 else "files and directories"
            report.notes.append(f"changelogs named {count} {what}")
            find_reported_changes(self._opened, self._journal, report, deletions=deletions)


MOST_COUNTED = 100_000
"""Records that a look at the status reads."""


@dataclass(frozen=True, slots=True)
class ChangelogStanding:
    """One MDT's changelog."""

    mdt: str
    user: str
    index: int
    """The last record that this user has taken."""
    last: int
    """The last record that was read; that index where there is none behind it."""
    untaken: int
    """Records that no export has taken yet, up to `MOST_COUNTED`."""
    oldest_s: float | None
    """The age of the oldest of them, in seconds; None where there is none."""
    idle_s: float | None
    """How long ago an export has taken any, in seconds: Lustre removes users that are idle for long. None
    for never."""

    def text(self) -> str:
        """For people."""
        more = "more than " if self.untaken >= MOST_COUNTED else ""
        oldest = "" if self.oldest_s is None else f", the oldest {self.oldest_s:.0f} s old"
        idle = "never taken" if self.idle_s is None else f"last taken {self.idle_s:.0f} s ago"
        behind = f"{more}{counted(self.untaken, 'record')} behind (the last is {self.last}{oldest})"
        where = behind if self.untaken else "with none behind it"
        return f"{self.mdt}: user {self.user} is at record {self.index}, {where}; {idle}"


def standing_of(
    opened: OpenRepository, file: Path, source_of: SourceOf = LustreSource
) -> tuple[list[ChangelogStanding], str]:
    """How each MDT's changelog stands, and why some cannot be read. Nothing is taken or given up."""
    try:
        registered = RegisteredUsers.read(file)
        source = source_of(registered.mount)
    except (OSError, ValueError) as error:
        return [], f"{file}: {reason_of(error)}"
    journal, found, trouble = ChangeJournal(opened.known), [], ""
    for user in registered.users:
        try:
            found.append(_standing(journal, source, user))
        except (OSError, RecordError) as error:
            trouble = f"{user.mdt}: {reason_of(error)}"
    return found, trouble or journal.owed


def _standing(journal: ChangeJournal, source: ChangeSource, user: ChangelogUser) -> ChangelogStanding:
    position = journal.position(user.mdt)
    index = position.read_to if position else user.index
    untaken, last, oldest_ns, now = 0, index, None, time.time()
    for record in source.records(user.mdt, index + 1):
        last = max(last, record.index)
        oldest_ns = record.time_ns if oldest_ns is None else oldest_ns
        untaken += 1
        if untaken >= MOST_COUNTED:
            break
    return ChangelogStanding(
        user.mdt,
        user.user,
        index,
        last,
        untaken,
        None if oldest_ns is None else max(0.0, now - oldest_ns / 1e9),
        None if position is None else max(0.0, now - position.taken_s),
    )
