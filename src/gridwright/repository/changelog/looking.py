"""Looks at files that changelogs name, as a scan looks at all: the record says where, the disk what is so."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gridwright.beneath import Beneath
from gridwright.repository.changelog.background import answers
from gridwright.repository.changelog.journal import ChangeJournal
from gridwright.repository.changelog.tables import GONE_BY_CHANGES
from gridwright.repository.scan import find_gone, keep_changed, look_at_root, note_troubles, scan
from gridwright.repository.settings import OpenRepository, RepositoryReport
from gridwright.repository.walking import UnreadDirectory

if TYPE_CHECKING:
    from gridwright.repository.walking import FileStatus

_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
_Looked = tuple[list[tuple[bytes, "FileStatus"]], list[bytes], list[UnreadDirectory]]
"""What is there, what is not, and what could not be looked at."""


def find_told_changes(
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
