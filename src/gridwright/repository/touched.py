"""Whether a file, or a link, that was touched still has the content of its object."""

from __future__ import annotations

from gridwright.repository.content import crc64_of, is_same_content
from gridwright.repository.file_clock import is_kept_as
from gridwright.repository.known_file import KnownFile
from gridwright.repository.sending import Sending, own_state
from gridwright.repository.settings import OpenRepository
from gridwright.repository.store import ObjectHead, SmallContent


def is_untouched(opened: OpenRepository, sending: Sending, row: KnownFile) -> bool:
    """Whether the content of an open file is that of its row; it is read where nothing else tells.

    Raises OSError, and StoreError where the store has to be asked.
    """
    descriptor = sending.descriptor
    if descriptor is None:
        return sending.target is not None and (sending.target, sending.xattrs) == (row.target, row.xattrs)
    if sending.content.size != row.size or not is_kept_as(row.mtime_ns, sending.status.st_mtime_ns):
        return False
    state = own_state(descriptor)
    if state is not None and state.is_name_only and state.is_of(row.etag, sending.status):
        # Nothing is here that could differ.
        return True
    if row.crc64 is not None:
        return crc64_of(descriptor) == row.crc64
    if row.key is None:
        return False
    return is_same_content(descriptor, opened.store.head(row.key).result()) is True


def has_content(opened: OpenRepository, sending: Sending, head: ObjectHead) -> bool:
    """Whether an object has what is to be sent. Raises OSError, StoreError."""
    if sending.descriptor is not None:
        return is_same_content(sending.descriptor, head) is True
    data = sending.content.data if isinstance(sending.content, SmallContent) else b""
    return head.entry.size == len(data) and (not data or opened.store.get(sending.key) == data)
