"""Rows of what is nowhere any more: no file here, no object in the bucket, and in no other library.

Somebody has deleted both sides, or an import has followed a deletion in the bucket, which writes no manifest.
Such rows say nothing, and would come back by the manifest of each machine that still has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gridwright.repository.known_file import KnownFile
from gridwright.repository.publishing import NAMES, library_of
from gridwright.repository.settings import OpenRepository, RepositoryReport, is_chosen

NOWHERE = "are gone from here and from the bucket, and are forgotten"
_NOT_LISTED = "key IS NOT NULL AND path <> x'' AND key NOT IN (SELECT key FROM listed)"
_DROPPED = f"{NAMES} AND path IN (SELECT path FROM dropped) AND {_NOT_LISTED}"  # noqa: S608 - names of our own
"""Rows of names that another machine has deleted."""
_EXPECTED = f"NOT ({NAMES}) AND {_NOT_LISTED}"
"""Rows of what was here, or was told to be, and has no object; a name only may be lost (`lost_names.py`)."""


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
    going = [row.path for row in known.rows(_DROPPED) if is_chosen(row.path, paths)]
    for row in known.rows(_EXPECTED):
        if not is_chosen(row.path, paths) or not is_absent(opened, row.path) or _has_objects(opened, row):
            continue
        told = known.newer.get(row.path) or known.told_path(row.path)
        is_told = told is not None and (told.etag == row.etag or told.is_later(row))
        latest = told if told is not None and is_told else row
        others = latest.other_libraries(own)
        if not others and (latest is row or own in latest.libraries):
            report.note_of(NOWHERE, row.path)
            going.append(row.path)
        elif (name := replace(latest.not_here(), libraries=" ".join(others))) != row:
            known.put(name)
    if going:
        known.forget(*going)
    return bool(going)


def _has_objects(opened: OpenRepository, row: KnownFile) -> bool:
    """Whether a directory has objects below it: some stores list none of its own."""
    return row.attributes.is_directory and opened.known.has_keys_below((row.key or "").rstrip("/"))
