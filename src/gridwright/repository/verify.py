"""Compares contents of files and objects: by checksums of the store where they tell, else by reading both.

A linked file system is compared where it is mounted.
Services that link directories keep no list that others can read, so that each object of the prefix is held
against its file: size first, then checksums of the store where they tell, else both contents are read. Files
that no object was found of are named when all objects were looked at.
"""

from __future__ import annotations

import errno
import math
import os
import sqlite3
import stat
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from typing import TypeVar

from gridwright.beneath import Beneath
from gridwright.errors import environment_error
from gridwright.refusals import reason_of
from gridwright.repository.comparing import FileSide, file_side
from gridwright.repository.content import crc64_of, is_same_content, open_for_reading
from gridwright.repository.file_clock import is_stored_as
from gridwright.repository.forecast import PER_LISTING, TransferLimit, transfer_forecast
from gridwright.repository.gone import (
    ELSEWHERE,
    GONE,
    GONE_DIRECTORY,
    LOST,
    is_absent,
    is_elsewhere,
    is_given_up,
)
from gridwright.repository.keys import KeyRefusal, Keys, prefix_of
from gridwright.repository.known_file import KnownFile
from gridwright.repository.listed import BOTH_CHANGED
from gridwright.repository.manifest_sync import learn
from gridwright.repository.references import ObjectReference
from gridwright.repository.scan import Action, action_for, name_unknown, note_troubles, scan
from gridwright.repository.settings import OpenRepository, RepositoryReport, is_chosen
from gridwright.repository.store import ObjectEntry, ObjectHead, ReadableStore, StoreError, StoreFault
from gridwright.repository.walking import walk_below
from gridwright.units import format_bytes

MOST_AT_ONCE = 128
_Asked = TypeVar("_Asked")
HERE_ALONE = "here alone"
NO_OBJECT = "it has no object: gridwright repo export NAME sends it"
_OTHER_OBJECT = (
    "it was never exported, and its object is of somebody else: gridwright repo export NAME compares them"
)


def plan_verify(opened: OpenRepository, paths: Sequence[bytes] = ()) -> RepositoryReport:
    """What `verify` would look at, and its requests: one for each object, and those that read links.

    Which objects have checksums that tell is known only when they are asked for; a note says what reading
    all others would move at most.
    """
    report = opened.report("verify", is_dry_run=True)
    learn(opened, report)
    name_unknown(opened, report, paths)
    for row in opened.known.rows("key IS NOT NULL"):
        if not is_chosen(row.path, paths):
            continue
        if row.is_name_only or not row.inode:
            report.add(
                "looked at, in the bucket alone" if not row.inode else "looked at, names only", row.size
            )
        else:
            report.add("compared", row.size, row.mode)
        opened.store.requests.add("head")
        if row.attributes.is_link and _is_link_here(opened, row.path):
            opened.store.requests.add("get")
    scan(opened, paths, report)
    for _, size, _ in _unsent(opened, report):
        report.add("asked for, never exported", size)
        opened.store.requests.add("head")
    opened.store.requests.add("list")
    report.requests = dict(opened.store.requests.by_kind)
    most = format_bytes(report.count("compared").bytes)
    report.notes.append(f"files are read; so are objects whose checksums do not tell, {most} at most")
    return report


def _is_link_here(opened: OpenRepository, path: bytes) -> bool:
    with suppress(OSError):
        status = opened.below.status(path)
        return status is not None and stat.S_ISLNK(status.st_mode)
    return False


def verify(opened: OpenRepository, paths: Sequence[bytes] = ()) -> RepositoryReport:
    """Compare each file with its object; what differs is a problem of the report. Changes nothing.

    Files that were changed since are counted, not compared; those that have no object are problems.
    """
    report = opened.report("verify")
    begun = time.time()
    learn(opened, report)
    # A HEAD says the same of a bucket that is not there as of an object: a listing tells them apart.
    next(iter(opened.store.list(opened.keys.start, 1)), None)
    rows = (row for row in opened.known.rows("key IS NOT NULL") if is_chosen(row.path, paths))
    for row, asked in _ahead((row, opened.store.head(row.key or "")) for row in rows):
        _compare(opened, row, asked, report)
    _name_unsent(opened, paths, report)
    report.requests = dict(opened.store.requests.by_kind)
    report.seconds = time.time() - begun
    return report


def _name_unsent(opened: OpenRepository, paths: Sequence[bytes], report: RepositoryReport) -> None:
    """Name what is here and was never exported, also where somebody else has written its object."""
    scan(opened, paths, report)
    unsent = ((path, size, opened.store.head(key)) for path, size, key in _unsent(opened, report))
    for path, size, asked in _ahead(unsent):
        try:
            asked.result()
        except StoreError as error:
            if error.fault is StoreFault.UNREACHABLE:
                raise
            is_alone = error.fault is StoreFault.NOT_THERE
            if is_alone:
                report.add(HERE_ALONE, size)
            report.problem(path, NO_OBJECT if is_alone else error.problems[0].what)
        else:
            report.problem(path, _OTHER_OBJECT)


def _unsent(opened: OpenRepository, report: RepositoryReport) -> Iterator[tuple[bytes, int, str]]:
    """Path, bytes and key of what the scan found and nobody knows."""
    for path, _, size, _ in opened.known.work():
        try:
            status = opened.below.status(path) if path and opened.known.get(path) is None else None
            if status is None:
                continue
            key = opened.keys.key_of(path, is_directory=stat.S_ISDIR(status.st_mode))
        except KeyRefusal as refusal:
            report.problem(path, refusal.reason)
            continue
        except OSError as error:
            report.refused(path, "read", error)
            continue
        yield path, size, key


def _ahead(asked: Iterable[_Asked]) -> Iterator[_Asked]:
    """The same in the same order, so many of which are asked for before the first is looked at."""
    ahead: deque[_Asked] = deque()
    for each in asked:
        ahead.append(each)
        if len(ahead) >= MOST_AT_ONCE:
            yield ahead.popleft()
    yield from ahead


def _compare(
    opened: OpenRepository, row: KnownFile, asked: Future[ObjectHead], report: RepositoryReport
) -> None:
    try:
        head = asked.result()
        status = opened.below.status(row.path)
        if status is None and row.inode:
            report.problem(row.path, "the object is there, and the file is gone")
            return
        if head.entry.etag != row.etag:
            are_both = status is not None and action_for(status, row) in (Action.SEND, Action.ATTRIBUTES)
            one = "the object was changed since the last export or import"
            report.problem(row.path, BOTH_CHANGED if are_both else one)
            return
        if status is None:
            report.add("in the bucket alone", row.size, row.mode)
            return
        if not stat.S_ISREG(status.st_mode):
            _compare_small(opened, row, status, head, report)
            return
        # Elsewhere a file that is here is somebody's, whatever its size is.
        if row.is_name_only and row.inode:
            if head.entry.size == status.st_size:
                report.add("names only, of the right size", row.size, row.mode)
            else:
                report.problem(row.path, "a name only, and its object has another size")
            return
        _compare_file(opened, row, head, report)
    except StoreError as error:
        if error.fault is StoreFault.UNREACHABLE:
            raise
        if error.fault is StoreFault.NOT_THERE:
            _note_gone(opened, row, report)
        else:
            report.problem(row.path, error.problems[0].what)
    except OSError as error:
        report.refused(row.path, "read", error)


def _note_gone(opened: OpenRepository, row: KnownFile, report: RepositoryReport) -> None:
    """Name what has no object, unless it was somebody's wish that it has neither that nor a file."""
    if not is_absent(opened, row.path):
        report.problem(row.path, GONE_DIRECTORY if row.attributes.is_directory else GONE)
    elif not row.is_only_in_bucket or is_given_up(opened.known, row):
        report.add("gone from here and from the bucket", row.size, row.mode)
    elif is_elsewhere(opened, row):
        report.note_of(ELSEWHERE, row.path)
    else:
        report.problem(row.path, LOST)


def _compare_small(
    opened: OpenRepository, row: KnownFile, status: os.stat_result, head: ObjectHead, report: RepositoryReport
) -> None:
    if stat.S_IFMT(status.st_mode) != stat.S_IFMT(row.mode):
        report.add("changed since the last export", mode=status.st_mode)
        return
    if stat.S_ISLNK(status.st_mode):
        directory, name = opened.below.parent(row.path)
        if os.readlink(name, dir_fd=directory) != opened.store.get(row.key or ""):
            report.problem(row.path, "the link and its object have other targets")
            return
    elif head.entry.size:
        report.problem(row.path, "its object has content, which no directory can have")
        return
    report.add("equal", row.size, row.mode)


def _compare_file(opened: OpenRepository, row: KnownFile, head: ObjectHead, report: RepositoryReport) -> None:
    directory, name = opened.below.parent(row.path)
    descriptor = open_for_reading(name, directory)
    try:
        status = os.fstat(descriptor)
        if status.st_size != row.size or not is_stored_as(row.mtime_ns, status.st_mtime_ns):
            report.add("changed since the last export", status.st_size)
            return
        same = is_same_content(descriptor, head)
        if same is None:
            same = _read_both(opened, row, descriptor)
            report.add("read from the store, since its checksums do not tell", row.size, row.mode)
        if same:
            report.add("equal", row.size, row.mode)
        elif file_side(opened, row.path, os.fstat(descriptor), row) is FileSide.CHANGED:
            report.problem(row.path, "the contents differ, and the file has the size and time of its object")
        else:
            report.problem(row.path, "the contents differ: the object is damaged")
    finally:
        os.close(descriptor)


def _read_both(opened: OpenRepository, row: KnownFile, descriptor: int) -> bool:
    with tempfile.TemporaryFile() as copy:
        opened.store.fetch(row.reference(opened.settings.bucket_url), copy.fileno()).result()
        return crc64_of(copy.fileno()) == crc64_of(descriptor)


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
                _compare_linked(below, store, bucket_url, entry, path, head, report, has_links)
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


def _compare_linked(
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
            _note_linked(report, path, is_alike, "one is a directory, and the other is not")
        elif stat.S_ISLNK(status.st_mode) and not has_links:
            report.add("not compared: symbolic links")
        elif stat.S_ISLNK(status.st_mode):
            where, last = below.parent(path)
            is_alike = os.readlink(last, dir_fd=where) == store.get(entry.key)
            _note_linked(report, path, is_alike, "the link and its object have other targets")
        elif status.st_size != entry.size:
            report.problem(path, f"the file has {status.st_size} bytes, and its object {entry.size}")
        else:
            is_alike = _is_same(below, store, bucket_url, path, head.result(), report)
            _note_linked(report, path, is_alike, "the contents differ", entry.size)
    except StoreError as error:
        if error.fault is StoreFault.UNREACHABLE:
            raise
        report.problem(path, error.problems[0].what)
    except OSError as error:
        report.refused(path, "read", error)


def _note_linked(
    report: RepositoryReport, path: bytes, is_alike: bool, else_what: str, size: int = 0
) -> None:
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


def plan_verify_linked(
    name: str,
    directory: Path,
    bucket_url: str,
    store: ReadableStore,
    paths: Sequence[bytes],
    read: Sequence[TransferLimit],
) -> RepositoryReport:
    """What `verify` would look at, its requests, and how long it takes at least by what `read` limits.

    Where the file system is mounted, files are looked at, not read: what is compared is that whose size is
    that of the object. Elsewhere it is all. Loads nothing. Raises GridwrightError.
    """
    begun = time.time()
    report = RepositoryReport(name, "verify", is_dry_run=True)
    keys = Keys(prefix_of(bucket_url))
    listed = 0
    below: Beneath | None = None
    try:
        below = Beneath(directory)
    except OSError:
        report.notes.append(f"{directory} is not mounted here: sizes of files and links are not known")
    try:
        for entry in store.list(keys.start):
            listed += 1
            if (found := object_path(keys, entry, paths, report)) is not None:
                _note_planned(report, below, entry, *found)
    finally:
        if below is not None:
            below.close()
    report.requests["list"] = max(1, math.ceil(listed / PER_LISTING))
    size = report.count("compared").bytes
    bound = transfer_forecast("verify", size, {"get": 0, **report.requests}, "get", read)
    report.at_least_s, report.at_least_by = bound.seconds, f"bound by {bound.bound_by}"
    if not read:
        report.at_least_by += "; how fast files are read is not known"
    report.notes.append("files are read, and those that were released are loaded for that")
    report.notes.append(f"so are objects whose checksums do not tell, {format_bytes(size)} at most")
    report.seconds = time.time() - begun
    return report


def _note_planned(
    report: RepositoryReport, below: Beneath | None, entry: ObjectEntry, path: bytes, is_directory: bool
) -> None:
    if is_directory:
        report.add("looked at, directories")
        return
    report.requests["head"] = report.requests.get("head", 0) + 1
    try:
        status = None if below is None else below.status(path)
    except OSError as error:
        report.refused(path, "looked at", error)
        return
    if below is not None and status is None:
        report.add("looked at, without a file")
    elif status is not None and stat.S_ISLNK(status.st_mode):
        report.add("compared, links")
        report.requests["get"] = report.requests.get("get", 0) + 1
    elif status is not None and (not stat.S_ISREG(status.st_mode) or status.st_size != entry.size):
        report.add("looked at, of another size or kind")
    else:
        report.add("compared", entry.size)
