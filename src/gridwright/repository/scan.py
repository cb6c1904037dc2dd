"""Finds what of a repository's files was changed since file and object were equal: one look at each name.

A file whose size, mtime and ctime are the known ones was not touched: a ctime is only known where it was old
enough when it was looked at (`file_clock.py`). Where it differs, or is not known, size, mtime and attributes
say what was touched; where these are the same, too, the content decides, since tools set times back.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Collection, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from gridwright.errors import nearest
from gridwright.repository.below import ASIDE, PART, RELEASING, is_own_part, kind_of
from gridwright.repository.file_clock import UNKNOWN, is_stored_as
from gridwright.repository.keys import RESERVED, TRASH, KeyRefusal, shown
from gridwright.repository.known import Known
from gridwright.repository.known_file import KnownFile, sent_stamp, stamp_of
from gridwright.repository.object_format import portable_mode
from gridwright.repository.s3.parts import why_too_large
from gridwright.repository.settings import OpenRepository, RepositoryReport, is_chosen
from gridwright.repository.state_directory import OF_BUCKETS, is_state_file
from gridwright.repository.state_failures import state_failure
from gridwright.repository.walking import MARK, UnreadDirectory, is_storable, walk_below

if TYPE_CHECKING:
    from gridwright.repository.walking import FileStatus


_MOST = 2000
"""Names of a directory that are compared with one."""


def name_unknown(opened: OpenRepository, report: RepositoryReport, paths: Sequence[bytes]) -> None:
    """Make a problem of each path that is neither here, nor known, nor in the listing of this run, if any."""
    for path in paths:
        if not (_is_here(opened, path) or _is_known(opened, path) or _is_listed(opened, path)):
            hint = f"; did you mean {shown(near)}?" if (near := _near(opened, path)) else ""
            report.problem(
                path,
                f"nothing below {shown(os.fsencode(opened.settings.directory))}, and nothing in the bucket, "
                f"has that name{hint}",
            )


def _near(opened: OpenRepository, path: bytes) -> bytes | None:
    """What was meant: a path from where the directory itself lies, or one with a name that is like it."""
    own, _, rest = path.partition(b"/")
    if own == os.fsencode(opened.settings.directory.name) and rest and _is_here(opened, rest):
        return rest
    near = nearest(os.fsdecode(path.rpartition(b"/")[2]), _beside(opened, path))
    return _joined(path, os.fsencode(near)) if near else None


def _joined(path: bytes, name: bytes) -> bytes:
    return b"/".join([*path.split(b"/")[:-1], name])


def _is_here(opened: OpenRepository, path: bytes) -> bool:
    try:
        return opened.below.status(path) is not None
    except OSError:
        # It is not seen; who works on it says why.
        return True


def _is_known(opened: OpenRepository, path: bytes) -> bool:
    query = "SELECT 1 FROM files WHERE path = ? OR (path >= ? AND path < ?) LIMIT 1"
    found = opened.known.database.execute(query, (path, path + b"/", path + b"0"))
    return found.fetchone() is not None


def _is_listed(opened: OpenRepository, path: bytes) -> bool:
    try:
        key = opened.keys.key_of(path, is_directory=False)
    except KeyRefusal:
        return False
    return opened.known.listed(key) is not None or opened.known.has_keys_below(key)


def _beside(opened: OpenRepository, path: bytes) -> Iterable[str]:
    """Names in the directory of a path, here, known and listed; some of them where there are many."""
    start = path[: len(path) - len(path.rpartition(b"/")[2])]
    found = set[bytes]()
    with suppress(OSError):
        found.update(map(os.fsencode, os.listdir(opened.below.parent(path)[0])[:_MOST]))  # noqa: PTH208
    rows = opened.known.database.execute(
        "SELECT path FROM files WHERE path > ? AND path < ? LIMIT ?",
        (start, start[:-1] + b"0" if start else b"\xff", _MOST),
    )
    found.update(each[len(start) :].partition(b"/")[0] for (each,) in rows)
    for (key,) in opened.known.database.execute("SELECT key FROM listed LIMIT ?", (_MOST,)):
        with suppress(KeyRefusal):
            each = opened.keys.path_of(key)[0]
            if each.startswith(start):
                found.add(each[len(start) :].partition(b"/")[0])
    return sorted(os.fsdecode(each) for each in found if each)


_TRASH = [RESERVED.encode(), TRASH.encode()]
_BUSY_S = 30.0
"""How long another command of the state of another bucket may take."""
_HOLES = 1 << 30
"""Bytes that a file has not here, and that an export sends all the same: so many are worth a note."""


class Action(StrEnum):
    """What an export has to do."""

    SEND = "sent"
    """The content is new or changed."""
    ATTRIBUTES = "given new attributes"
    COMPARE = "compared"
    """Something was touched that leaves no trace but the ctime, such as extended attributes."""
    RENAME = "renamed in the bucket"
    DELETE = "deleted from the bucket"


@dataclass(slots=True)
class MetFiles:
    """Files and symbolic links that a scan has met: of what it has, directories are not counted."""

    count: int = 0
    """Of names."""
    bytes: int = 0
    """Those of a file with several names once."""
    _linked: set[int] = field(default_factory=set)

    def add(self, status: FileStatus) -> None:
        """Count one more name."""
        if stat.S_ISDIR(status.st_mode) or not is_storable(status.st_mode):
            return
        self.count += 1
        if status.st_nlink > 1:
            if status.st_ino in self._linked:
                return
            self._linked.add(status.st_ino)
        self.bytes += status.st_size


def find_changes(
    opened: OpenRepository,
    chosen: Sequence[bytes],
    report: RepositoryReport,
    *,
    deletions: bool,
    met: MetFiles | None = None,
) -> dict[str, tuple[int, int]]:
    """Scan, and keep as work what an export has to do; how much, and its bytes, by action.

    What cannot be read, what has no object, and other file systems are problems and notes of the report.
    All files are counted in `met`.
    """
    unread = scan(opened, chosen, report, met)
    find_gone(opened, chosen, unread, deletions=deletions, report=report)
    return opened.known.count_work()


def scan(
    opened: OpenRepository, chosen: Sequence[bytes], report: RepositoryReport, met: MetFiles | None = None
) -> set[bytes]:
    """Look at all names, or at those that were chosen with all below them; the directories left unread."""
    if not chosen:
        look_at_root(opened)
    name_unknown(opened, report, chosen)
    unread = set[bytes]()
    noted = opened.known.fact(RELEASING) or "0"
    left_out = partial(_leave_out, report, b"" if noted == "0" else noted.encode())
    try:
        for walked, troubles in walk_below(opened.below.root, chosen, left_out=left_out):
            unread |= note_troubles(troubles, report)
            if met is not None:
                for each in walked:
                    met.add(each)
            keep_changed(opened, [(each.path, each) for each in walked], report)
    except OSError as error:
        unread.add(b"")
        report.problem(b"", UnreadDirectory(b"", error.errno).why)
    return unread


def _leave_out(report: RepositoryReport, noted: bytes, path: bytes, status: FileStatus) -> None:
    """Name what a scan leaves out for its name, and is no state or unfinished file of Gridwright itself.

    Only what lies below the secret that a release has `noted` is put back: any user may give such names.
    """
    names = path.split(b"/")
    if stat.S_ISDIR(status.st_mode) or any(map(is_own_part, names)) or names[:2] == _TRASH:
        return
    if any(own.startswith(ASIDE) and noted in (within, b"1") for own, within in pairwise(names)):
        report.note_of(
            "lie aside, of a release that runs or was killed; the next command that changes something puts "
            "back what lies there",
            path,
        )
    elif len(names) != 2 or not (names[-1] == MARK or is_state_file(names[-1])):
        report.note_of(
            f"are never exported: names in {RESERVED}, and names that begin with {PART.decode()}, are "
            "Gridwright's own",
            path,
        )


def look_at_root(opened: OpenRepository) -> None:
    """Look at the repository's own directory."""
    opened.known.mark([b""])
    _keep_work(opened, [(b"", os.fstat(opened.below.root))])


def note_troubles(troubles: Sequence[UnreadDirectory], report: RepositoryReport) -> set[bytes]:
    """Name directories that were not looked into; their paths."""
    for trouble in troubles:
        report.problem(trouble.path, trouble.why)
    return {trouble.path for trouble in troubles}


def keep_changed(
    opened: OpenRepository, looked_at: Sequence[tuple[bytes, FileStatus]], report: RepositoryReport
) -> None:
    """Mark what was looked at as found, and keep as work what was touched since it was known."""
    found = [(path, status) for path, status in looked_at if _has_object(path, status, report)]
    opened.known.mark(path for path, _ in found)
    stamps = opened.known.stamps([path for path, _ in found])
    touched = [(path, each) for path, each in found if stamps.get(path) != stamp_of(each)]
    fitting = (each for each in touched if _fits_object(opened, *each, report))
    _keep_work(opened, [each for each in fitting if each[0] in stamps or _has_key(opened, *each, report)])


def _has_object(path: bytes, status: FileStatus, report: RepositoryReport) -> bool:
    if is_storable(status.st_mode):
        return True
    report.note_of(f"have no object, since each is {kind_of(status.st_mode)}", path)
    return False


def _fits_object(opened: OpenRepository, path: bytes, status: FileStatus, report: RepositoryReport) -> bool:
    """Whether an object can be as large as a file; names one that can be none, or is mostly holes."""
    if not stat.S_ISREG(status.st_mode):
        return True
    if reason := why_too_large(status.st_size):
        report.nameless.add(path, reason)
        return False
    here = status.st_blocks * 512
    # What is released on a Lustre has no blocks here, and no holes.
    if not opened.is_guarded and status.st_size - here >= _HOLES and here * 2 < status.st_size:
        report.note_of("take less than half of the size here: holes are sent as zeros", path)
    return True


def _has_key(opened: OpenRepository, path: bytes, status: FileStatus, report: RepositoryReport) -> bool:
    """Whether an object can have this name. Where not, no export can help: it is whole without the file."""
    try:
        opened.keys.key_of(path, is_directory=stat.S_ISDIR(status.st_mode))
    except KeyRefusal as refusal:
        report.nameless.add(path, refusal.reason)
        return False
    return True


def _keep_work(opened: OpenRepository, found: Sequence[tuple[bytes, FileStatus]]) -> None:
    work = []
    for path, status in found:
        action = action_for(status, opened.known.get(path))
        # The clock of the file system is read by the ctime of the repository's own directory.
        if action is not None and (path or action is not Action.COMPARE):
            size = 0 if stat.S_ISDIR(status.st_mode) else status.st_size
            work.append((path, action, size, sent_stamp(status)))
    opened.known.add_work(work)


def action_for(status: FileStatus, row: KnownFile | None) -> Action | None:
    """What the status of a file means beside what is known of it."""
    if row is None or stat.S_IFMT(row.mode) != stat.S_IFMT(status.st_mode):
        return Action.SEND
    _, size, mtime_ns, ctime_ns, inode = stamp_of(status)
    is_directory = stat.S_ISDIR(status.st_mode)
    if not is_directory and (row.size != size or not is_stored_as(row.mtime_ns, mtime_ns)):
        return Action.SEND
    if (row.ctime_ns, row.inode) == (ctime_ns, inode) and ctime_ns != UNKNOWN:
        return None
    same = (row.mode, row.uid, row.gid) == (portable_mode(status.st_mode), status.st_uid, status.st_gid)
    if is_directory and not is_stored_as(row.mtime_ns, mtime_ns):
        return Action.ATTRIBUTES
    return Action.COMPARE if same else Action.ATTRIBUTES


def find_gone(
    opened: OpenRepository,
    chosen: Sequence[bytes],
    unread: Collection[bytes],
    *,
    deletions: bool,
    report: RepositoryReport,
) -> None:
    """Rows whose files were not found: their objects go when that is wanted, and are left else.

    A row that came from the bucket, of a file that never was here, is none of these; nor is one below a
    directory that was not read.
    """
    left, others = 0, OtherBuckets(opened.known)
    batch: list[tuple[bytes, str, int, bytes | None]] = []
    for row in opened.known.rows(opened.known.gone, order="path DESC"):
        if not is_chosen(row.path, chosen) or _is_within(row.path, unread):
            continue
        if others.have_released(row.path):
            opened.known.put(row.not_here())
            report.note_of("were released to another bucket: objects stay", row.path)
        elif deletions:
            batch.append((row.path, Action.DELETE, row.size, None))
        elif not row.attributes.is_directory and (
            not opened.known.is_listed or opened.known.listed(row.key or "") is not None
        ):
            left += 1
    opened.known.add_work(batch)
    if left:
        objects = "1 object is of a file" if left == 1 else f"{left:,} objects are of files"
        is_sure = "" if opened.known.is_listed else ", unless somebody has deleted them"
        report.notes.append(
            f"{objects} that {'is' if left == 1 else 'are'} gone{is_sure}; gridwright repo export NAME "
            "--deletions deletes them, gridwright repo import NAME makes the files"
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


class OtherBuckets:
    """What is known of the same directory with other buckets: what was released to one is not removed.

    The files of the state directory beside that of this bucket. One thread uses it.
    """

    def __init__(self, known: Known) -> None:
        found = known.state.path.glob(OF_BUCKETS)
        self._files = [each for each in sorted(found) if each != known.file]

    def have_released(self, path: bytes) -> bool:
        """Whether one of them says that a file is in its bucket alone. Raises GridwrightError."""
        return any(_has_released(each, path) for each in self._files)


def _has_released(file: Path, path: bytes) -> bool:
    query = "SELECT 1 FROM files WHERE path = ? AND inode = 0 AND is_name_only <> 0"
    try:
        # A journal that a kill has left is played back, so that it is not opened for reading alone.
        url = f"file:{quote(str(file))}?mode=rw"
        with closing(sqlite3.connect(url, uri=True, timeout=_BUSY_S)) as database:
            return database.execute(query, (path,)).fetchone() is not None
    except sqlite3.Error as error:
        with suppress(FileNotFoundError):
            file.stat()
            raise state_failure(error, file) from error
        return False
