"""What became of a file since it and its object were equal."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from enum import Enum

from gridwright.repository.below import at
from gridwright.repository.content import crc64_of, etag_of, is_same_content, open_for_reading
from gridwright.repository.file_clock import UNKNOWN
from gridwright.repository.known_file import KnownFile
from gridwright.repository.object_format import ACCESSED, FileAttributes, metadata_of
from gridwright.repository.references import StateError, read_state
from gridwright.repository.scan import Action, action_for
from gridwright.repository.settings import OpenRepository
from gridwright.repository.store import ObjectEntry, ObjectHead, StoreError, StoreFault


class FileSide(Enum):
    """A file beside what is known of it."""

    ABSENT = "absent"
    SAME = "same"
    CHANGED = "changed"
    """Changed, or never known."""


def file_side(
    opened: OpenRepository, path: bytes, status: os.stat_result | None, row: KnownFile | None
) -> FileSide:
    """What a file is beside its row. One that was touched without a trace is read. Raises OSError."""
    if status is None:
        return FileSide.ABSENT
    if row is None:
        return FileSide.CHANGED
    action = action_for(status, row)
    if action is None:
        return FileSide.SAME
    if action is Action.COMPARE and stat.S_ISREG(status.st_mode):
        directory, name = opened.below.parent(path)
        descriptor = open_for_reading(name, directory)
        try:
            if is_released(opened, row, descriptor) or (
                row.crc64 is not None and crc64_of(descriptor) == row.crc64
            ):
                return FileSide.SAME
        finally:
            os.close(descriptor)
    return FileSide.CHANGED


def is_released(opened: OpenRepository, row: KnownFile, descriptor: int) -> bool:
    """Whether an open file has no content here: root asks Lustre, as any other agent may have restored it.

    Raises OSError.
    """
    is_known = bool(row.is_name_only and row.inode)
    if not is_known or not opened.is_guarded or os.geteuid() != 0:
        return is_known
    return opened.released_names.is_released(descriptor)


def note_restored(opened: OpenRepository) -> None:
    """Take files that a reader had restored for files that are here, and that are still to be compared."""
    if not opened.is_guarded or os.geteuid() != 0:
        return
    for row in opened.known.rows("is_name_only <> 0 AND inode <> 0"):
        with suppress(OSError):
            status = opened.below.status(row.path)
            # A file without content has one block for tools that seek holes (ll_getattr of Lustre's client).
            if status is None or not stat.S_ISREG(status.st_mode) or status.st_blocks == 1:
                continue
            directory, name = opened.below.parent(row.path)
            descriptor = open_for_reading(name, directory)
            try:
                if not is_released(opened, row, descriptor):
                    row.is_name_only, row.ctime_ns = False, UNKNOWN
                    opened.known.put(row)
            finally:
                os.close(descriptor)


def is_name_only(opened: OpenRepository, path: bytes) -> bool:
    """Whether a file says of itself that its content is not here. Raises OSError."""
    directory, name = opened.below.parent(path)
    try:
        state = read_state(at(directory, name))
    except StateError:
        return False
    return state is not None and state.is_name_only


def has_attributes(head: ObjectHead, attributes: FileAttributes) -> bool:
    """Whether an object has the attributes of a file; when that was last read is no matter."""
    wanted = metadata_of(attributes)
    return all(head.metadata.get(name) == wanted[name] for name in wanted if name != ACCESSED)


def has_same_content(opened: OpenRepository, path: bytes, entry: ObjectEntry) -> bool:
    """Whether a file that nothing is known of is what its object is: after a kill, or made by another tool.

    Raises OSError, and StoreError.
    """
    directory, name = opened.below.parent(path)
    status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        target = os.readlink(name, dir_fd=directory)
        return len(target) == entry.size and opened.store.get(entry.key) == target
    if not stat.S_ISREG(status.st_mode) or status.st_size != entry.size:
        return False
    descriptor = open_for_reading(name, directory)
    try:
        try:
            state = read_state(descriptor)
        except StateError:
            state = None
        told = opened.known.told(entry.key)
        if told is not None and not told.is_of(entry.etag, entry.last_modified_ns):
            told = None
        if state is not None and state.is_name_only and state.is_unchanged(status):
            # Nothing is here that could differ; another name of the same file has an object of its own.
            is_same = told is not None and state.crc64 is not None and told.crc64 == state.crc64
            return is_same or state.reference.etag == entry.etag
        if told is not None and told.crc64 is not None:
            return crc64_of(descriptor) == told.crc64
        return is_same_content(descriptor, opened.store.head(entry.key).result()) is True
    finally:
        os.close(descriptor)


def check_brought(opened: OpenRepository, row: KnownFile, descriptor: int, crc64: str) -> None:
    """Hold what was fetched, with its CRC-64/NVME, to what is known of its object, and note the CRC.

    Where no CRC is known, an ETag that is an MD5 tells. Raises StoreError.
    """
    key, said = row.key or "", None
    if row.crc64 is not None and crc64 != row.crc64:
        said = f"its content has CRC {crc64} where {row.crc64} was exported"
    elif row.crc64 is None and "-" not in row.etag and etag_of(descriptor) != row.etag:
        head = opened.store.head(key, row.version_id).result()
        if is_same_content(descriptor, head) is False:
            said = f"its content has not the checksum that the store has of it (ETag {row.etag})"
    if said:
        raise StoreError(StoreFault.DAMAGED, key, said)
    row.crc64 = crc64
