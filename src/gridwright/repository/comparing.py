"""What became of a file since it and its object were equal."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from enum import Enum

from gridwright.errors import GridwrightError
from gridwright.repository.below import at
from gridwright.repository.content import crc64_of, etag_of, is_same_content, open_for_reading
from gridwright.repository.extended import encode, of_users, read_xattrs
from gridwright.repository.file_clock import UNKNOWN, bounded_ns, is_stored_as
from gridwright.repository.known_file import KnownFile, signed_inode
from gridwright.repository.object_format import ACCESSED, FileAttributes, metadata_of
from gridwright.repository.references import FileState, StateError, read_state
from gridwright.repository.scan import Action, action_for
from gridwright.repository.settings import OpenRepository
from gridwright.repository.store import ObjectEntry, ObjectHead, StoreError, StoreFault

Rights = tuple[int, int, int, bytes | None]
"""Mode, owner, group, extended attributes."""
Given = tuple[Rights, int]
"""Rights and mtime in ns: what users and imports give a file."""


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
    is_same = action is None or (action is Action.COMPARE and _is_untouched(opened, status, row))
    return FileSide.SAME if is_same else FileSide.CHANGED


def _is_untouched(opened: OpenRepository, status: os.stat_result, row: KnownFile) -> bool:
    """Whether a file of which nothing but the ctime is another one is as it was known. Raises OSError."""
    if xattrs_of(opened, row.path) != row.xattrs:
        return False
    return stat.S_ISDIR(status.st_mode) or holds_content_of(opened, status, row)


def xattrs_of(opened: OpenRepository, path: bytes) -> bytes | None:
    """The extended attributes that travel of what a path names, not followed. Raises OSError."""
    if not path:
        return read_xattrs(opened.below.root)
    return read_xattrs(at(*opened.below.parent(path)))


def holds_content_of(opened: OpenRepository, status: os.stat_result, row: KnownFile) -> bool:
    """Whether a file or a link has the content that its row says; it is read. Raises OSError."""
    if stat.S_IFMT(status.st_mode) != stat.S_IFMT(row.mode) or status.st_size != row.size:
        return False
    directory, name = opened.below.parent(row.path)
    if stat.S_ISLNK(status.st_mode):
        return os.readlink(name, dir_fd=directory) == row.target
    if not stat.S_ISREG(status.st_mode):
        return False
    descriptor = open_for_reading(name, directory)
    try:
        is_told_so = bool(os.geteuid() and row.is_name_only and row.inode)
        if is_told_so or is_released_as(opened, descriptor, row):
            return True
        return row.crc64 is not None and crc64_of(descriptor) == row.crc64
    finally:
        os.close(descriptor)


OTHER_ATTRIBUTES = (
    "its owner, permissions, times or attributes are others in the bucket, and nothing here says that they "
    "were changed here; both stay (gridwright repo import NAME --prefer objects takes the bucket's, "
    "gridwright repo export NAME --prefer files sends the file's)"
)


def rights_to_give(opened: OpenRepository, said: Rights, own: Rights) -> Rights:
    """The rights that an import gives a file that has its `own`: root alone gives owners, and not all."""
    low, high = opened.settings.ids
    uid, gid = (
        given if os.geteuid() == 0 and low <= given <= high else mine
        for given, mine in zip(said[1:3], own[1:3], strict=True)
    )
    return said[0], uid, gid, said[3]


def has_bucket_attributes(
    opened: OpenRepository, here: Rights, mtime_ns: int, said: Rights, said_ns: int
) -> bool:
    """Whether a file has the attributes that its object says, as far as an import gives them.

    Times in ns; that of a directory is of the names in it, and tells nothing of what users gave it.
    """
    *rights, xattrs = here
    given = None if xattrs is None else of_users(xattrs)[0]
    own = *rights, encode(given) if given else None
    is_moment = stat.S_ISDIR(here[0]) or is_stored_as(said_ns, mtime_ns)
    return is_moment and rights_to_give(opened, said, here) == own


def keeps_own_time(here_ns: int, known_ns: int, said_ns: int, told_ns: int | None = None) -> bool:
    """Whether the mtime that a directory has here stays, and goes to the bucket, beside what its object says.

    The later one of two that are both new does, in an import and in an export. `told_ns` is what the object
    said as the known one was given, where that was another one.
    """
    is_same = is_stored_as(said_ns, known_ns if told_ns is None else told_ns)
    return not is_stored_as(known_ns, here_ns) and (is_same or here_ns > said_ns)


def of_bucket(opened: OpenRepository, known: KnownFile) -> KnownFile:
    """What the bucket had of a file as it was known: it may have what the file could not be given."""
    newer = opened.known.newer.get(known.path)
    return newer if newer is not None and known.is_version_of(newer) else known


def time_to_give(opened: OpenRepository, row: KnownFile, status: os.stat_result, made_ns: int | None) -> int:
    """The mtime in ns that an import gives a directory that is here: that of its object, or its own.

    `made_ns` is that which it got as an import made it.
    """
    known, here_ns = opened.known.get(row.path), bounded_ns(status.st_mtime_ns)
    if os.geteuid() not in (0, status.st_uid):
        return row.mtime_ns  # It keeps those that this import gave it in passing.
    if made_ns is not None:
        is_kept = here_ns != made_ns and here_ns > row.mtime_ns
    else:
        is_kept = known is not None and bool(known.inode) and keeps_own_time(
            here_ns, known.mtime_ns, row.mtime_ns, of_bucket(opened, known).mtime_ns
        )  # fmt: skip
    return here_ns if is_kept else row.mtime_ns


class AttributesSide(Enum):
    """The attributes of a file of its object's content, beside those that the object was given since."""

    TAKEN = "taken"
    """The file has what the object says, or the object says nothing that it could take."""
    SAME = "same"
    """No user has given it others than were known: an import gives it those of the object, or the rest of
    them where one was killed."""
    CHANGED = "changed"
    """Both sides have others than were known."""


def attributes_side(here: Given, known: Given, said: Given) -> AttributesSide:
    """What the attributes of a file are beside those that were `known` and that its object is `said` to have.

    A directory that only got or lost names, which its time tells, was given no rights: of two times that are
    new the later one goes to the other side, without a conflict.
    """
    (rights, mtime_ns), (known_rights, known_ns), (said_rights, said_ns) = here, known, said
    is_directory = stat.S_ISDIR(rights[0])
    is_own = is_directory and (rights != known_rights or keeps_own_time(mtime_ns, known_ns, said_ns))
    if said_rights == known_rights and (is_own or is_stored_as(said_ns, known_ns)):
        return AttributesSide.TAKEN
    if said_rights == rights and said_ns == mtime_ns:
        return AttributesSide.TAKEN
    if is_directory:
        return AttributesSide.SAME if rights == known_rights else AttributesSide.CHANGED
    is_moment = is_stored_as(known_ns, mtime_ns) or is_stored_as(said_ns, mtime_ns)
    is_known = all(mine in each for mine, *each in zip(rights, known_rights, said_rights, strict=True))
    return AttributesSide.SAME if is_moment and is_known else AttributesSide.CHANGED


def own_state(descriptor: int) -> FileState | None:
    """What the file's own attribute says; None where it says nothing that can be read."""
    with suppress(StateError):
        return read_state(descriptor)
    return None


def is_released(opened: OpenRepository, descriptor: int) -> bool:
    """Whether an open file has no content here, so that reading it would wait for an agent. Raises OSError.

    Root asks Lustre, whether the command was told of the archive or not: whatever times the file was given,
    its content is that of its object then, as Lustre brings it before anybody writes.
    """
    state = own_state(descriptor)
    if os.geteuid() == 0 and (opened.is_guarded or (state is not None and state.is_name_only)):
        with suppress(GridwrightError):  # No Lustre: a name that an earlier release has left.
            return opened.released_names.is_released(descriptor)
    return state is not None and state.is_name_only and state.is_unchanged(os.fstat(descriptor))


def is_released_as(opened: OpenRepository, descriptor: int, row: KnownFile) -> bool:
    """Whether it is released, and has the content of this row's object. Raises OSError."""
    state = own_state(descriptor)
    if state is None or state.reference.etag != row.etag or os.fstat(descriptor).st_size != row.size:
        return False
    return is_released(opened, descriptor)


def note_restored(opened: OpenRepository) -> None:
    """Take files that a reader had restored for files that are here, and that are still to be compared."""
    if not opened.is_guarded or os.geteuid() != 0:
        return
    for row in opened.known.rows("is_name_only <> 0 AND inode <> 0"):
        with suppress(OSError):
            status = opened.below.status(row.path)
            # What has the name of a released file now tells nothing of that one: its object is the only copy.
            if status is None or signed_inode(status.st_ino) != row.inode:
                continue
            # A file without content has one block for tools that seek holes (ll_getattr of Lustre's client).
            if status.st_blocks == 1:
                continue
            directory, name = opened.below.parent(row.path)
            descriptor = open_for_reading(name, directory)
            try:
                if not opened.released_names.is_released(descriptor):
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
        told = opened.known.manifest_row(entry.key)
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
