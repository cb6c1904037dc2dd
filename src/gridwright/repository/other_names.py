"""The other names of a file that is sent: the one that it had before, and the first of several."""

from __future__ import annotations

from gridwright.repository.known_file import KnownFile
from gridwright.repository.sending import Sending
from gridwright.repository.settings import OpenRepository
from gridwright.repository.store import StoreError, StoreFault


def former_row(opened: OpenRepository, sending: Sending) -> KnownFile | None:
    """The row of a file under the name that it had, if it was renamed and nothing has its new key."""
    status, known = sending.status, opened.known
    for row in known.by_inode(status.st_ino):
        same = (row.size, row.mtime_ns) == (status.st_size, status.st_mtime_ns)
        if not same or row.key is None or not row.attributes.is_file or known.was_seen(row.path):
            continue
        try:
            opened.store.head(sending.key).result()
        except StoreError as error:
            if error.fault is StoreFault.NOT_THERE:
                return row
    return None


def first_name(opened: OpenRepository, sending: Sending) -> bytes | None:
    """The first name of a file with several, if this is another one."""
    status = sending.status
    if sending.descriptor is None or status.st_nlink < 2:
        return None
    known = opened.known
    first = known.first_name(status.st_ino)
    if first is None:
        rows = known.by_inode(status.st_ino)
        names = [row.path for row in rows if row.link_of is None and known.was_seen(row.path)]
        first = min(names, default=sending.path)
        known.set_first_name(status.st_ino, first)
    return None if first == sending.path else first
