"""What a killed command leaves: unfinished files, a step in a directory, and objects that no row tells of.

An export has on disk what it is about to send, some thousand names at once, and what each file was then. An
object that says the same of its file is what was sent. Where the file was edited or removed since, that is
known from then on as if it had been noted: what was edited goes over it, what was removed is removed.

Earlier releases made files without content where nothing holds back who reads them: they go, too.
Such a file has the size of its object, and gives zeros to whoever reads it. The first command that changes
something looks for them by their attribute, once: one that nobody has changed goes, and its row says that it
is in the bucket alone. A directory that was closed to users gets its permissions back in the end.

What the user may not read he could not remove either: it is passed over, and each verb names it as its own
problem. Who may read it later sends no zeros (`sending.refuse_without_content`).
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import replace

from gridwright.beneath import Beneath, change_xattr
from gridwright.refusals import reason_of
from gridwright.repository.admission import Admission, row_of_head
from gridwright.repository.below import StepJournal, is_own_part, path_of, same_times
from gridwright.repository.below import at as path_at
from gridwright.repository.comparing import has_attributes
from gridwright.repository.content import open_for_reading
from gridwright.repository.extended import read_xattrs
from gridwright.repository.file_clock import UNKNOWN
from gridwright.repository.file_locks import HoldsForAll, lock_of, take_lease
from gridwright.repository.keys import KeyRefusal
from gridwright.repository.known_file import KnownFile, sent_stamp
from gridwright.repository.object_format import FileAttributes, portable_mode
from gridwright.repository.references import FileState, StateError, attribute_name, read_state
from gridwright.repository.s3.tries import MAY_PASS
from gridwright.repository.settings import OpenRepository, RepositoryReport
from gridwright.repository.store import ObjectHead, StoreError
from gridwright.repository.walking import parts_below, walk_below
from gridwright.trusted import open_file

_FACT = "unfinished"
_AT_ONCE = 128
_WRITE = stat.S_IWUSR | stat.S_IXUSR
_STEP_NS = 2 * 10**9
"""How long a step takes, and how far clocks of a shared file system may differ."""


@contextmanager
def finishing(opened: OpenRepository) -> Iterator[None]:
    """Note that an import is under way, until it ends, and tidy up after one that was killed."""
    end_step(opened)
    if opened.known.fact(_FACT) == "1":
        sweep(opened.below)
    opened.known.set_fact(_FACT, "1")
    with _opened_journal(opened) as journal:
        StepJournal.under_way = journal
        try:
            yield
        finally:
            StepJournal.under_way = None
            close_again(opened)
    opened.known.set_fact(_FACT, "0")


@contextmanager
def _opened_journal(opened: OpenRepository) -> Iterator[StepJournal]:
    name = f"{opened.known.file.name}-step"
    descriptor = open_file(opened.known.state.made, name, os.O_RDWR | os.O_CREAT)
    try:
        yield StepJournal(descriptor)
    finally:
        os.close(descriptor)


def end_step(opened: OpenRepository) -> None:
    """Give the directory its times back in which an import was killed, if nobody changed it since."""
    if opened.known.looks or opened.known.fact(_FACT) != "1":
        return
    close_again(opened)
    with _opened_journal(opened) as journal, suppress(OSError):
        if (left := journal.left()) is None:
            return
        (device, inode, *times, moment_ns), path, making = left
        root, directory = path_of(opened.below.root), opened.below.root
        if path.startswith(root + b"/"):
            directory = opened.below.parent(path[len(root) + 1 :] + b"/.")[0]
        status = os.fstat(directory)
        is_same = (status.st_dev, status.st_ino) == (device, inode)
        if is_same and making:
            remove_half_made(directory, making)
        if is_same and status.st_mtime_ns < moment_ns + _STEP_NS:
            os.utime(directory, ns=(times[0], times[1]))
        journal.end()


def open_up(opened: OpenRepository, path: bytes, directory: int) -> None:
    """Let this user write to an open directory of his own, until `close_again`. Raises OSError.

    On disk it is known before: a killed import leaves none so for the next export.
    """
    status = os.fstat(directory)
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid == os.geteuid() and mode & _WRITE != _WRITE and not opened.known.looks:
        opened.known.note_opened(path, mode)
        os.fchmod(directory, mode | _WRITE)


def close_again(opened: OpenRepository) -> None:
    """Give directories the modes back that they had before `open_up`, unless they have others by now."""
    for path, mode in opened.known.opened_up():
        with suppress(OSError):
            directory = opened.below.parent(path + b"/.")[0]
            status = os.fstat(directory)
            if status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) == mode | _WRITE:
                os.fchmod(directory, mode)
        opened.known.forget_opened(path)


def remove_half_made(directory: int, name: bytes) -> None:
    """Remove a directory that an import was about to make, if it is empty, and private to this user."""
    with suppress(OSError):
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) & ~stat.S_ISGID == stat.S_IRWXU:
            os.rmdir(name, dir_fd=directory)


def sweep(below: Beneath) -> None:
    """Remove files that are not whole, below a directory; nobody else works on this directory."""
    for each in reversed(parts_below(below.root, is_own_part)):
        with suppress(OSError):
            directory, name = below.parent(each.path)
            with same_times(directory):
                if stat.S_ISDIR(each.st_mode):
                    # A user may have given the name to a directory of others: only an empty one is removed.
                    os.rmdir(name, dir_fd=directory)
                else:
                    os.unlink(name, dir_fd=directory)
    below.refresh()


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
        # The others stay until an export has ended: a store may go on with what it was sent before a kill.
        known.flush()
        known.end(path for (path, _), head in zip(some, asked, strict=True) if head is None)


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


def was_sent(opened: OpenRepository, path: bytes, head: ObjectHead) -> bool:
    """Whether an object says what an export has begun to send of a path, whole or a part of it.

    A store behind a proxy may take a broken connection for the end: versitygw 1.8.0 keeps what has come then.
    """
    stamps = opened.known.stamps_of(path)
    return any(head.entry.size <= _size_in(stamp) and _has_attributes_in(head, stamp) for stamp in stamps)


def _says(head: ObjectHead, stamp: bytes) -> bool:
    return head.entry.size == _size_in(stamp) and _has_attributes_in(head, stamp)


def _size_in(stamp: bytes) -> int:
    return int(stamp.split()[4])


def _has_attributes_in(head: ObjectHead, stamp: bytes) -> bool:
    mode, uid, gid, mtime_ns, *_ = map(int, stamp.split())
    return has_attributes(head, FileAttributes(mode, uid, gid, 0, mtime_ns))


def _take_one(
    opened: OpenRepository, report: RepositoryReport, path: bytes, stamp: bytes, asked: Future[ObjectHead]
) -> None:
    inode = int(stamp.split()[5])
    try:
        head = asked.result()
        entry, row = head.entry, opened.known.get(path)
        if (row is not None and row.is_of(entry.etag, entry.last_modified_ns)) or not _says(head, stamp):
            return
        found = row_of_head(opened, report, Admission(opened, report, is_made=False), path, head)
    except StoreError as error:
        if error.fault in MAY_PASS:
            raise
        return
    if found is not None:
        opened.known.put(replace(found, inode=inode, ctime_ns=UNKNOWN))


FACT = "no placeholders"
_CLOSED = "trusted.gridwright.closed"
_ABSENT = frozenset({errno.ENODATA, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOENT, errno.EPERM})


def remove_placeholders(opened: OpenRepository) -> tuple[int, list[tuple[bytes, str]]]:
    """Remove them; how many, and those that could not be, with why not.

    Raises OSError where the walk cannot be begun, and GridwrightError where a Lustre's released files cannot
    be told from them.
    """
    if opened.known.fact(FACT) == "1":
        return 0, []
    removed, problems = 0, list[tuple[bytes, str]]()
    attribute = attribute_name()
    for walked, troubles in walk_below(opened.below.root):
        problems += [
            (each.path, each.why) for each in troubles if not (each.is_left_out or each.errno == errno.EACCES)
        ]
        for path in [each.path for each in walked if stat.S_ISREG(each.st_mode)]:
            try:
                directory, name = opened.below.parent(path)
                if not _has(directory, name, attribute):
                    continue
            except (FileNotFoundError, NotADirectoryError, PermissionError):
                continue
            except OSError as error:
                problems.append((path, f"whether it has content here cannot be seen: {error.strerror}"))
                continue
            try:
                why = _remove(opened, directory, name, path)
            except OSError as error:
                why = f"it has no content here, and cannot be removed: {reason_of(error)}"
            removed += why is None
            if why:
                problems.append((path, why))
    opened.known.flush()
    if not problems:
        _open_again(opened.below.root)
        opened.known.set_fact(FACT, "1")
    return removed, problems


def _remove(opened: OpenRepository, directory: int, name: bytes, path: bytes) -> str | None:
    """Remove a file if it is one, and nobody has changed it; why not. Raises OSError."""
    descriptor = open_for_reading(name, directory)
    try:
        try:
            state = read_state(descriptor)
        except StateError as error:
            return f"its attribute cannot be read: {error}"
        if state is None or not state.is_name_only:
            return ""
        if opened.is_guarded and opened.released_names.is_released(descriptor):
            return ""
        if lock_of(descriptor).lock is HoldsForAll.KERNEL and not take_lease(descriptor):
            return "it has no content here, and is open; run the command again when it is not"
        status = os.fstat(descriptor)
        if not state.is_unchanged(status):
            return (
                "it was written to before its content was here, and what was not written is zeros: take what "
                "you need of it, remove it, and import it"
            )
        row = opened.known.get(path) or _row_of(path, status, state, read_xattrs(descriptor))
        opened.known.put(row.not_here())
        # Before the file goes: else its object would be that of a file that somebody has deleted.
        opened.known.flush()
        os.unlink(name, dir_fd=directory)
    finally:
        os.close(descriptor)
    return None


def _row_of(path: bytes, status: os.stat_result, state: FileState, xattrs: bytes | None) -> KnownFile:
    """What a placeholder says of its object, where the state of the repository was lost."""
    reference = state.reference
    return KnownFile(
        path=path, mode=portable_mode(status.st_mode), uid=status.st_uid, gid=status.st_gid,
        size=status.st_size, blocks=-1, atime_ns=status.st_atime_ns, mtime_ns=status.st_mtime_ns,
        ctime_ns=0, inode=0, links=1,
        key=reference.key, etag=reference.etag, version_id=reference.version_id, crc64=state.crc64,
        target=None, xattrs=xattrs, link_of=None, is_name_only=True,
    )  # fmt: skip


def _open_again(root: int) -> None:
    """Give a directory that was closed to users what it had. Raises OSError."""
    try:
        value = json.loads(os.getxattr(root, _CLOSED))
    except OSError as error:
        if error.errno in _ABSENT:
            return
        raise
    if stat.S_IMODE(os.fstat(root).st_mode) == 0:
        os.fchown(root, value["uid"], value["gid"])
        os.fchmod(root, value["mode"])
    change_xattr(root, _CLOSED, None)
    os.fsync(root)


def _has(directory: int, name: bytes, attribute: str) -> bool:
    try:
        os.getxattr(path_at(directory, name), attribute, follow_symlinks=False)
    except OSError as error:
        if error.errno in _ABSENT:
            return False
        raise
    return True
