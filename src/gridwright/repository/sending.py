"""One file, directory or link on its way to its object: begun in the background, and finished with a row."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass

from gridwright.repository.below import at
from gridwright.repository.content import FileContent, is_same_moment, open_for_reading
from gridwright.repository.extended import read_xattrs
from gridwright.repository.known_file import KnownFile
from gridwright.repository.object_format import FileAttributes, kept_mode, metadata_of
from gridwright.repository.references import FileState, StateError, read_state, write_state
from gridwright.repository.settings import OpenRepository
from gridwright.repository.store import (
    ObjectStore,
    SmallContent,
    StoreError,
    StoreFault,
    WriteCondition,
    WrittenObject,
)


class Hollow(Exception):
    """The file is a name only and was written to: sending it would send zeros for what is missing."""


@dataclass(slots=True)
class Sending:
    """What is under way for one path. Close it when it is finished."""

    path: bytes
    key: str
    status: os.stat_result
    descriptor: int | None
    """Of a file; None for a directory or a link."""
    content: FileContent | SmallContent
    xattrs: bytes | None
    attempt: int = 1

    @property
    def attributes(self) -> FileAttributes:
        """What travels with the object."""
        return attributes_of_status(self.status)

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
        kept_mode(status.st_mode), status.st_uid, status.st_gid, status.st_atime_ns, status.st_mtime_ns
    )


def open_for_sending(opened: OpenRepository, path: bytes, key: str) -> Sending:
    """Open what is to be sent. Raises OSError where it is gone or cannot be read."""
    if not path:
        status = os.fstat(opened.below.root)
        return Sending(path, key, status, None, SmallContent(b""), read_xattrs(opened.below.root))
    directory, name = opened.below.parent(path)
    status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if not stat.S_ISREG(status.st_mode):
        is_link = stat.S_ISLNK(status.st_mode)
        body = os.readlink(name, dir_fd=directory) if is_link else b""
        return Sending(path, key, status, None, SmallContent(body), read_xattrs(at(directory, name)))
    descriptor = open_for_reading(name, directory)
    try:
        content = FileContent(descriptor)
        return Sending(path, key, content.status, descriptor, content, read_xattrs(descriptor))
    except BaseException:
        os.close(descriptor)
        raise


def refuse_hollow(descriptor: int) -> None:
    """Raise Hollow for a name only that is not full of content of its own."""
    with suppress(StateError):
        state, status = read_state(descriptor), os.fstat(descriptor)
        if state is not None and state.is_name_only and _has_hole(descriptor, status.st_size):
            raise Hollow


def _has_hole(descriptor: int, size: int) -> bool:
    # Blocks are no measure: attributes have some, and file systems take more than a file has.
    return size > 0 and os.lseek(descriptor, 0, os.SEEK_HOLE) < size


def send(
    opened: OpenRepository, sending: Sending, condition: WriteCondition, moved: Callable[[int], None]
) -> Future[WrittenObject]:
    """Have it sent in the background."""
    return opened.store.send(sending.key, sending.content, metadata_of(sending.attributes), condition, moved)


def row_of(
    opened: OpenRepository,
    sending: Sending,
    stored: WrittenObject,
    link_of: bytes | None,
    before: KnownFile | None,
) -> KnownFile:
    """The row of what is equal on both sides. The file's own attribute is written, where it can have one.

    `before` is the row that has the same content, where none was sent.

    A file that was changed after its last byte had left keeps a row that the next scan finds to be old.
    """
    status, content = sending.status, sending.content
    crc64 = before.crc64 if before else stored.crc64
    if before is None and isinstance(content, FileContent) and content.is_read:
        crc64 = content.crc64
    row = KnownFile(
        path=sending.path, mode=kept_mode(status.st_mode), uid=status.st_uid, gid=status.st_gid,
        size=0 if stat.S_ISDIR(status.st_mode) else content.size, blocks=status.st_blocks,
        atime_ns=status.st_atime_ns, mtime_ns=status.st_mtime_ns, ctime_ns=status.st_ctime_ns,
        inode=status.st_ino, links=status.st_nlink, key=sending.key or None, etag=stored.etag,
        version_id=stored.version_id, crc64=crc64, target=sending.target, xattrs=sending.xattrs,
        link_of=link_of, is_name_only=before is not None and before.is_name_only,
        stored_ns=stored.stored_ns,
    )  # fmt: skip
    if sending.descriptor is not None:
        state = own_state(sending.descriptor) if before is not None else None
        if before is not None and state is not None and state.reference.etag == before.etag:
            # Somebody has loaded or released it, and knows nothing of rows, or was killed: the file says it.
            row.is_name_only = state.is_name_only
        row.ctime_ns = mark_exported(sending.descriptor, row, opened.settings.bucket_url, status)
    return row


def own_state(descriptor: int) -> FileState | None:
    """What the file's own attribute says; None where it says nothing that can be read."""
    with suppress(StateError):
        return read_state(descriptor)
    return None


def mark_exported(descriptor: int, row: KnownFile, bucket_url: str, status: os.stat_result) -> int:
    """Write the file's own attribute; the ctime to be known, an old one where the file was changed."""
    before = os.fstat(descriptor)
    if before.st_ctime_ns != status.st_ctime_ns and not is_same_moment(status, before):
        return status.st_ctime_ns
    if row.link_of is None:
        state = row.state(bucket_url)
        # Who loads the file may write it just now, and only he.
        if own_state(descriptor) != state:
            with suppress(OSError):
                write_state(descriptor, state)
    after = os.fstat(descriptor)
    return after.st_ctime_ns if is_same_moment(status, after) else status.st_ctime_ns


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
        stored = WrittenObject(
            stored.etag, stored.version_id or head.version_id, head.crc64, head.entry.last_modified_ns
        )
    if stored.crc64 is not None and stored.crc64 != content.crc64:
        raise StoreError(
            StoreFault.DAMAGED, sending.key, f"it has CRC {stored.crc64} where {content.crc64} was sent"
        )
    return stored
