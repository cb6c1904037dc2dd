"""Compares files of a linked file system with their objects, where the file system is mounted.

Services that link directories keep no list that others can read, so that each object of the prefix is held
against its file: size first, then checksums of the store where they tell, else both contents are read. Files
that no object was found of are named when all objects were looked at.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import closing
from itertools import islice
from pathlib import Path

from gridwright.beneath import Beneath
from gridwright.errors import environment_error
from gridwright.refusals import reason_of
from gridwright.repository.content import crc64_of, is_same_content, open_for_reading
from gridwright.repository.keys import KeyRefusal, Keys, prefix_of
from gridwright.repository.references import ObjectReference
from gridwright.repository.scan import note_troubles
from gridwright.repository.settings import RepositoryReport, is_chosen
from gridwright.repository.store import ObjectEntry, ObjectHead, ReadableStore, StoreError, StoreFault
from gridwright.repository.verify import HERE_ALONE, NO_OBJECT
from gridwright.repository.walking import walk_below

_AT_ONCE = 64


def verify_linked(
    name: str,
    directory: Path,
    bucket_url: str,
    store: ReadableStore,
    paths: Sequence[bytes],
    *,
    has_links: bool = True,
) -> RepositoryReport:
    """Compare; what differs is a problem of the report. Changes nothing, but loads files that were released.

    `has_links`: whether the object of a symbolic link is its target. Raises GridwrightError.
    """
    begun = time.time()
    report = RepositoryReport(name, "verify")
    keys = Keys(prefix_of(bucket_url))
    try:
        below = Beneath(directory)
    except OSError as error:
        raise environment_error(
            f"files are compared where the file system is mounted, and here it is not: {reason_of(error)}",
            where=str(directory),
            remedy="run the same command on a node of the grid",
        ) from error
    # A temporary file of SQLite's own: a bucket has more objects than fit into memory.
    with below, closing(sqlite3.connect("", isolation_level=None)) as met:
        met.execute("CREATE TABLE met (path BLOB PRIMARY KEY) WITHOUT ROWID")
        entries = store.list(keys.start)
        while some := list(islice(entries, _AT_ONCE)):
            asked = []
            for entry in some:
                if (found := object_path(keys, entry, paths, report)) is not None:
                    path, is_directory = found
                    asked.append((entry, path, None if is_directory else store.head(entry.key)))
            for entry, path, head in asked:
                _compare(below, store, bucket_url, entry, path, head, report, has_links)
            met.executemany("INSERT OR IGNORE INTO met VALUES (?)", ((path,) for _, path, _ in asked))
        _name_unmet(below, met, paths, report, has_links)
    report.requests = dict(store.requests.by_kind)
    report.seconds = time.time() - begun
    return report


def _name_unmet(
    below: Beneath, met: sqlite3.Connection, paths: Sequence[bytes], report: RepositoryReport, has_links: bool
) -> None:
    """Name files that have no object; directories and other kinds need none."""
    kinds = (stat.S_IFREG, stat.S_IFLNK) if has_links else (stat.S_IFREG,)
    try:
        for walked, troubles in walk_below(below.root, paths):
            note_troubles(
                [each for each in troubles if each.errno not in (errno.ENOENT, errno.ENOTDIR)], report
            )
            for each in walked:
                if stat.S_IFMT(each.st_mode) not in kinds:
                    continue
                if met.execute("SELECT 1 FROM met WHERE path = ?", (each.path,)).fetchone() is None:
                    report.add(HERE_ALONE, each.st_size)
                    report.problem(each.path, NO_OBJECT)
    except OSError as error:
        report.refused(b"", "read", error)


def object_path(
    keys: Keys, entry: ObjectEntry, paths: Sequence[bytes], report: RepositoryReport
) -> tuple[bytes, bool] | None:
    """The path of an object that is compared, and whether it is a directory; None for all else.

    A key that is no path is a problem of the report.
    """
    if keys.is_own(entry.key) or entry.key == keys.start:
        return None
    try:
        path, is_directory = keys.path_of(entry.key)
    except KeyRefusal as error:
        report.problem(entry.key, error.reason)
        return None
    return (path, is_directory) if is_chosen(path, paths) else None


def _compare(
    below: Beneath,
    store: ReadableStore,
    bucket_url: str,
    entry: ObjectEntry,
    path: bytes,
    head: Future[ObjectHead] | None,
    report: RepositoryReport,
    has_links: bool,
) -> None:
    try:
        status = below.status(path)
        if status is None:
            report.problem(path, "the object is there, and the file is not")
        elif head is None or stat.S_ISDIR(status.st_mode):
            is_alike = (head is None) is stat.S_ISDIR(status.st_mode)
            _note(report, path, is_alike, "one is a directory, and the other is not")
        elif stat.S_ISLNK(status.st_mode) and not has_links:
            report.add("not compared: symbolic links")
        elif stat.S_ISLNK(status.st_mode):
            where, last = below.parent(path)
            is_alike = os.readlink(last, dir_fd=where) == store.get(entry.key)
            _note(report, path, is_alike, "the link and its object have other targets")
        elif status.st_size != entry.size:
            report.problem(path, f"the file has {status.st_size} bytes, and its object {entry.size}")
        else:
            is_alike = _is_same(below, store, bucket_url, path, head.result(), report)
            _note(report, path, is_alike, "the contents differ", entry.size)
    except StoreError as error:
        if error.fault is StoreFault.UNREACHABLE:
            raise
        report.problem(path, error.problems[0].what)
    except OSError as error:
        report.refused(path, "read", error)


def _note(report: RepositoryReport, path: bytes, is_alike: bool, else_what: str, size: int = 0) -> None:
    if is_alike:
        report.add("equal", size)
    else:
        report.problem(path, else_what)


def _is_same(
    below: Beneath,
    store: ReadableStore,
    bucket_url: str,
    path: bytes,
    head: ObjectHead,
    report: RepositoryReport,
) -> bool:
    where, last = below.parent(path)
    descriptor = open_for_reading(last, where)
    try:
        same = is_same_content(descriptor, head)
        if same is not None:
            return same
        entry = head.entry
        reference = ObjectReference(bucket_url, entry.key, entry.etag, head.version_id, entry.size)
        with tempfile.TemporaryFile() as copy:
            store.fetch(reference, copy.fileno()).result()
            report.add("read from the store, since its checksums do not tell", entry.size)
            return crc64_of(copy.fileno()) == crc64_of(descriptor)
    finally:
        os.close(descriptor)
