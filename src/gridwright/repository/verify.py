"""Compares contents of files and objects: by checksums of the store where they tell, else by reading both."""

from __future__ import annotations

import os
import stat
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

from gridwright.repository.chosen_paths import name_unknown
from gridwright.repository.comparing import FileSide, file_side
from gridwright.repository.content import crc64_of, is_same_content, open_for_reading
from gridwright.repository.file_clock import is_stored_as
from gridwright.repository.gone import (
    ELSEWHERE,
    GONE,
    GONE_DIRECTORY,
    LOST,
    is_absent,
    is_elsewhere,
    is_given_up,
)
from gridwright.repository.keys import KeyRefusal
from gridwright.repository.known_file import KnownFile
from gridwright.repository.listed import BOTH_CHANGED
from gridwright.repository.manifest_sync import learn
from gridwright.repository.scan import Action, action_for, scan
from gridwright.repository.settings import OpenRepository, RepositoryReport, is_chosen
from gridwright.repository.store import ObjectHead, StoreError, StoreFault
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
