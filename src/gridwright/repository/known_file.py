"""A file, a directory or a symbolic link as it was when it and its object were equal."""

from __future__ import annotations

import re
import stat
import time
from dataclasses import dataclass, fields, replace
from itertools import product
from operator import attrgetter
from typing import TYPE_CHECKING, TypeAlias

from gridwright.repository.extended import LONGEST_XATTRS, are_attributes
from gridwright.repository.file_clock import bounded_ns
from gridwright.repository.object_format import (
    LATEST_NS,
    MOST_ID,
    FileAttributes,
    portable_mode,
    why_no_target,
)
from gridwright.repository.references import ContentPlace, FileState, ObjectReference

if TYPE_CHECKING:
    from gridwright.repository.walking import FileStatus


@dataclass(slots=True)
class KnownFile:
    """A file, a directory or a symbolic link, and its object, as both were when they were equal.

    What is only true on one file system (ctime, inode) is 0 where the row came from the bucket's manifest.
    """

    path: bytes
    mode: int
    """st_mode, with the type."""
    uid: int
    gid: int
    size: int
    blocks: int
    """512-byte blocks: fewer than the size needs where the file has holes."""
    atime_ns: int
    mtime_ns: int
    ctime_ns: int
    """`file_clock.UNKNOWN` where it does not tell whether the file was touched since."""
    inode: int
    links: int
    key: str | None
    """None for the repository's own directory where the bucket has no prefix."""
    etag: str
    version_id: str | None
    crc64: str | None
    target: bytes | None
    """Of a symbolic link."""
    xattrs: bytes | None
    """Extended attributes and ACLs, as `extended.encode` writes them; None for none."""
    link_of: bytes | None
    """The path of the first of a set of hard links, in the order of paths; None for a file with one name."""
    is_name_only: bool
    """No content of it is here: a released file or, where `inode` is 0, no file at all."""
    stored_ns: int = 0
    """Since 1970, by the store's clock: an object that was written later is another one, or has other
    attributes; 0 where that is not known."""
    libraries: str = ""
    """The libraries that have this very file here, as the manifest said last: identifiers, a space between
    each two. This library's own counts there alone: what is here, this row says by its inode."""

    @property
    def attributes(self) -> FileAttributes:
        """What travels with the object."""
        return FileAttributes(self.mode, self.uid, self.gid, self.atime_ns, self.mtime_ns)

    def reference(self, bucket_url: str) -> ObjectReference:
        """Its object."""
        return ObjectReference(bucket_url, self.key or "", self.etag, self.version_id, self.size)

    def is_of(self, etag: str, modified_ns: int) -> bool:
        """Whether an object of a listing is the known one: a copy onto itself has new attributes at most."""
        return self.etag == etag and not 0 < self.stored_ns < modified_ns

    @property
    def rights(self) -> tuple[int, int, int, bytes | None]:
        """What says who may do what with it, and what else users said of it."""
        return self.mode, self.uid, self.gid, self.xattrs

    @property
    def is_only_in_bucket(self) -> bool:
        """Whether it is known that no file is here, since it was released, or never brought."""
        return bool(self.is_name_only) and not self.inode

    def other_libraries(self, own: str) -> list[str]:
        """The libraries that have this very file, without `own`."""
        return [each for each in self.libraries.split() if each != own]

    def is_of_others(self, own: str) -> bool:
        """Whether nothing is known of how a file here was: the library `own` never had this very one."""
        return not self.inode and own not in self.libraries

    def not_here(self) -> KnownFile:
        """The row of the same object, with no file here."""
        is_name_only = not self.attributes.is_directory
        return replace(self, inode=0, ctime_ns=0, is_name_only=is_name_only)

    def was_given_others(self, told: KnownFile | None) -> bool:
        """Whether its object, with the same content, was given other attributes since, by the manifest.

        A copy of an object onto itself has the same ETag, and at some stores (versitygw) its old date, too.
        """
        return told is not None and told.etag == self.etag and told.stored_ns > self.stored_ns

    def is_version_of(self, told: KnownFile | None) -> bool:
        """Whether another row is of the very same object, with the attributes that it had then."""
        return told is not None and (told.etag, told.stored_ns) == (self.etag, self.stored_ns)

    def after(self, *before: KnownFile | None) -> KnownFile:
        """The row of an object that was written after others: of two within a second the later one shows.

        What the manifest alone has, has the time of this machine.
        """
        moments = [each.stored_ns + 1 for each in before if each is not None]
        latest_ns = min(max((self.stored_ns or time.time_ns(), *moments)), LATEST_NS)
        return self if latest_ns == self.stored_ns else replace(self, stored_ns=latest_ns)

    def is_later(self, other: KnownFile) -> bool:
        """Whether its object was written after that of another row of the path, or after that was told of.

        Times of objects are whole seconds: of two in one, that of the manifest is the later one.
        """
        if self.stored_ns == other.stored_ns:
            return self.etag != other.etag
        return self.stored_ns > other.stored_ns

    def state(self, bucket_url: str) -> FileState:
        """What the file's own attribute is to say."""
        place = ContentPlace.NAME_ONLY if self.is_name_only else ContentPlace.EXPORTED
        return FileState(self.reference(bucket_url), place, self.mtime_ns, self.crc64)


FileStamp: TypeAlias = tuple[int, int, int, int, int]
"""Type, size, mtime, ctime and inode: what differs of a file that was touched."""


def signed_inode(number: int) -> int:
    """An inode's number as a row has it: SQLite has 63 bits and a sign."""
    return number - (1 << 64) if number >> 63 else number


def stamp_of(status: FileStatus) -> FileStamp:
    """The stamp of a file that was looked at, within the bounds of a row. A directory's size says nothing."""
    kind = stat.S_IFMT(status.st_mode)
    size = 0 if kind == stat.S_IFDIR else status.st_size
    mtime_ns, ctime_ns = bounded_ns(status.st_mtime_ns), bounded_ns(status.st_ctime_ns)
    return kind, size, mtime_ns, ctime_ns, signed_inode(status.st_ino)


def sent_stamp(status: FileStatus) -> bytes:
    """What the object of a file says of it, without when it was read, and the file's inode and ctime.

    The ctime of a directory says nothing of it.
    """
    is_directory = stat.S_ISDIR(status.st_mode)
    size, ctime_ns = (0, 0) if is_directory else (status.st_size, bounded_ns(status.st_ctime_ns))
    values = portable_mode(status.st_mode), status.st_uid, status.st_gid, bounded_ns(status.st_mtime_ns), size
    return _STAMPED % (*values, signed_inode(status.st_ino), ctime_ns)


def is_stamped(path: object, stamp: object) -> bool:
    """Whether a path and a stamp are such; others say nothing."""
    if not isinstance(path, bytes) or not isinstance(stamp, bytes) or _STAMP.fullmatch(stamp) is None:
        return False
    return not path or is_path_below(path)


def row_stamp(row: KnownFile) -> bytes:
    """That of a file as a row knows it."""
    return _STAMPED % (row.mode, row.uid, row.gid, row.mtime_ns, row.size, row.inode, row.ctime_ns)


COLUMNS = tuple(field.name for field in fields(KnownFile))
_BOUNDS = (
    ("uid", 0, MOST_ID), ("gid", 0, MOST_ID), ("size", 0, 2**63 - 1),
    *((name, -LATEST_NS, LATEST_NS) for name in ("atime_ns", "mtime_ns", "ctime_ns", "stored_ns")),
    *((name, -(1 << 63), LATEST_NS) for name in ("blocks", "inode", "links")),
)  # fmt: skip
_FILE_TYPES = frozenset((stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK))
_values = attrgetter(*COLUMNS)
LONGEST_PATH = 4096
"""Bytes of a path or a key: PATH_MAX of Linux."""
_LONGEST_TEXT = 1024
"""Of an ETag or the identifier of a version; those of S3 have at most 1024 bytes."""
_STAMPED = b"%d %d %d %d %d %d %d"
_STAMP = re.compile(rb"[0-9]{1,20}( -?[0-9]{1,20}){5,6}")
"""Earlier releases noted no ctime."""
_CRC64 = re.compile(r"[0-9a-f]{16}", re.ASCII)
_LEADS_ELSEWHERE = re.compile(rb"(?:\A|/)\.{0,2}(?:/|\Z)|\0")
"""An empty name, `.` or `..`, or a NUL."""
_LIBRARIES = re.compile(r"(?:[0-9a-f]{32}(?: [0-9a-f]{32})*)?", re.ASCII)


def _types_of(name: str) -> tuple[type, ...]:
    if name in ("target", "xattrs", "link_of"):
        return bytes, type(None)
    if name in ("key", "version_id", "crc64"):
        return str, type(None)
    return {"path": (bytes,), "etag": (str,), "libraries": (str,), "is_name_only": (int, bool)}.get(
        name, (int,)
    )


_SHAPES = frozenset(product(*map(_types_of, COLUMNS)))


def why_malformed(row: KnownFile) -> str | None:
    """Why no file can have the values of a row, or its path leads elsewhere; None for a good row."""
    if tuple(map(type, _values(row))) not in _SHAPES:
        wrong = (name for name in COLUMNS if type(getattr(row, name)) not in _types_of(name))
        return f"{next(wrong)} has a value of another type"
    leads = _LEADS_ELSEWHERE.search
    if (row.path and leads(row.path)) or (row.link_of and leads(row.link_of)):
        return "it leads out of the directory, or has an empty name"
    if not 0 <= row.mode < 1 << 16 or stat.S_IFMT(row.mode) not in _FILE_TYPES:
        return f"its mode is {row.mode:#o}, which no file, directory or symbolic link has"
    if not _are_within_bounds(row):
        for name, low, high in _BOUNDS:
            if not low <= getattr(row, name) <= high:
                return f"its {name} is {getattr(row, name)}"
    if row.libraries and not _LIBRARIES.fullmatch(row.libraries):
        return "its libraries are none"
    return None if row.target is None else why_no_target(len(row.target), row.target)


def _are_within_bounds(row: KnownFile) -> bool:
    """Whether a row surely is, in a tenth of the time that `_BOUNDS` take one by one."""
    return (
        0 <= row.uid <= MOST_ID
        and 0 <= row.gid <= MOST_ID
        and 0 <= row.size <= LATEST_NS
        and 0 <= row.blocks <= LATEST_NS
        and 0 <= row.inode <= LATEST_NS
        and 0 <= row.links <= LATEST_NS
        and 0 <= row.atime_ns <= LATEST_NS
        and 0 <= row.mtime_ns <= LATEST_NS
        and 0 <= row.ctime_ns <= LATEST_NS
        and 0 <= row.stored_ns <= LATEST_NS
    )


def why_unfit(row: KnownFile) -> str | None:
    """Why a row is malformed, or its values do not fit each other, or are longer than a manifest has them.

    What is written and what is read is held to this, so that no file makes a manifest that nobody reads.
    """
    if reason := why_malformed(row):
        return reason
    kind, target = stat.S_IFMT(row.mode), row.target
    if (kind == stat.S_IFLNK) != (target is not None) or (target and len(target) != row.size):
        return "its target is not that of a symbolic link of its size"
    if kind == stat.S_IFDIR and row.size:
        return "its object has content, which no directory can have"
    if row.link_of is not None and (row.link_of == row.path or kind != stat.S_IFREG):
        return "its other name is not that of a file"
    return _why_longer(row)


def _why_longer(row: KnownFile) -> str | None:
    """Why a manifest has no place for a row, or nobody can have written its attributes."""
    key, version = row.key or "", row.version_id or ""
    if max(len(row.path), 4 * len(key), len(row.link_of or b"")) > LONGEST_PATH:
        longest = max(len(row.path), len(key.encode()), len(row.link_of or b""))
        if longest > LONGEST_PATH:
            return f"its path, key or other name has {longest} bytes"
    text = 4 * max(len(row.etag), len(version))
    if text > _LONGEST_TEXT:
        text = max(len(row.etag.encode()), len(version.encode()))
    if text > _LONGEST_TEXT or not (row.crc64 is None or _CRC64.fullmatch(row.crc64)):
        return "its checksum is none, or its ETag or version is too long"
    if row.xattrs is not None and len(row.xattrs) > LONGEST_XATTRS:
        return f"its extended attributes have {len(row.xattrs)} bytes as JSON"
    if row.xattrs is not None and not are_attributes(row.xattrs):
        return "its extended attributes make no sense"
    return None


def is_path_below(path: bytes) -> bool:
    """Whether a path has names alone, none of which leads elsewhere."""
    return _LEADS_ELSEWHERE.search(path) is None
