"""Moves files whose objects are gone to the trash, where that is wanted and they were not changed here.

Names of objects that are gone are no files: they are forgotten where that is wanted (`lost_names.py`).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence

from gridwright.repository.comparing import FileSide, file_side
from gridwright.repository.deletion_limit import Deletions, note_refusal
from gridwright.repository.known_file import KnownFile
from gridwright.repository.lost_names import FORGOTTEN, look_for_lost, lost_names, name_lost
from gridwright.repository.nowhere import forget_nowhere
from gridwright.repository.placing import Placer
from gridwright.repository.publishing import NAMES
from gridwright.repository.settings import OpenRepository, RepositoryReport, is_chosen

HERE = "inode <> 0 AND key IS NOT NULL AND path <> x''"
"""Rows of files that have objects, without the repository's own directory."""


def remove_gone(
    opened: OpenRepository,
    placer: Placer,
    report: RepositoryReport,
    paths: Sequence[bytes],
    *,
    known: int | None,
    up_to: int | None,
) -> None:
    """Remove files whose objects the listing does not have; `known` is of how many, None only counts them.

    More than is usual are left, unless `up_to` names as many (`deletion_limit.py`). Names that no file has
    are forgotten with them, and stay known and are named where that is refused, or not asked for.
    """
    forget_nowhere(opened, report, paths)
    gone = list(_gone(opened, report, paths))
    look_for_lost(opened)
    lost = [row for row in lost_names(opened, paths) if not row.inode]
    if known is None:
        if report.is_complete and not (gone or lost or paths or report.is_dry_run):
            note_refusal(opened.known, "import", None)
        name_lost(opened, report, paths)
        for path, _ in reversed(gone):
            report.note_of("have no object any more; --deletions moves such to the trash", path)
        return
    is_empty = all(
        opened.keys.is_own(each[0]) or each[0] == opened.keys.start for each in opened.known.all_listed()
    )
    count = len(gone) + len(lost)
    why = Deletions(count, known, is_all=is_empty or count >= known).refusal(up_to)
    if not report.is_dry_run:
        note_refusal(opened.known, "import", why)
    if why is not None:
        report.problem("--deletions", why)
        name_lost(opened, report, paths)
        return
    for path, size in gone:
        if report.is_dry_run or _is_removed(opened, placer, report, path):
            report.add("removed", size)
    for row in lost:
        report.add(FORGOTTEN, row.size)
        report.note_of("were in the bucket alone, gone from there, and forgotten", row.path)
        if not report.is_dry_run:
            opened.known.forget(row.path)


def count_known(opened: OpenRepository) -> int:
    """How many files and names there are to be removed or forgotten."""
    return opened.known.count(HERE)[0] + opened.known.count(NAMES)[0]


def _gone(
    opened: OpenRepository, report: RepositoryReport, paths: Sequence[bytes]
) -> list[tuple[bytes, int]]:
    """Path and size of each file that was not changed and whose object is gone, what lies within before."""
    found: list[tuple[bytes, int]] = []
    for row in opened.known.rows(HERE, order="path DESC"):
        if not is_chosen(row.path, paths) or opened.known.listed(row.key or ""):
            continue
        try:
            status = opened.below.status(row.path)
            if status is not None and file_side(opened, row.path, status, row) is not FileSide.CHANGED:
                found.append((row.path, row.size))
        except OSError as error:
            report.problem(row.path, f"whether it was changed cannot be seen: {error.strerror}")
    return found


def _is_removed(opened: OpenRepository, placer: Placer, report: RepositoryReport, path: bytes) -> bool:
    row = opened.known.get(path)
    try:
        status = opened.below.status(path)
        if row is None or status is None:
            return False
        # A directory has another time since files in it were removed; it goes where nothing is left in it.
        is_directory = stat.S_ISDIR(status.st_mode)
        if not is_directory and file_side(opened, path, status, row) is FileSide.CHANGED:
            return False
        _remove(opened, placer, row, status)
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            report.refused(path, "removed", error)
        return False
    opened.known.forget(path)
    return True


def _remove(opened: OpenRepository, placer: Placer, row: KnownFile, status: os.stat_result) -> None:
    directory, name = opened.below.parent(row.path)
    if stat.S_ISDIR(status.st_mode):
        os.rmdir(name, dir_fd=directory)
        opened.below.refresh()
    else:
        placer.remove(row.path, directory, name, status)
