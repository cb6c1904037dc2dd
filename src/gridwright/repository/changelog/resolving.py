"""Paths of changed files: those that they have now, and those under which they are known.

What a file was called when it was last looked at is known by its inode, which is its FID; what it is called
now says Lustre. So no name and no parent of a record is needed, and a directory that was renamed since, or
is gone, does no harm.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gridwright.repository.changelog.background import answers
from gridwright.repository.changelog.journal import ChangeJournal
from gridwright.repository.changelog.records import inode_of
from gridwright.repository.changelog.source import ChangeSource
from gridwright.repository.copytool.action_list import Fid
from gridwright.repository.walking import is_own

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
        return _Named(fid, [each for each in inside if not is_own(each)], is_directory, leads_here)

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
