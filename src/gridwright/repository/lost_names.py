"""Names whose content was in the bucket alone, and whose objects are gone: nothing has them any more.

A life cycle rule, an emptied prefix or somebody's hand does that. Such a name stays known, and is told by
every command that looks, until an import that takes deletions along has forgotten it. What another machine
deletes is none: the manifest that it writes then has the name no more. Nor is what another library has, by
the manifest: an export of that one sends it again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from gridwright.repository.knowledge import keep_listing
from gridwright.repository.known import Known
from gridwright.repository.known_file import KnownFile
from gridwright.repository.nowhere import is_absent
from gridwright.repository.publishing import NAMES, library_of
from gridwright.repository.settings import OpenRepository, RepositoryReport, is_chosen

LOST = (
    "its object, the only copy of it, is gone, and no file is here: bring it back to the bucket, from an "
    "older version or a backup, or have import --deletions --delete-up-to N forget such names"
)
ELSEWHERE = (
    "have no object any more, and another library has their files: export --prefer files there sends them"
)
FORGOTTEN = "forgotten, of objects that are gone"
TAKEN = "have the name of another that was in the bucket alone, and is gone from there"
_UNLISTED = (
    "is_name_only <> 0 AND key IS NOT NULL "
    "AND NOT EXISTS (SELECT 1 FROM listed WHERE listed.key = files.key) "
    "AND NOT EXISTS (SELECT 1 FROM dropped WHERE dropped.path = files.path)"
)
_NAMED = "is_name_only <> 0 AND path IN (SELECT path FROM lost)"
_LOOKED = "names looked for"
_FEW, _AGAIN_S = 100_000, 86_400.0
"""A listing of so many objects takes a hundred requests; of more, an export makes one a day."""


def look_for_lost(opened: OpenRepository) -> None:
    """Keep which names have no object in the listing of this run, which is whole."""
    known = opened.known
    lost = [row.path for row in known.rows(_UNLISTED) if row.inode or is_absent(opened, row.path)]
    with known.transaction():
        known.database.execute("DELETE FROM lost")
        known.database.executemany("INSERT INTO lost VALUES (?)", ((path,) for path in lost))
    known.set_fact(_LOOKED, repr(time.time()))


def look_in_export(opened: OpenRepository, report: RepositoryReport, paths: Sequence[bytes]) -> None:
    """Name what is lost, when all is done; an export needs no listing else. Raises StoreError."""
    if opened.known.is_listed and not paths:
        look_for_lost(opened)
    elif _is_time_to_look(opened.known):
        keep_listing(opened.known, opened.store.list(opened.keys.start))
        look_for_lost(opened)
    name_lost(opened, report, paths)


def _is_time_to_look(known: Known) -> bool:
    if not known.count(NAMES)[0]:
        return False
    looked = known.moment(_LOOKED) or 0.0
    return known.count()[0] <= _FEW or not 0 <= time.time() - looked < _AGAIN_S


def gone_names(opened: OpenRepository, paths: Sequence[bytes] = ()) -> list[KnownFile]:
    """The rows of names without objects, as they were when they were last looked for, in the order of paths.

    A file may have such a name, as in a library that shares its bucket: it is left out.
    """
    return [
        row
        for row in opened.known.rows(_NAMED)
        if is_chosen(row.path, paths) and (row.inode or is_absent(opened, row.path))
    ]


def is_elsewhere(opened: OpenRepository, row: KnownFile) -> bool:
    """Whether the manifest names another library that has the file of a name that no file has here."""
    told = opened.known.told_path(row.path)
    latest = told if told is not None and told.etag == row.etag else row
    return not row.inode and bool(latest.other_libraries(library_of(opened.known)))


def lost_names(opened: OpenRepository, paths: Sequence[bytes] = ()) -> list[KnownFile]:
    """The rows of names that nothing has any more."""
    return [row for row in gone_names(opened, paths) if not is_elsewhere(opened, row)]


def name_lost(opened: OpenRepository, report: RepositoryReport, paths: Sequence[bytes] = ()) -> None:
    """Make each that is lost a problem of the report, and the others a note."""
    for row in gone_names(opened, paths):
        if is_elsewhere(opened, row):
            report.note_of(ELSEWHERE, row.path)
        else:
            report.problem(row.path, LOST)
