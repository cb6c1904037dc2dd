"""The name that a file had before it was renamed: its object is copied then, and no content sent."""

from __future__ import annotations

from contextlib import suppress

from gridwright.repository.known_file import KnownFile
from gridwright.repository.sending import Sending
from gridwright.repository.settings import OpenRepository
from gridwright.repository.store import StoreError, StoreFault
from gridwright.repository.touched import is_untouched


def former_row(opened: OpenRepository, sending: Sending) -> KnownFile | None:
    """The row of a file under the name that it had, if it was renamed and nothing has its new key."""
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
