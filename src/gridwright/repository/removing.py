"""Moves files whose objects are gone to the trash, where that is wanted and they were not changed here.

Names of objects that are gone are no files: they are forgotten where that is wanted.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Sequence

from gridwright.repository.comparing import FileSide, file_side
from gridwright.repository.deletion_limit import Deletions, note_refusal
from gridwright.repository.gone import (
    FORGOTTEN,
    forget_nowhere,
    has_objects,
    look_for_lost,
    lost_names,
    name_lost,
)
from gridwright.repository.known import NO_DIRECTORY
from gridwright.repository.known_file import KnownFile
from gridwright.repository.making import Maker
from gridwright.repository.publishing import NAMES
from gridwright.repository.settings import OpenRepository, RepositoryReport, is_chosen

HERE = "inode <> 0 AND key IS NOT NULL AND path <> x''"
"""Rows of what has objects, without the repository's own directory."""
REMOVED_DIRECTORIES = "removed as empty directories"


def remove_gone(
    opened: OpenRepository,
    make: Maker,
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
    gone = _gone(opened, report, paths)
    look_for_lost(opened)
    lost = [row for row in lost_names(opened, paths) if not row.inode]
    if known is None:
        if report.is_complete and not (gone or lost or paths):
            note_refusal(opened.known, "import", None)
        name_lost(opened, report, paths)
        for row in reversed(gone):
            report.note_of("have no object any more; --deletions moves such to the trash", row.path)
        return
    is_empty = all(each[0] == opened.keys.start for each in opened.known.all_listed())
    count = sum(not row.attributes.is_directory for row in gone) + len(lost)
    why = Deletions(count, known, is_all=is_empty or count >= known).refusal(up_to)
    note_refusal(opened.known, "import", why)
    if why is not None:
        report.problem("--deletions", why)
        name_lost(opened, report, paths)
        return
    for row in gone:
        if _is_removed(opened, make, report, row):
            report.add(REMOVED_DIRECTORIES if row.attributes.is_directory else "removed", row.size)
    for row in lost:
        report.add(FORGOTTEN, row.size)
        report.note_of("were in the bucket alone, gone from there, and forgotten", row.path)
        opened.known.forget(row.path)


def count_known(opened: OpenRepository) -> int:
    """How many files, links and names there are to be removed or forgotten."""
    return opened.known.count(f"{HERE} AND {NO_DIRECTORY}")[0] + opened.known.count(NAMES)[0]


def _gone(opened: OpenRepository, report: RepositoryReport, paths: Sequence[bytes]) -> list[KnownFile]:
    """The rows of what was not changed and has no object, what lies within a directory before it.

    A directory is one of these where nothing would be left in it, and nothing is to come.
    """
    found: list[KnownFile] = []
    going = set[bytes]()
    for row in opened.known.rows(HERE, order="path DESC"):
        if not is_chosen(row.path, paths) or opened.known.listed(row.key or ""):
            continue
        try:
            status = opened.below.status(row.path)
            if status is None or file_side(opened, row.path, status, row) is FileSide.CHANGED:
                continue
            if row.attributes.is_directory and not _is_to_be_empty(opened, row, going):
                continue
        except OSError as error:
            report.problem(row.path, f"whether it was changed cannot be seen: {error.strerror}")
            continue
        found.append(row)
        going.add(row.path)
    return found


def _is_to_be_empty(opened: OpenRepository, row: KnownFile, going: Collection[bytes]) -> bool:
    """Whether nothing lies in a directory but what goes. Raises OSError."""
    if has_objects(opened, row):
        return False
    names = os.listdir(opened.below.parent(row.path + b"/.")[0])  # noqa: PTH208 - of a descriptor
    return all(row.path + b"/" + os.fsencode(name) in going for name in names)


def _is_removed(opened: OpenRepository, make: Maker, report: RepositoryReport, row: KnownFile) -> bool:
    try:
        status = opened.below.status(row.path)
        if status is None:
            return False
        # A directory has another time since files in it were removed; it goes where nothing is left in it.
        is_directory = stat.S_ISDIR(status.st_mode)
        if not is_directory and file_side(opened, row.path, status, row) is FileSide.CHANGED:
            return False
        make.remove(row, status)
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            report.refused(row.path, "removed", error)
        return False
    opened.known.forget(row.path)
    return True
