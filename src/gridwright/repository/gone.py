"""What has no object any more: somebody has deleted it in the bucket, or written another over it.

- Files whose objects are gone, or others. No export sends such a file by itself: what somebody did in the
  bucket is for imports to take over. But it is named, since nothing else has the file's content. Directories
  are none of these: the manifest has all that is theirs, and some stores list none.
- Names whose content was in the bucket alone: nothing has it any more. A life cycle rule, an emptied prefix
  or somebody's hand does that. Such a name stays known, and is told by every command that looks, until an
  import that takes deletions along has forgotten it: then it stays forgotten on that machine, whose next
  export tells the others, until its object is back. What another machine deletes is none: the manifest that
  it writes then has the name no more. Nor is what another library has, by the manifest: an export of that one
  sends it again.
- Rows of what is nowhere any more: no file here, no object in the bucket, and in no other library. Somebody
  has deleted both sides, or an import has followed a deletion in the bucket, which writes no manifest. Such
  rows say nothing, and would come back by the manifest of each machine that still has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gridwright.repository.known import GONE_BY_CHANGES, NO_DIRECTORY, Known
from gridwright.repository.known_file import KnownFile, row_stamp
from gridwright.repository.listed import LISTED
from gridwright.repository.publishing import NAMES, library_of
from gridwright.repository.scan import Action
from gridwright.repository.settings import OpenRepository, Prefer, RepositoryReport, is_chosen
from gridwright.repository.store import UNREADABLE

LOST = (
    "its object, the only copy of it, is gone, and no file is here: bring it back to the bucket, from an "
    "older version or a backup; gridwright repo import NAME --deletions forgets such names"
)
ELSEWHERE = "have no object any more, and a file in another library: export --prefer files there sends it"
FORGOTTEN = "forgotten, of objects that are gone"
TAKEN = "have the name of another that was in the bucket alone, and is gone from there"
NOWHERE = "are gone from here and from the bucket, and forgotten"
_ALL_THERE = "objects there"
"""The fact of when the bucket was listed last with all objects there."""
_DOES = (
    "gridwright repo export NAME --prefer files sends it, gridwright repo import NAME --deletions moves the "
    "file to the trash"
)
_GONE = f"its object is gone from the bucket, and it was not sent again: {_DOES}"
GONE = f"its object is gone from the bucket: {_DOES}"
GONE_DIRECTORY = (
    "the object of this directory is gone from the bucket, and the manifest alone has its owner, mode and "
    "times: gridwright repo export NAME --prefer files sends it"
)
_SENT = f"SELECT path FROM work WHERE action IN ('{Action.SEND}', '{Action.ATTRIBUTES}')"  # noqa: S608
_UNCHANGED = f"key IS NOT NULL AND (is_name_only = 0 OR inode = 0) AND path NOT IN ({_SENT})"
"""Rows of what was here as a whole, and what the scan has not found to be changed."""
_NOT_LISTED = "key NOT IN (SELECT key FROM listed)"
GIVEN_UP = (
    "inode = 0 AND is_name_only <> 0 AND (path IN (SELECT path FROM dropped) OR (libraries = '' AND EXISTS "
    "(SELECT 1 FROM forgotten WHERE forgotten.path = files.path AND forgotten.etag = files.etag "
    "AND forgotten.stored_ns >= files.stored_ns)))"
)
"""Rows of names that another machine has deleted, or this one has forgotten, unless they have an object."""
_UNLISTED = " AND ".join(
    (
        "is_name_only <> 0 AND key IS NOT NULL",
        "NOT EXISTS (SELECT 1 FROM listed WHERE listed.key = files.key)",
        f"NOT ({GIVEN_UP})",
    )
)
_NAMED = "is_name_only <> 0 AND path IN (SELECT path FROM lost)"
_NO_OBJECT = f"key IS NOT NULL AND path <> x'' AND {_NOT_LISTED}"
NO_MORE = f"{GIVEN_UP} AND {_NO_OBJECT}"
"""Rows of names that are to be forgotten."""
_EXPECTED = f"NOT ({NAMES}) AND {_NO_OBJECT}"
"""Rows of what was here, or was told to be, and has no object; a name only may be lost."""


def there(known: Known) -> str:
    """Which rows are of files that this run has found, or has no reason to doubt."""
    seen = "EXISTS (SELECT 1 FROM seen WHERE seen.path = files.path)"
    if known.gone is not GONE_BY_CHANGES:
        return seen
    return f"({seen} OR (inode <> 0 AND path NOT IN (SELECT path FROM gone)))"  # noqa: S608


def without_object(known: Known) -> Iterator[KnownFile]:
    """Files that the listing has no object of, and that no export sends for other reasons."""
    return known.rows(" AND ".join((_UNCHANGED, NO_DIRECTORY, there(known), _NOT_LISTED)))


def overwritten(known: Known) -> Iterator[tuple[KnownFile, float]]:
    """Files whose objects have another content by now, and since when, in seconds since 1970."""
    listed = "SELECT 1 FROM listed WHERE listed.key = files.key AND listed.etag NOT IN (files.etag, ?)"
    where = " AND ".join((_UNCHANGED, NO_DIRECTORY, there(known), f"EXISTS ({listed})"))
    for row in known.rows(where, UNREADABLE):
        if (found := known.listed(row.key or "")) is not None:
            yield row, found[2] / 1e9


def gone_files(known: Known) -> Iterator[KnownFile]:
    """Files and links whose objects an export would delete, and are not known to be gone, too."""
    listed = f" AND NOT ({_NOT_LISTED})" if known.is_listed else ""
    deleted = f"path IN (SELECT path FROM work WHERE action = '{Action.DELETE}')"  # noqa: S608
    return known.rows(f"{deleted} AND {NO_DIRECTORY}{listed}")


def all_were_there(known: Known) -> float | None:
    """When all files had their objects last, in seconds since 1970; None where nobody has looked."""
    return known.moment(_ALL_THERE)


def send_again(opened: OpenRepository, chosen: Sequence[bytes], prefer: Prefer | None) -> None:
    """Keep as work what has no object, where whoever exports says that files count; directories, too."""
    if prefer != "files":
        return
    batch: list[tuple[bytes, str, int, bytes | None]] = []
    for row in opened.known.rows(" AND ".join((_UNCHANGED, there(opened.known), _NOT_LISTED))):
        if is_chosen(row.path, chosen):
            batch.append((row.path, Action.SEND, row.size, row_stamp(row)))
    opened.known.add_work(batch)


def name_missing(opened: OpenRepository, chosen: Sequence[bytes], report: RepositoryReport) -> None:
    """Name files that have no object after an export, or would have none; note when there are none."""
    is_whole = not chosen and report.is_complete
    for row in without_object(opened.known):
        if is_chosen(row.path, chosen):
            is_whole = False
            report.problem(row.path, _GONE)
    if is_whole:
        opened.known.set_fact(_ALL_THERE, opened.known.fact(LISTED) or "")


def name_without_object(
    opened: OpenRepository, report: RepositoryReport, paths: Sequence[bytes] = ()
) -> Iterator[bytes]:
    """Make a problem of each file that is here, is known and has no object in the listing; their paths."""
    for row in opened.known.rows(f"{_EXPECTED} AND {NO_DIRECTORY}"):
        if is_chosen(row.path, paths) and not is_absent(opened, row.path):
            report.problem(row.path, GONE)
            yield row.path


def look_for_lost(opened: OpenRepository, chosen: Sequence[bytes] = ()) -> None:
    """Keep which names have no object in the listing of this run, which has all that were chosen."""
    known = opened.known
    known.database.execute("DELETE FROM forgotten WHERE key IN (SELECT key FROM listed)")
    lost = [
        row.path
        for row in known.rows(_UNLISTED)
        if is_chosen(row.path, chosen) and (row.inode or is_absent(opened, row.path))
    ]
    before = [path for (path,) in known.database.execute("SELECT path FROM lost") if is_chosen(path, chosen)]
    with known.transaction():
        known.database.executemany("DELETE FROM lost WHERE path = ?", ((path,) for path in before))
        known.database.executemany("INSERT INTO lost VALUES (?)", ((path,) for path in lost))


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
    told = opened.known.manifest_row_of(row.path)
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


def is_absent(opened: OpenRepository, path: bytes) -> bool:
    """Whether nothing has a path here; what cannot be looked at may be there."""
    try:
        return opened.below.status(path) is None
    except OSError:
        return False


def forget_nowhere(opened: OpenRepository, report: RepositoryReport, paths: Sequence[bytes] = ()) -> bool:
    """Forget what is nowhere, by the listing of this run, which is whole; whether anything was.

    What another library has, or another machine has released, stays known as a name.
    """
    known, own = opened.known, library_of(opened.known)
    going = [row.path for row in known.rows(NO_MORE) if is_chosen(row.path, paths)]
    for row in known.rows(_EXPECTED):
        if not is_chosen(row.path, paths) or not is_absent(opened, row.path) or has_objects(opened, row):
            continue
        newer = known.newer.get(row.path)
        told = newer if newer is not None and newer.is_later(row) else known.manifest_row_of(row.path)
        is_in_manifest = told is not None and (told.etag == row.etag or told.is_later(row))
        latest = told if told is not None and is_in_manifest else row
        others = latest.other_libraries(own)
        if not others and (latest is row or own in latest.libraries):
            report.note_of(NOWHERE, row.path, row.mode)
            going.append(row.path)
        elif (name := replace(latest.not_here(), libraries=" ".join(others))) != row:
            known.put(name)
    if going:
        known.forget(*going)
    return bool(going)


def forget_lost(known: Known, report: RepositoryReport, rows: Sequence[KnownFile]) -> None:
    """Forget names that nothing has any more, also where a manifest of another machine still has them."""
    for row in rows:
        report.add(FORGOTTEN, row.size, row.mode)
        report.note_of(
            "were in the bucket alone, gone from there, and forgotten; the next export tells other machines",
            row.path,
        )
    known.forget(*(row.path for row in rows))
    with known.transaction():
        known.database.executemany(
            "INSERT OR REPLACE INTO forgotten VALUES (?, ?, ?, ?)",
            ((row.path, row.key, row.etag, row.stored_ns) for row in rows),
        )
        known.database.executemany("DELETE FROM lost WHERE path = ?", ((row.path,) for row in rows))


def is_given_up(known: Known, row: KnownFile) -> bool:
    """Whether a name without an object is one that another machine has deleted, or this one has forgotten."""
    return any(True for _ in known.rows(f"path = ? AND {GIVEN_UP}", row.path))


def has_objects(opened: OpenRepository, row: KnownFile) -> bool:
    """Whether a directory has objects below it: some stores list none of its own."""
    return row.attributes.is_directory and opened.known.has_keys_below((row.key or "").rstrip("/"))
