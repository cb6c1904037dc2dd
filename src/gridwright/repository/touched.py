"""Whether a file that was touched still has the content of its object."""

from __future__ import annotations

from gridwright.repository.content import crc64_of, is_same_content
from gridwright.repository.known_file import KnownFile
from gridwright.repository.s3.parts import PART_BYTES
from gridwright.repository.sending import Sending, own_state
from gridwright.repository.settings import OpenRepository


def is_untouched(opened: OpenRepository, sending: Sending, row: KnownFile) -> bool:
    """Whether the content of an open file is that of its row; it is read where nothing else tells.

    Raises OSError, and StoreError where the store has to be asked.
    """
    descriptor = sending.descriptor
    if descriptor is None or sending.content.size != row.size or sending.status.st_mtime_ns != row.mtime_ns:
        return False
    state = own_state(descriptor)
    if state is not None and state.is_of(row.etag, sending.status) and (state.is_name_only or row.inode == 0):
        return True
    if row.crc64 is not None:
        return crc64_of(descriptor) == row.crc64
    if row.key is None:
        return False
    return is_same_content(descriptor, opened.store.head(row.key).result(), PART_BYTES) is True
