"""Deletes the object of a file that is gone, if the file still is, and the object is the known one."""

from __future__ import annotations

from gridwright.repository.keys import shown
from gridwright.repository.known_file import KnownFile
from gridwright.repository.scan import Action
from gridwright.repository.settings import OpenRepository, Prefer, RepositoryReport
from gridwright.repository.store import StoreError, StoreFault


def delete_object(
    opened: OpenRepository, path: bytes, report: RepositoryReport, *, prefer: Prefer | None
) -> None:
    """Delete the object of a path where nothing is any more, and its row.

    The path is looked at again: what is there by now keeps its object. So does a path that cannot be looked
    at, and an object that somebody has changed; these are named.
    """
    try:
        is_there = opened.below.status(path) is not None
    except OSError as error:
        report.problem(path, f"whether it is gone cannot be seen ({error.strerror}); the object stays")
        return
    if is_there:
        report.notes.append(f"{shown(path)} is there again; its object stays")
        return
    delete_object_of(opened, opened.known.get(path), report, prefer=prefer)
    opened.below.refresh()


def delete_object_of(
    opened: OpenRepository, row: KnownFile | None, report: RepositoryReport, *, prefer: Prefer | None
) -> None:
    """Delete the object of a row, and the row; an object that somebody has changed stays, and is named.

    Where the bucket has versions, the object's stays as an older one.
    """
    if row is None:
        return
    if row.key is None:
        opened.known.forget(row.path)
        return
    try:
        head = opened.store.head(row.key).result()
        if head.entry.etag != row.etag and prefer != "files":
            report.problem(row.path, "the file was deleted and its object was changed; the object stays")
            return
        opened.store.delete(row.key)
    except StoreError as error:
        if error.fault is not StoreFault.NOT_THERE:
            report.problem(row.path, error.problems[0].what)
            return
    opened.known.forget(row.path)
    report.add(Action.DELETE, row.size)
