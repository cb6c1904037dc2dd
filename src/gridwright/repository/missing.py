"""Finds files that are here and have no object any more: somebody has deleted it, or written another over it.

No export sends such a file by itself: what somebody did in the bucket is for imports to take over. But it is
named, since nothing else has the file's content. Directories are none of these: the manifest has all that is
theirs, and some stores list none.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain

from gridwright.repository.changelog.tables import GONE_BY_CHANGES
from gridwright.repository.keys import KeyRefusal
from gridwright.repository.knowledge import keep_listing
from gridwright.repository.known import Known
from gridwright.repository.known_file import KnownFile, row_stamp
from gridwright.repository.scan import Action
from gridwright.repository.settings import OpenRepository, Prefer, RepositoryReport, is_chosen
from gridwright.repository.store import UNREADABLE, ObjectEntry

_ALL_THERE, _LISTED = "objects there", "listed"
"""Facts: when the bucket was listed last with all objects there, and at all."""
_LOOK_S = 86_400.0
"""Who exports by changelogs lists the bucket as seldom, since that may be most of the work."""
_DOES = "export --prefer files sends it, import --deletions moves the file to the trash"
_GONE = f"its object is gone from the bucket, and it was not sent again: {_DOES}"
GONE = f"its object is gone from the bucket: {_DOES}"
GONE_DIRECTORY = (
    "the object of this directory is gone from the bucket, and the manifest alone has its owner, mode and "
    "times: export --prefer files sends it"
)
_SENT = f"SELECT path FROM work WHERE action IN ('{Action.SEND}', '{Action.ATTRIBUTES}')"  # noqa: S608
_UNCHANGED = f"key IS NOT NULL AND (is_name_only = 0 OR inode = 0) AND path NOT IN ({_SENT})"
"""Rows of what was here as a whole, and what the scan has not found to be changed."""
_NO_DIRECTORY = "mode & 61440 <> 16384"
_NOT_LISTED = "key NOT IN (SELECT key FROM listed)"


def list_objects(opened: OpenRepository, chosen: Sequence[bytes] = ()) -> None:
    """List the bucket, or what of it has the names that were chosen. Raises StoreError."""

    def entries() -> Iterator[ObjectEntry]:
        if not chosen:
            return opened.store.list(opened.keys.start)
        starts = set[str]()
        for path in chosen:
            with suppress(KeyRefusal):
                starts.add(opened.keys.key_of(path, is_directory=False))
        return chain.from_iterable(map(opened.store.list, sorted(starts)))

    begun = time.time()
    keep_listing(opened.known, (each for each in entries() if not opened.keys.is_own(each.key)))
    if not chosen:
        opened.known.set_fact(_LISTED, repr(begun))


def is_listing_due(known: Known) -> bool:
    """Whether it is long ago that the bucket was listed."""
    return time.time() - (known.moment(_LISTED) or 0.0) > _LOOK_S


def there(known: Known) -> str:
    """Which rows are of files that this run has found, or has no reason to doubt."""
    seen = "EXISTS (SELECT 1 FROM seen WHERE seen.path = files.path)"
    if known.gone is not GONE_BY_CHANGES:
        return seen
    return f"({seen} OR (inode <> 0 AND path NOT IN (SELECT path FROM gone)))"  # noqa: S608


def without_object(known: Known) -> Iterator[KnownFile]:
    """Files that the listing has no object of, and that no export sends for other reasons."""
    return known.rows(" AND ".join((_UNCHANGED, _NO_DIRECTORY, there(known), _NOT_LISTED)))


def overwritten(known: Known) -> Iterator[tuple[KnownFile, float]]:
    """Files whose objects have another content by now, and since when, in seconds since 1970."""
    listed = "SELECT 1 FROM listed WHERE listed.key = files.key AND listed.etag NOT IN (files.etag, ?)"
    where = " AND ".join((_UNCHANGED, _NO_DIRECTORY, there(known), f"EXISTS ({listed})"))
    for row in known.rows(where, UNREADABLE):
        if (found := known.listed(row.key or "")) is not None:
            yield row, found[2] / 1e9


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
        opened.known.set_fact(_ALL_THERE, opened.known.fact(_LISTED) or "")
