"""Deletes the object of a file that is gone, if it is still the known one."""

from __future__ import annotations

from gridwright.repository.scan import Action
from gridwright.repository.settings import OpenRepository, Prefer, RepositoryReport
from gridwright.repository.store import StoreError, StoreFault


def delete_object(
    opened: OpenRepository, path: bytes, report: RepositoryReport, *, prefer: Prefer | None
) -> None:
    """Delete the object of a path's row, and the row; one that somebody has changed stays, and is named.

    Where the bucket has versions, the object's stays as an older one.
    """
    row = opened.known.get(path)
    if row is None or row.key is None:
        opened.known.forget(path)
        return
    try:
        head = opened.store.head(row.key).result()
        if head.entry.etag != row.etag and prefer != "files":
            report.problem(path, "the file was deleted and its object was changed; the object stays")
            return
        opened.store.delete(row.key)
    except StoreError as error:
        if error.fault is not StoreFault.NOT_THERE:
            report.problem(path, error.problems[0].what)
            return
    opened.known.forget(path)
    report.add(Action.DELETE, row.size)
