"""Finds what of a repository's files was changed since file and object were equal: one look at each name.

A file whose ctime is the known one was not touched. Where it differs, size, mtime and attributes say what
was; where these are the same, too, the content decides, since tools set times back.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gridwright.repository.below import is_part, kind_of
from gridwright.repository.keys import RESERVED, shown
from gridwright.repository.known import GONE, KnownFile, is_hidden
from gridwright.repository.object_format import kept_mode
from gridwright.repository.settings import OpenRepository, RepositoryReport, is_chosen

_BATCH = 1000


class Action(StrEnum):
    """What an export has to do."""

    SEND = "sent"
    """The content is new or changed."""
    ATTRIBUTES = "given new attributes"
    COMPARE = "compared"
    """Something was touched that leaves no trace but the ctime."""
    RENAME = "renamed in the bucket"
    DELETE = "deleted from the bucket"


@dataclass(frozen=True, slots=True)
class ScannedFile:
    """A file, a directory or a link of a scan."""

    path: bytes
    status: os.stat_result


def walk(
    opened: OpenRepository, chosen: Sequence[bytes], report: RepositoryReport, unread: set[bytes]
) -> Iterator[list[ScannedFile]]:
    """Everything below the repository's directory, each directory after the one that it lies in.

    What cannot be read, what has no object, and other file systems are problems of the report. Gridwright's
    own files are left out. Paths that nobody could look at are added to `unread`: nothing at or below them is
    known to be gone.
    """
    root = os.fstat(opened.below.root)
    waiting: list[bytes] = [b""]
    if not chosen:
        yield [ScannedFile(b"", root)]
    while waiting:
        directory = waiting.pop()
        found: list[ScannedFile] = []
        for path, status in _entries(opened, directory, report, unread):
            if stat.S_ISDIR(status.st_mode):
                if status.st_dev != root.st_dev:
                    report.problem(path, "another file system is mounted there, and left out")
                    unread.add(path)
                    continue
                if _leads_to(path, chosen):
                    waiting.append(path)
            if is_chosen(path, chosen):
                found.append(ScannedFile(path, status))
        yield found


def _leads_to(directory: bytes, chosen: Sequence[bytes]) -> bool:
    return is_chosen(directory, chosen) or any(each.startswith(directory + b"/") for each in chosen)


def _entries(
    opened: OpenRepository, directory: bytes, report: RepositoryReport, unread: set[bytes]
) -> Iterator[tuple[bytes, os.stat_result]]:
    """Names of a directory with their status, in the order of names."""
    try:
        if directory:
            parent, name = opened.below.parent(directory + b"/.")
            descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent)
        else:
            descriptor = os.dup(opened.below.root)
    except OSError as error:
        unread.add(directory)
        report.problem(directory, f"the directory cannot be read: {error.strerror}")
        return
    try:
        names = _names(descriptor)
        if names is None:
            unread.add(directory)
            report.problem(directory, "the directory cannot be read: its list of names broke off")
            return
        for name in names:
            if is_part(name) or (not directory and name == RESERVED.encode()):
                continue
            path = directory + b"/" + name if directory else name
            try:
                status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            except FileNotFoundError:
                continue
            except OSError as error:
                unread.add(path)
                report.problem(path, f"it cannot be looked at: {error.strerror}")
                continue
            if stat.S_IFMT(status.st_mode) not in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
                report.notes.append(f"{shown(path)} is {kind_of(status.st_mode)}: it has no object")
                continue
            yield path, status
    finally:
        os.close(descriptor)


def _names(descriptor: int) -> list[bytes] | None:
    """Names of an open directory, sorted; None where they could not all be read."""
    try:
        with os.scandir(descriptor) as entries:
            return sorted(os.fsencode(each.name) for each in entries)
    except OSError:
        return None


def find_changes(
    opened: OpenRepository, chosen: Sequence[bytes], report: RepositoryReport, *, deletions: bool
) -> dict[str, tuple[int, int]]:
    """Scan, and keep as work what an export has to do; how much, and its bytes, by action."""
    known, unread = opened.known, set[bytes]()
    for found in walk(opened, chosen, report, unread):
        for start in range(0, len(found), _BATCH):
            some = found[start : start + _BATCH]
            work = [(each.path, *_action(opened, each)) for each in some]
            known.mark(each.path for each in some)
            known.add_work((path, action, size, None) for path, action, size in work if action is not None)
    _find_gone(opened, chosen, unread, deletions=deletions, report=report)
    return known.count_work()


def _action(opened: OpenRepository, found: ScannedFile) -> tuple[Action | None, int]:
    status = found.status
    if not found.path and opened.cover.is_closed:
        # What it has now is no user's will.
        return None, 0
    size = 0 if stat.S_ISDIR(status.st_mode) else status.st_size
    return action_for(status, opened.known.get(found.path)), size


def action_for(status: os.stat_result, row: KnownFile | None) -> Action | None:
    """What the status of a file means beside what is known of it."""
    if row is None or stat.S_IFMT(row.mode) != stat.S_IFMT(status.st_mode):
        return Action.SEND
    if row.ctime_ns == status.st_ctime_ns and row.inode == status.st_ino:
        return None
    is_directory = stat.S_ISDIR(status.st_mode)
    if not is_directory and (row.size != status.st_size or row.mtime_ns != status.st_mtime_ns):
        return Action.SEND
    mode = row.mode if is_hidden(row, status) else kept_mode(status.st_mode)
    same = (row.mode, row.uid, row.gid) == (mode, status.st_uid, status.st_gid)
    if is_directory:
        return None if same and row.mtime_ns == status.st_mtime_ns else Action.ATTRIBUTES
    return Action.COMPARE if same else Action.ATTRIBUTES


def _find_gone(
    opened: OpenRepository,
    chosen: Sequence[bytes],
    unread: Collection[bytes],
    *,
    deletions: bool,
    report: RepositoryReport,
) -> None:
    """Rows that the scan has not found: their objects go when that is wanted, and are left else.

    None of these is a row that came from the bucket, of a file that never was here, nor one of a path that
    the scan could not look at.
    """
    left = 0
    batch: list[tuple[bytes, str, int, bytes | None]] = []
    for row in opened.known.rows(GONE, order="path DESC"):
        if not is_chosen(row.path, chosen) or _is_within(row.path, unread):
            continue
        if deletions:
            batch.append((row.path, Action.DELETE, row.size, None))
        else:
            left += 1
    opened.known.add_work(batch)
    if left:
        report.notes.append(
            f"{left} objects are of files that are gone; --deletions deletes them, an import makes the files"
        )


def _is_within(path: bytes, directories: Collection[bytes]) -> bool:
    """Whether a path, or a directory that it lies in, is one of these."""
    if not directories:
        return False
    while path:
        if path in directories:
            return True
        path = path.rpartition(b"/")[0]
    return b"" in directories
