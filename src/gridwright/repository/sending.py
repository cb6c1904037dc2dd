"""One file, directory or link on its way to its object: begun in the background, and finished with a row."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace

from gridwright.errors import GridwrightError
from gridwright.repository.below import at, sync_file_system
from gridwright.repository.comparing import is_released, is_released_as, own_state
from gridwright.repository.content import (
    FileContent,
    crc64_of,
    etag_of,
    is_same_content,
    is_same_moment,
    open_for_reading,
)
from gridwright.repository.copytool.released import why_only_copy
from gridwright.repository.extended import LONGEST_XATTRS, read_xattrs, xattr_names
from gridwright.repository.file_clock import UNKNOWN, bounded_ns, is_stored_as
from gridwright.repository.known_file import KnownFile, signed_inode
from gridwright.repository.object_format import FileAttributes, metadata_of, portable_mode
from gridwright.repository.planned import UnreadContent
from gridwright.repository.references import (
    StateError,
    attribute_name,
    read_state,
    write_state,
)
from gridwright.repository.s3.parts import why_too_large
from gridwright.repository.scan import Action
from gridwright.repository.settings import OpenRepository, Prefer, RepositoryReport
from gridwright.repository.store import (
    ANY,
    ObjectHead,
    ObjectStore,
    SmallContent,
    StoreError,
    StoreFault,
    WriteCondition,
    WrittenObject,
)

_RELEASED = (
    "it is a released file of Lustre whose object is not the known one: name the archive (hsm_archive, or "
    "--hsm-archive), and its content comes from there first"
)
HAS_CONTENT = (
    "its object has content, which no directory can have: it was not overwritten; copy it in the bucket to a "
    "key without / at the end"
)
_MANY = 200
_NONE_THERE = WriteCondition(none_there=True)


class WithoutContent(Exception):
    """What was sent would not be what there is, or be in the place of its only copy; its text says why."""


@dataclass(slots=True)
class Sending:
    """What is under way for one path. Close it when it is finished."""

    path: bytes
    key: str
    status: os.stat_result
    descriptor: int | None
    """Of a file; None for a directory or a link."""
    content: FileContent | SmallContent | UnreadContent
    xattrs: bytes | None
    ctime_ns: int = UNKNOWN
    """What the next scan is to know of it, if nobody touches it meanwhile."""
    attempt: int = 1
    told: KnownFile | None = None
    """What the manifest says of its object, where the file had not all of that."""
    row: KnownFile | None = None
    """The file as it was then."""
    has_state: bool = True
    """Whether the file may have Gridwright's own attribute."""
    attributes: FileAttributes = field(init=False)
    """Those of the file."""

    def __post_init__(self) -> None:
        self.attributes = attributes_of_status(self.status)

    @property
    def given(self) -> tuple[tuple[int, int, int, bytes | None], int]:
        """Its rights and mtime in ns, as `comparing.Given`."""
        file = self.attributes
        return (file.mode, file.uid, file.gid, self.xattrs), file.mtime_ns

    @property
    def stored(self) -> FileAttributes:
        """What travels with the object: what nobody has changed here stays as the bucket has it."""
        here, row, told = self.attributes, self.row, self.told
        if row is None or told is None:
            return here
        names = ("mode", "uid", "gid", "mtime_ns")
        same = [each for each in names if getattr(here, each) == getattr(row, each)]
        return replace(here, **{each: getattr(told, each) for each in same})

    @property
    def stored_xattrs(self) -> bytes | None:
        """The same of extended attributes."""
        is_same = self.row is not None and self.told is not None and self.xattrs == self.row.xattrs
        return self.told.xattrs if is_same and self.told is not None else self.xattrs

    @property
    def target(self) -> bytes | None:
        """Of a link."""
        is_link = stat.S_ISLNK(self.status.st_mode)
        return self.content.data if is_link and isinstance(self.content, SmallContent) else None

    def close(self) -> None:
        """Close the file."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


def attributes_of_status(status: os.stat_result) -> FileAttributes:
    """What of a file's status travels with its object."""
    return FileAttributes(
        portable_mode(status.st_mode), status.st_uid, status.st_gid,
        bounded_ns(status.st_atime_ns), bounded_ns(status.st_mtime_ns),
    )  # fmt: skip


def open_for_sending(opened: OpenRepository, path: bytes, key: str) -> Sending:
    """Open what is to be sent. Raises OSError where it is gone or cannot be read."""
    clock = opened.clock
    clock.read()
    if not path:
        status = os.fstat(opened.below.root)
        found = read_xattrs(opened.below.root)
        return Sending(path, key, status, None, SmallContent(b""), found, clock.recorded_ctime(status))
    directory, name = opened.below.parent(path)
    status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        raise FileNotFoundError(errno.ENOENT, "something else has come in its place", os.fsdecode(path))
    if not stat.S_ISREG(status.st_mode):
        ctime_ns = clock.recorded_ctime(status)
        body = os.readlink(name, dir_fd=directory) if stat.S_ISLNK(status.st_mode) else b""
        return Sending(
            path, key, status, None, SmallContent(body), read_xattrs(at(directory, name)), ctime_ns
        )
    descriptor = open_for_reading(name, directory)
    try:
        looks = opened.known.looks
        content = UnreadContent(os.fstat(descriptor)) if looks else FileContent(descriptor, clock)
        if reason := why_too_large(content.size):
            raise OSError(errno.EFBIG, reason, os.fsdecode(path))
        names = xattr_names(descriptor)
        found = read_xattrs(descriptor, names) if names else None
        sending = Sending(path, key, content.status, descriptor, content, found, content.ctime_ns)
        sending.has_state = bool(names) and attribute_name() in names
        return sending
    except BaseException:
        os.close(descriptor)
        raise


def flush_many(opened: OpenRepository) -> None:
    """Write what is in memory alone of all files where many are to be sent, faster than of each."""
    if opened.known.count_work().get(Action.SEND, (0, 0))[0] >= _MANY:
        # What cannot be written is named with its file.
        with suppress(OSError):
            sync_file_system(opened.below.root)


def bound(sending: Sending, report: RepositoryReport) -> None:
    """Leave out, and name, what no row and no manifest can have."""
    if sending.xattrs is not None and len(sending.xattrs) > LONGEST_XATTRS:
        sending.xattrs = None
        report.problem(sending.path, "its extended attributes are too large, and were left out")
    if sending.attributes.mtime_ns != sending.status.st_mtime_ns:
        report.note_of(
            "have a time beyond the years 1677 to 2262, kept as the nearest one",
            sending.path,
            sending.status.st_mode,
        )


def refuse_without_content(opened: OpenRepository, descriptor: int) -> None:
    """Raise WithoutContent for a name only that is not full of content of its own."""
    with suppress(StateError):
        state, status = read_state(descriptor), os.fstat(descriptor)
        if state is None or not state.is_name_only:
            return
        with suppress(GridwrightError):  # No Lustre, or not root.
            if opened.released_names.is_released(descriptor):
                raise WithoutContent(_RELEASED)
        if _has_hole(descriptor, status.st_size):
            raise WithoutContent(
                "it was written to before all its content was here; write it anew as a whole"
            )


def _has_hole(descriptor: int, size: int) -> bool:
    # Blocks are no measure: attributes have some, and file systems take more than a file has.
    return size > 0 and os.lseek(descriptor, 0, os.SEEK_HOLE) < size


def condition_of(
    opened: OpenRepository, sending: Sending, row: KnownFile | None, prefer: Prefer | None
) -> WriteCondition:
    """Over which object one may be written. Raises OSError, and WithoutContent for one that has to stay."""
    if row is not None and row.inode != signed_inode(sending.status.st_ino):
        why = why_only_copy(opened.settings.directory, row)
        if why is not None:
            raise WithoutContent(why)
    key, is_directory = sending.key, sending.key.endswith("/")
    if prefer == "files" and not is_directory:
        return ANY
    # Nothing empty takes the place of content: such an object is no directory's.
    if row is None or row.key != key or (is_directory and row.size > 0):
        return _NONE_THERE
    if row.is_only_in_bucket:
        # Who makes a file where one was released may not know of that one, whose only copy the object is.
        state = own_state(sending.descriptor) if sending.descriptor is not None else None
        if state is None or state.reference.etag != row.etag:
            return _NONE_THERE
    return WriteCondition(etag=row.etag)


def send(
    opened: OpenRepository, sending: Sending, condition: WriteCondition, moved: Callable[[int], None]
) -> Future[WrittenObject]:
    """Have it sent in the background."""
    return opened.store.send(sending.key, sending.content, metadata_of(sending.stored), condition, moved)


def row_of(
    opened: OpenRepository,
    sending: Sending,
    stored: WrittenObject,
    link_of: bytes | None,
    before: KnownFile | None,
) -> KnownFile:
    """The row of what is equal on both sides. The file's own attribute is written, where it can have one.

    `before` is the row that has the same content, where none was sent.

    Its ctime is the one from before the content was read: what was changed since, the next scan finds.
    """
    status, content = sending.status, sending.content
    attributes = sending.attributes
    crc64 = before.crc64 if before else stored.crc64
    if before is None and isinstance(content, FileContent) and content.is_read:
        crc64 = content.crc64
    row = KnownFile(
        path=sending.path, mode=attributes.mode, uid=attributes.uid, gid=attributes.gid,
        size=0 if attributes.is_directory else content.size, blocks=status.st_blocks,
        atime_ns=attributes.atime_ns, mtime_ns=attributes.mtime_ns, ctime_ns=sending.ctime_ns,
        inode=signed_inode(status.st_ino), links=status.st_nlink, key=sending.key or None, etag=stored.etag,
        version_id=stored.version_id, crc64=crc64, target=sending.target, xattrs=sending.xattrs,
        link_of=link_of, is_name_only=before is not None and before.is_name_only and before.inode != 0,
        stored_ns=stored.stored_ns,
    )  # fmt: skip
    if sending.descriptor is not None:
        if (
            before is not None
            and (state := own_state(sending.descriptor))
            and state.reference.etag == before.etag
        ):
            # An agent has restored it, and knows nothing of rows, or a release was killed: the file says it.
            row.is_name_only = is_released_as(opened, sending.descriptor, before)
        if opened.is_guarded and not opened.known.looks:
            mark_exported(sending.descriptor, row, opened.settings.bucket_url, status)
    return row


def first_name(opened: OpenRepository, sending: Sending) -> bytes | None:
    """The first name of a file with several, if this is another one."""
    status, known = sending.status, opened.known
    if sending.descriptor is None or status.st_nlink < 2:
        return None
    first = known.first_names.get(status.st_ino)
    if first is None:
        rows = known.by_inode(status.st_ino)
        names = [row.path for row in rows if row.link_of is None and known.was_seen(row.path)]
        first = min(names, default=sending.path)
        known.first_names.keep(status.st_ino, first)
    return None if first == sending.path else first


def is_untouched(opened: OpenRepository, sending: Sending, row: KnownFile) -> bool:
    """Whether the content of an open file is that of its row; it is read where nothing else tells.

    Raises OSError, and StoreError where the store has to be asked.
    """
    if is_stored_as(row.mtime_ns, sending.status.st_mtime_ns):
        return has_known_content(opened, sending, row)
    return sending.descriptor is not None and is_released_as(opened, sending.descriptor, row)


def has_known_content(opened: OpenRepository, sending: Sending, row: KnownFile) -> bool:
    """As `is_untouched`, of a file with any times."""
    descriptor = sending.descriptor
    if descriptor is None:
        return sending.target == row.target
    if sending.content.size != row.size:
        return False
    if is_released(opened, descriptor):
        return is_released_as(opened, descriptor, row)
    if row.crc64 is not None:
        return crc64_of(descriptor) == row.crc64
    if row.key is None:
        return False
    return is_same_content(descriptor, opened.store.head(row.key).result()) is True


def former_row(opened: OpenRepository, sending: Sending) -> KnownFile | None:
    """The row of a file under the name that it had, if it was renamed and its object is to be copied.

    None where its new key is listed, and where it is small: then its content is sent. But where it is a name
    only, nothing is here to be sent. Raises OSError.
    """
    known, state = opened.known, None if sending.descriptor is None else own_state(sending.descriptor)
    is_small = sending.content.size <= MOST_SENT_ANEW and not (state and state.is_name_only)
    if is_small or known.listed(sending.key) is not None:
        return None
    for row in known.by_inode(sending.status.st_ino):
        if row.key is None or not row.attributes.is_file:
            continue
        descriptor = sending.descriptor
        is_released_here = descriptor is not None and is_released_as(opened, descriptor, row)
        if known.was_seen(row.path) and not is_released_here:
            # Another name of the same file: of a released one the object is copied, as no content is here.
            continue
        with suppress(StoreError):
            if is_untouched(opened, sending, row):
                return row
    return None


MOST_SENT_ANEW = 1 << 20
"""Bytes of a renamed file that is sent under its new name, by one PUT; the object of a larger one is copied.

A copy takes one request of a store that heeds conditions of copies, and three of any other. With versitygw
1.8.0 200 files of 64 KiB took 1.1 s to send and 4.1 s to copy, 90 files of 1 MiB 2.2 s and 3.5 s; from 4 MiB
on both took the same. A line of 1 Gbit/s carries 1 MiB in 8 ms, as long as each of a dozen copies at once of
0.1 s: from there on copies are sooner done.
"""


def has_content(opened: OpenRepository, sending: Sending, head: ObjectHead) -> bool:
    """Whether an object has what is to be sent. Raises OSError, StoreError."""
    if sending.descriptor is not None:
        return is_same_content(sending.descriptor, head) is True
    data = sending.content.data if isinstance(sending.content, SmallContent) else b""
    return head.entry.size == len(data) and (not data or opened.store.get(sending.key) == data)


def mark_exported(descriptor: int, row: KnownFile, bucket_url: str, status: os.stat_result) -> None:
    """Write the file's own attribute, which Lustre's agents need; its ctime is a new one, and proves nothing.

    No other file has one: whoever writes it changes the ctime, after which the content would be read again.
    """
    if row.link_of is not None or not is_same_moment(status, os.fstat(descriptor)):
        return
    own, state = own_state(descriptor), row.state(bucket_url)
    if own is not None and state.is_name_only:
        # Released here, unless it is a name that was imported: its layout is its own.
        state = replace(state, had_content=own.had_content or not own.is_name_only)
    # Who loads the file may write it just now, and only he.
    if own != state:
        with suppress(OSError):
            write_state(descriptor, state)
            row.ctime_ns = UNKNOWN


def check_stored(store: ObjectStore, sending: Sending, stored: WrittenObject) -> WrittenObject:
    """Hold what the store says that it has to what was sent; asks for it where it was not said.

    Raises StoreError.
    """
    content = sending.content
    if not isinstance(content, FileContent):
        return stored
    if content.size == 0:
        content.check()
    if stored.crc64 is None:
        head = store.head(sending.key).result()
        if head.entry.etag != stored.etag or head.entry.size != content.size:
            raise StoreError(StoreFault.CHANGED, sending.key, "somebody else has written it meanwhile")
        if head.crc64 is None and head.has_md5 and not head.parts and sending.descriptor is not None:
            # Nothing but the ETag tells whether all arrived: it has to be that of the file as it was read.
            found = etag_of(sending.descriptor)
            content.check()
            if found != stored.etag:
                said = f"its MD5 is {stored.etag} where {found} was sent"
                raise StoreError(StoreFault.DAMAGED, sending.key, said)
        stored = WrittenObject(
            stored.etag, stored.version_id or head.version_id, head.crc64, head.entry.last_modified_ns
        )
    if stored.crc64 is not None and stored.crc64 != content.crc64:
        raise StoreError(
            StoreFault.DAMAGED, sending.key, f"it has CRC {stored.crc64} where {content.crc64} was sent"
        )
    return stored
