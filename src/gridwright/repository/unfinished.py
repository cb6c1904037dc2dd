"""What a killed command leaves: unfinished files, times of directories, and objects that no row tells of.

An export has on disk what it is about to send, some thousand names at once, and what each file was then. An
object that says the same of its file is what was sent. Where the file was edited or removed since, that is
known from then on as if it had been noted: what was edited goes over it, what was removed is removed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import replace

from gridwright.beneath import Beneath
from gridwright.repository.admission import Admission, row_of_head
from gridwright.repository.below import is_own_part
from gridwright.repository.comparing import has_attributes
from gridwright.repository.file_clock import UNKNOWN
from gridwright.repository.keys import KeyRefusal
from gridwright.repository.known_file import sent_stamp
from gridwright.repository.object_format import FileAttributes
from gridwright.repository.s3.tries import MAY_PASS
from gridwright.repository.settings import OpenRepository, RepositoryReport
from gridwright.repository.store import ObjectHead, StoreError
from gridwright.repository.walking import parts_below

_FACT = "unfinished"
_AT_ONCE = 128


@contextmanager
def finishing(opened: OpenRepository) -> Iterator[bool]:
    """Note that an import is under way, until it ends, and tidy up after one that was killed.

    Gives whether there was one: then times of directories are those that are known, not those of now.
    """
    was_killed = opened.known.fact(_FACT) == "1"
    if was_killed:
        sweep(opened.below)
    opened.known.set_fact(_FACT, "1")
    yield was_killed
    opened.known.set_fact(_FACT, "0")


def sweep(below: Beneath) -> None:
    """Remove files that are not whole, below a directory; nobody else works on this directory."""
    for each in reversed(parts_below(below.root, is_own_part)):
        with suppress(OSError):
            directory, name = below.parent(each.path)
            if stat.S_ISDIR(each.st_mode):
                # A user may have given the name to a directory of others: only an empty one is removed.
                os.rmdir(name, dir_fd=directory)
            else:
                os.unlink(name, dir_fd=directory)
    below.refresh()


def set_times_back(opened: OpenRepository) -> None:
    """Give directories the times that are known of them: names in them were replaced, which is no change."""
    for row in opened.known.rows(f"mode & {stat.S_IFMT(0o177777)} = {stat.S_IFDIR}", order="path DESC"):
        with suppress(OSError):
            directory = opened.below.parent(row.path + b"/.")[0] if row.path else opened.below.root
            os.utime(directory, ns=(row.atime_ns, row.mtime_ns))


def take_sent(opened: OpenRepository, report: RepositoryReport) -> None:
    """Know what a killed export has sent of files that were edited or removed since. Raises StoreError.

    A file that is still what was sent is compared with its object by the next export.
    """
    known = opened.known
    left = [(path, stamp) for path, stamp in known.begun() if not _is_as_sent(opened, path, stamp)]
    for first in range(0, len(left), _AT_ONCE):
        some = left[first : first + _AT_ONCE]
        keys = [_key(opened, path, stamp) for path, stamp in some]
        asked = [opened.store.head(key) if key else None for key in keys]
        for (path, stamp), head in zip(some, asked, strict=True):
            if head is not None:
                _take_one(opened, report, path, stamp, head)
        known.flush()
        known.end(path for path, _ in some)


def _is_as_sent(opened: OpenRepository, path: bytes, stamp: bytes) -> bool:
    """Whether a file is what it was; what cannot be looked at may be."""
    try:
        status = opened.below.status(path) if path else os.fstat(opened.below.root)
    except OSError:
        return True
    return status is not None and sent_stamp(status) == stamp


def _key(opened: OpenRepository, path: bytes, stamp: bytes) -> str:
    """The key to which it was sent; empty where it has none."""
    is_directory = stat.S_ISDIR(int(stamp.partition(b" ")[0]))
    row = opened.known.get(path)
    if row is not None and row.key is not None and row.attributes.is_directory == is_directory:
        return row.key
    try:
        return opened.keys.key_of(path, is_directory=is_directory) if path else opened.keys.start
    except KeyRefusal:
        return ""


def _take_one(
    opened: OpenRepository, report: RepositoryReport, path: bytes, stamp: bytes, asked: Future[ObjectHead]
) -> None:
    mode, uid, gid, mtime_ns, size, inode = map(int, stamp.split())
    try:
        head = asked.result()
        entry, row = head.entry, opened.known.get(path)
        sent = FileAttributes(mode, uid, gid, 0, mtime_ns)
        is_known = row is not None and row.is_of(entry.etag, entry.last_modified_ns)
        if is_known or entry.size != size or not has_attributes(head, sent):
            return
        found = row_of_head(opened, report, Admission(opened, report, is_made=False), path, head)
    except StoreError as error:
        if error.fault in MAY_PASS:
            raise
        return
    if found is not None:
        opened.known.put(replace(found, inode=inode, ctime_ns=UNKNOWN))
