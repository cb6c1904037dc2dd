"""Whether a file, or a link, that was touched or renamed still has the content of its object."""

from __future__ import annotations

from contextlib import suppress

from gridwright.repository.content import crc64_of, is_same_content
from gridwright.repository.file_clock import is_kept_as
from gridwright.repository.known_file import KnownFile
from gridwright.repository.sending import Sending, own_state
from gridwright.repository.settings import OpenRepository
from gridwright.repository.store import ObjectHead, SmallContent, StoreError, StoreFault


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


def former_row(opened: OpenRepository, sending: Sending) -> KnownFile | None:
    """The row of a file under the name that it had, if it was renamed and nothing has its new key.

    Its object is copied then, and no content sent. Raises OSError.
    """
    known = opened.known
    for row in known.by_inode(sending.status.st_ino):
        if row.key is None or not row.attributes.is_file or known.was_seen(row.path):
            continue
        with suppress(StoreError):
            if is_untouched(opened, sending, row) and not _is_there(opened, sending.key):
                return row
    return None


def _is_there(opened: OpenRepository, key: str) -> bool:
    try:
        opened.store.head(key).result()
    except StoreError as error:
        if error.fault is StoreFault.NOT_THERE:
            return False
        raise
    return True
